"""A tuned encoder is written whole or not at all, and nothing of a user's is lost."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.random_models import Models
from helpers.tuning_lines import LINES
from sentence_transformers import SentenceTransformer

import mirrorbench
from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.runs.encoder_loading import tune_model
from mirrorbench.storage.output_folders import beside
from mirrorbench.texts.export import check_output, claiming, replacing


def names(folder: Path) -> set[str]:
    """What is in a folder, the cache of the tests aside."""
    return {path.name for path in folder.iterdir()} - {"default-cache"}


def test_replacing_needs_force_and_no_user_files(tmp_path: Path, exported: Any) -> None:
    folder = tmp_path / "enc"
    first = exported.copy(folder)
    with pytest.raises(UsageError, match="already holds an encoder") as caught:
        mirrorbench.tune(LINES, str(exported.backbone), folder, held_out=0, device="cpu", seed=1)
    assert "--force" in caught.value.hint
    assert (folder / "model.safetensors").read_bytes() == first
    SentenceTransformer(str(folder), device="cpu").save(str(folder))
    check_output(folder, force=True)
    files = [".git/HEAD", "1_WeightedLayerPooling/notes.txt", "results/a.json", "train.py"]
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("years of work")
    with pytest.raises(
        UsageError, match=r"\(\.git, 1_WeightedLayerPooling/notes.txt, results and 1 more\)"
    ):
        mirrorbench.tune(
            LINES, str(exported.backbone), folder, held_out=0, device="cpu", seed=1, force=True
        )
    assert {(folder / name).read_text() for name in files} == {"years of work"}


@pytest.mark.parametrize("force", [False, True])
def test_invalid_output_folder_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    monkeypatch.chdir(tmp_path)
    for output, message in (
        (".", "working directory"),
        ("..", "working directory"),
        (tmp_path, "working directory"),
        ("/", "mount point"),
        ("mine", "nothing was changed"),
        ("mine/thesis.tex", "a file"),
        (os.fsdecode(b"n\xff"), "is not valid utf-8"),
    ):
        with pytest.raises(UsageError, match=message):
            mirrorbench.tune(LINES, "tiny", output, device="cpu", force=force)
    check_output(Path("enc"), force)
    assert names(tmp_path) == {"mine"}


def test_failed_export_leaves_the_old_encoder(tmp_path: Path) -> None:
    output = tmp_path / "enc"
    output.mkdir()
    (output / "mirrorbench.json").touch()

    def write(error: BaseException) -> None:
        with (
            claiming(output, force=True) as workplace,
            replacing(output, workplace, force=True) as folder,
        ):
            (folder / "half").touch()
            raise error

    for error, told in (
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(28, "No space left"), StorageError),
    ):
        with pytest.raises(told):
            write(error)
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*")] == [
        Path("enc"),
        Path("enc/mirrorbench.json"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before", "between", "after"])
def test_next_start_recovers_from_a_killed_export(
    tmp_path: Path, exported: Any, point: str, started: Callable[..., Any]
) -> None:
    model, folder = exported.backbone, tmp_path / "enc"
    first = exported.copy(folder)
    process = started("tune", tmp_path, model, point)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert folder.exists() == (point != "between")
    assert names(tmp_path) - {"enc"} == {".enc.mirrorbench"}
    with pytest.raises(UsageError, match="already holds an encoder"):
        mirrorbench.tune(LINES, model, folder, held_out=0, device="cpu")
    assert names(tmp_path) == {"enc"}
    assert ((folder / "model.safetensors").read_bytes() == first) == (point != "after")
    mirrorbench.load(folder, device="cpu").encode(LINES)


def test_recovery_keeps_the_old_encoder_on_conflict(tmp_path: Path) -> None:
    output = tmp_path / "enc"
    with beside(
        output
    ) as workplace:  # as a process left it that was killed between the two renames
        for name in ("new", "old"):
            (workplace / name).mkdir()
            (workplace / name / "mirrorbench.json").write_text(name)
    output.mkdir()
    (output / "thesis.tex").touch()
    with (
        pytest.raises(StorageError, match="now holds something else"),
        claiming(output, force=True),
    ):
        pytest.fail("it is not known which of the two is wanted")
    assert (workplace / "old" / "mirrorbench.json").read_text() == "old"
    shutil.rmtree(output)
    with claiming(output, force=True):
        assert (output / "mirrorbench.json").read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def test_unwritable_output_fails_before_tuning(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mirrorbench.runs.encoder_loading.tune_model", lambda *rest: pytest.fail("it is too early")
    )
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"Not a directory|File exists") as caught:
        mirrorbench.tune(
            LINES, random_model("bert"), tmp_path / "file" / "enc", held_out=0, device="cpu"
        )
    assert caught.value.hint == "A file is where a folder must be: name another output."
    with beside(tmp_path / "enc"), pytest.raises(UsageError, match="being written by process"):
        mirrorbench.tune(LINES, random_model("bert"), tmp_path / "enc", held_out=0, device="cpu")


@pytest.mark.parametrize("force", [False, True])
def test_output_created_during_tuning_is_not_overwritten(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    spec, folder = f"{random_model('bert')}+mirror", tmp_path / "enc"

    def meanwhile(*rest: Any) -> Any:
        folder.mkdir()
        (folder / ("thesis.tex" if force else "mirrorbench.json")).write_text("years of work")
        return tune_model(*rest)

    with monkeypatch.context() as patch:
        patch.setattr("mirrorbench.runs.encoder_loading.tune_model", meanwhile)
        with pytest.raises(
            UsageError, match="nothing was changed" if force else "already holds an encoder"
        ) as caught:
            mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", force=force)
    assert "in the cache" in caught.value.hint
    assert [path.read_text() for path in folder.iterdir()] == ["years of work"]
    assert names(tmp_path) == {"enc"}
    monkeypatch.setattr(
        "mirrorbench.runs.encoder_loading.tune_model",
        lambda *rest: pytest.fail("it is in the cache"),
    )
    mirrorbench.tune(LINES, spec, tmp_path / "enc2", held_out=0, device="cpu")


def test_exported_files_are_flushed_before_the_rename(
    tmp_path: Path, disk: list[tuple[str, str]]
) -> None:
    output = tmp_path / "enc"
    with (
        claiming(output, force=False) as workplace,
        replacing(output, workplace, force=False) as folder,
    ):
        (folder / "1_Pooling").mkdir()
        for name in ("model.safetensors", "1_Pooling/config.json"):
            (folder / name).write_text("x")
    renamed = disk.index(("rename", str(output)))
    flushed = {name for kind, name in disk[:renamed] if kind == "flush"}
    assert {
        str(folder / name)
        for name in ("", "1_Pooling", "model.safetensors", "1_Pooling/config.json")
    } <= flushed
    assert disk[renamed + 1 :] == [("flush", str(tmp_path))]


def test_repeated_tuning_writes_identical_files(random_model: Models, tmp_path: Path) -> None:
    """But for the card, which has the name of the folder; an adapter on it knows its backbone by these files."""
    spec, one, two = f"{random_model('bert')}+mirror", tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu")
    files = [
        file.relative_to(one)
        for file in one.rglob("*")
        if file.is_file() and file.name != "README.md"
    ]
    assert [
        str(file) for file in files if (one / file).read_bytes() != (two / file).read_bytes()
    ] == []
