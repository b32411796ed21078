"""mirrorbench in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import pytest
from helpers.registered_toys import cats_score, toys
from helpers.toy_plugin import ToyEncoder

import mirrorbench
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import PluginError, UnknownNameError, UsageError
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.runs import registry as plugin_manager

__all__ = ["toys"]
ROOT = Path(__file__).resolve().parents[1]


def test_evaluate_scores_encoder_spec_without_storing_results() -> None:
    results = mirrorbench.evaluate("letters", ["cats", "dogs"])
    assert results["cats"] == pytest.approx(
        cats_score(lambda t: ToyEncoder().encode([TextInput(x) for x in t]))
    )
    assert not Path("results").exists()
    with pytest.raises(UnknownNameError, match="horses"):
        results["horses"]


def test_leaderboard_reads_scores_stored_by_run() -> None:
    with pytest.raises(UsageError, match="no task is named"):
        mirrorbench.run("letters", [])
    results = mirrorbench.run("letters", "cats,dogs")
    assert len(list(Path("results").rglob("seed-0.json"))) == 2
    again = mirrorbench.leaderboard()
    assert [row.scores for row in again.table.rows] == [row.scores for row in results.table.rows]
    assert again["cats"] == results["cats"]
    import_module(
        "mirrorbench.reports.table"
    )  # the subpackage of the same name stands in nobody's way
    assert mirrorbench.leaderboard("results", "cats")["cats"] == results["cats"]
    with pytest.raises(UsageError, match="no folder nowhere with results"):
        mirrorbench.leaderboard("nowhere")


def test_failed_encoder_is_reported_and_others_run(random_model: Callable[[str], Path]) -> None:
    model = str(random_model("bert"))
    results = mirrorbench.run([f"{model}+base:max_length=5000", "letters"], "cats", device="cpu")
    (failure,) = results.failures
    assert "positions" in failure.reason
    assert len(results.results) == 1
    for text in (repr(results), results._repr_html_()):
        assert f"Failed: {failure.spec} on cats: {failure.reason}" in text
    with pytest.raises(UsageError, match="2 encoders"):
        results["cats"]


def test_results_convert_to_data_frame_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    results = mirrorbench.run("letters", "cats,dogs")
    frame = results.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["task"]) == ["cats", "dogs"]
    assert frame.set_index("task")["score"]["cats"] == results["cats"]
    assert set(frame.columns) >= {"encoder", "seed", "metric", "spearman", "pearson", "n_items"}
    labels = [row.label for row in results.table.rows if row.spec]
    assert set(frame["encoder"]) == set(labels)
    assert set(frame["spec"]) == {result.spec for result in results.results}

    assert "| letters" in repr(results)
    assert "tabular" in results.render("latex")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pandas"):
        results.to_frame()


def test_invalid_api_calls_are_rejected() -> None:
    encoder = mirrorbench.load("letters")
    with pytest.raises(UsageError, match="must be a list, not one string"):
        encoder.encode("one string")
    with pytest.raises(UsageError, match="unknown level 'novel'"):
        mirrorbench.load("tiny", level="novel")
    with pytest.raises(UnknownNameError, match="dropot"):
        mirrorbench.load("tiny:dropot=1")
    with pytest.raises(AttributeError, match="nothing"):
        mirrorbench.nothing  # noqa: B018
    assert set(mirrorbench.__all__) <= set(dir(mirrorbench))


@pytest.mark.slow
@pytest.mark.real
def test_quickstart_example_runs(tmp_path: Path) -> None:
    example = [sys.executable, str(ROOT / "examples" / "quickstart.py"), str(tmp_path / "out")]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(example, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert "vectors: (3, 256) float32" in done.stdout
    assert "STS17: 0." in done.stdout
    assert "tiny+base:pooling=cls" in done.stdout
    assert (tmp_path / "out" / "my-encoder" / "modules.json").is_file()


def test_registration_for_one_call_does_not_persist() -> None:
    registered = plugin_manager.plugins()
    twin = registered.extended(
        "register_encoders", "mine", lambda spec, context: ToyEncoder(), "a toy"
    )
    assert twin.encoders.entry("mine").origin == "this process"
    assert "mine" not in registered.encoders
    assert twin.tasks.names() == registered.tasks.names()
    with pytest.raises(PluginError, match="twice"):
        twin.extended("register_encoders", "letters", lambda spec, context: ToyEncoder())


@pytest.mark.parametrize("name", ["my model: v2, bert", "bert", "fasttext", "./enc", "tiny+mirror"])
def test_an_object_may_have_any_name(name: str) -> None:
    """Also that of another encoder, which it is not."""
    encoder = Mock(spec=["encode"])
    encoder.encode = lambda texts: [[len(text), text.count(" ")] for text in texts]
    board = mirrorbench.evaluate([encoder, encoder], "cats", name=[name, name])
    assert [result.spec for result in board.results] == [
        str(EncoderSpec(name)),
        str(EncoderSpec(f"{name} 2")),
    ]
    assert len({result.main_score for result in board.results}) == 1


@pytest.mark.parametrize("other", ["tiny", "tiny+base", "tiny+mirror:epochs=2"])
def test_an_object_cannot_pass_for_another_encoder(other: str) -> None:
    """Its scores would stand in the other's rows, or on its ladder."""
    encoder = Mock(spec=["encode"])
    with pytest.raises(UsageError, match="an object has the name of another encoder, tiny"):
        mirrorbench.evaluate([encoder, other], "cats", name=["tiny", ""])
    assert not encoder.encode.called
