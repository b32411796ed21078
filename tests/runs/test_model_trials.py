"""What a trial showed of a model is remembered, and checked on reading."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from helpers.random_models import Models
from helpers.suite_marks import few

import mirrorbench
from mirrorbench.models.traits import ModelTraits
from mirrorbench.runs.model_trials import planned_traits
from mirrorbench.storage.cache import TRAITS_FOLDER, Cache

SEEN = ModelTraits(causal=True, halves=("bf16",))


@pytest.fixture
def session(tmp_path: Path) -> mirrorbench.Session:
    return mirrorbench.Session(tmp_path / "results", cache=tmp_path / "cache", device="cpu")


def files(cache: Path) -> list[Path]:
    return sorted((cache / TRAITS_FOLDER).iterdir())


def test_model_traits_are_probed_once(tmp_path: Path) -> None:
    look = Mock(return_value=SEEN)
    assert [Cache(tmp_path).traits({"weights": "a"}, look, ModelTraits) for _ in range(3)] == [
        SEEN
    ] * 3
    assert look.call_count == 1
    assert len(files(tmp_path)) == 1
    assert Cache(tmp_path).traits({"weights": "b"}, look, ModelTraits) == SEEN
    assert look.call_count == 2
    (tmp_path / "file").touch()
    assert (
        Cache(tmp_path / "file").traits({"weights": "a"}, look, ModelTraits) == SEEN
    )  # where nothing can be remembered


def test_damaged_traits_entry_is_probed_again(tmp_path: Path) -> None:
    Cache(tmp_path).traits({"weights": "a"}, lambda: SEEN, ModelTraits)
    (file,) = files(tmp_path)
    text = file.read_text()
    other = ModelTraits(pads=True)
    for damaged in (text.replace("true", "false", 1), text[:-9]):
        file.write_text(damaged)
        assert Cache(tmp_path).traits({"weights": "a"}, lambda: other, ModelTraits) == other
        assert (
            Cache(tmp_path).traits({"weights": "a"}, lambda: SEEN, ModelTraits) == other
        )  # and healed


@pytest.mark.parametrize("architecture", few(["llama", "bart", "t5", "mamba"], "t5", "mamba"))
def test_planned_traits_match_the_architecture(
    random_model: Models, tmp_path: Path, architecture: str
) -> None:
    traits = planned_traits(random_model(architecture), Cache(tmp_path))
    assert (traits.causal, traits.pads, traits.layered) == (
        architecture in ("llama", "mamba"),
        False,
        True,
    )
    assert traits.drops == (architecture != "mamba")
    assert planned_traits(random_model(architecture), Cache(tmp_path)) == traits


def test_bert_like_models_are_planned_without_probing(
    session: mirrorbench.Session, tmp_path: Path, random_model: Models
) -> None:
    """A plan of such a model opens nothing, and remembers nothing."""
    session.plan([f"{random_model('roberta')}"], ["quick-sts"])
    assert not (tmp_path / "cache" / TRAITS_FOLDER).exists()
    session.plan([f"{random_model('gpt2')}"], ["quick-sts"])
    assert len(files(tmp_path / "cache")) == 1
