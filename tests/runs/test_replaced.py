"""Files that are replaced while a process lives: what it shows is of the files that are there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.damaged_files import flip
from helpers.suite_marks import few, slow

from mirrorbench import Session
from mirrorbench.core.errors import DeviceMemoryError
from mirrorbench.core.specs import parse_spec
from mirrorbench.models import backbones
from mirrorbench.models.fingerprints import fingerprint, unchanged_backbone
from mirrorbench.models.transformer import load_transformer


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "results", cache=tmp_path / "cache", device="cpu", offline=True)


@pytest.fixture
def newcomer(tmp_path: Path) -> Session:
    """One with folders of its own."""
    return Session(tmp_path / "new", cache=tmp_path / "new-cache", device="cpu", offline=True)


def scores(session: Session, spec: str) -> list[float]:
    board = session.run(spec, "quick-sts", limit=30)
    assert not board.failures
    return [result.main_score for result in board.results]


@pytest.mark.parametrize("spec", few(["{0}", "sbert:path={0}"], suite=slow))
def test_encoder_retuned_in_place_gets_new_scores(
    session: Session, newcomer: Session, tmp_path: Path, spec: str
) -> None:
    encoder = tmp_path / "enc"
    found = []
    for texts in (
        [f"a line about {n} cats" for n in range(20)],
        [f"{n} dogs ran" for n in range(30)],
    ):
        session.tune(texts, "tiny+mirror:lr=1e-3", encoder, force=True, held_out=0)
        found.append(scores(session, spec.format(encoder)))
    copy = shutil.copytree(encoder, tmp_path / "copy")  # of which nobody can remember anything
    assert found[0] != found[1] == scores(newcomer, spec.format(copy))
    # and what it stored is true for those who come later
    shutil.rmtree(tmp_path / "results")
    assert scores(session, spec.format(encoder)) == found[1]


@pytest.mark.parametrize(
    "spec", few(["{0}+base:pooling=mean", "{0}+mirror", "sbert:path={0}", "{0}+static"])
)
def test_files_changed_after_planning_fail_their_cells(
    session: Session, tmp_path: Path, random_model: Callable[[str], Path], spec: str
) -> None:
    path = shutil.copytree(random_model("bert"), tmp_path / "bert")
    planned = session.plan(spec.format(path), "quick-sts")
    flip(path / "model.safetensors")
    (failure,) = session.execute(planned).failures
    assert "changed after" in failure.reason
    assert not list((tmp_path / "cache").glob("embeddings/*"))
    assert scores(session, spec.format(path))  # started again, as it says


def test_weights_are_not_memory_mapped(tmp_path: Path, random_model: Callable[[str], Path]) -> None:
    """Otherwise a file that is overwritten after it was opened would change the model."""
    path = shutil.copytree(random_model("bert"), tmp_path / "bert")
    with unchanged_backbone(path, fingerprint(path)):
        model = load_transformer(path, torch.device("cpu")).model
    before = [weight.clone() for weight in model.parameters()]
    file = path / "model.safetensors"
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        stream.write(bytes(file.stat().st_size // 2))
    assert all(map(torch.equal, before, model.parameters()))


def test_transformation_changed_after_planning_is_not_read(
    session: Session, tmp_path: Path
) -> None:
    texts = ["one text", "two texts", "three of them"] * 9
    session.tune(texts, "tiny+mirror:post=center", tmp_path / "enc", held_out=0)
    spec = parse_spec(f"{tmp_path / 'enc'}:post=stored")
    planned = session.plan(str(spec), "quick-sts")
    flip(backbones.stored_transformation(spec))
    (failure,) = session.execute(planned).failures
    assert "changed after" in failure.reason


def test_opening_without_memory_raises_device_memory_error(
    random_model: Callable[[str], Path],
) -> None:
    with pytest.raises(
        DeviceMemoryError, match="no memory left on the device to open the model in"
    ):
        load_transformer(
            random_model("bert"), torch.device("cpu"), lambda config: torch.empty(1 << 50)
        )
