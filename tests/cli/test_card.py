"""``mirrorbench card``: scores on data of the hub go into the model card, others do not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.hub_data_set import CARD, PAIRS, REVISION
from huggingface_hub import ModelCard, parse_eval_result_entries
from scipy.stats import spearmanr

import mirrorbench as mb

PLUGIN = """
from pathlib import Path
import mirrorbench.plugin

@mirrorbench.plugin.hookimpl
def register_tasks(register):
    register(Path("{folder}") / "hub-pairs.yaml")
    register(Path("{folder}") / "secret-pairs.yaml")
"""
TEXTS = ["the river", "a stone bridge", "some music", "the old garden"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a tuned encoder, a split of the hub in the store, and a plugin with two tasks."""
    monkeypatch.chdir(tmp_path)
    rows = [{"one": one, "two": two, "score": score} for one, two, score in PAIRS]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    split = tmp_path / "data" / "hub" / "owner" / "toy" / REVISION / "pairs" / "test.jsonl"
    split.parent.mkdir(parents=True)
    split.write_text(lines)
    (tmp_path / "secret.jsonl").write_text(lines)
    card = CARD.replace(", corpus: quick-sentences", "")
    (tmp_path / "hub-pairs.yaml").write_text(card)
    hub_file = card.partition("files: ")[2]
    own = card.replace("hub-pairs", "secret-pairs").replace(hub_file, "[secret.jsonl]\n")
    (tmp_path / "secret-pairs.yaml").write_text(own)
    (tmp_path / "plugin.py").write_text(PLUGIN.format(folder=tmp_path))
    mb.tune(TEXTS, "tiny", "my-encoder", held_out=0)
    return tmp_path


def card_of(mirrorbench: Callable, tasks: str) -> Any:
    arguments = ("--plugin", "plugin.py", "--data-dir", "data", "--offline", "--device", "cpu")
    return mirrorbench("card", "my-encoder", "-t", tasks, *arguments)


def test_scores_on_data_of_the_hub_are_read_back_by_its_library(
    mirrorbench: Callable, folder: Path
) -> None:
    path = folder / "my-encoder" / "README.md"
    card = ModelCard.load(path)
    card.data.language = "en"
    card.save(path)
    text = card.text

    done = card_of(mirrorbench, "hub-pairs,secret-pairs,quick-sts")
    done.assert_works("hub-pairs", "owner/toy")
    assert "left out: secret-pairs: its data have no id on the hub" in done.err
    assert "left out: quick-sts: its data have no id on the hub" in done.err

    encoder = mb.load("my-encoder")
    left, right, gold = zip(*PAIRS, strict=True)
    products = (encoder.encode(list(left)) * encoder.encode(list(right))).sum(1)
    lengths = [(encoder.encode(list(side)) ** 2).sum(1) ** 0.5 for side in (left, right)]
    expected = spearmanr(products / (lengths[0] * lengths[1]), gold).statistic

    (file,) = (folder / "my-encoder" / ".eval_results").iterdir()
    (entry,) = parse_eval_result_entries(yaml.safe_load(file.read_text()))
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == (
        "owner/toy",
        "pairs",
        REVISION,
    )
    assert entry.value == pytest.approx(expected, abs=1e-4)
    assert entry.notes is not None
    assert "95% interval" in entry.notes
    assert "mirrorbench run --encoder ./my-encoder --tasks hub-pairs" in entry.notes

    card = ModelCard.load(path)
    (result,) = card.data.eval_results
    assert (result.dataset_type, result.dataset_config, result.dataset_split) == (
        "owner/toy",
        "pairs",
        "test",
    )
    assert (result.dataset_revision, result.metric_value) == (REVISION, entry.value)
    assert (card.data.language, card.text) == ("en", text)
    published = path.read_text() + file.read_text()
    assert "secret" not in published
    assert str(folder) not in published


def test_scores_of_others_are_kept_and_own_ones_replaced(
    mirrorbench: Callable, folder: Path
) -> None:
    card_of(mirrorbench, "hub-pairs").assert_works()
    path = folder / "my-encoder" / "README.md"
    text = path.read_text().replace("owner/toy", "other/data")
    path.write_text(text)
    for _ in range(2):
        card_of(mirrorbench, "hub-pairs").assert_works()
    results = ModelCard.load(path).data.eval_results
    assert [result.dataset_type for result in results] == ["other/data", "owner/toy"]
    # An encoder with scores can be replaced by another one.
    mb.tune(TEXTS, "tiny", "my-encoder", held_out=0, force=True)
    assert not (folder / "my-encoder" / ".eval_results").exists()


def test_wrong_calls_say_what_to_do(
    mirrorbench: Callable, folder: Path, random_model: Callable[[str], Path]
) -> None:
    for arguments, code, message in (
        (("nowhere", "-t", "quick-sts"), 2, "there is no directory nowhere"),
        (("my-encoder",), 2, "--tasks names no task"),
        (("my-encoder", "-t", "quick-sts"), 2, "quick-sts: its data have no id on the hub"),
        ((str(random_model("bert")), "-t", "quick-sts"), 2, "has no model card"),
    ):
        done = mirrorbench("card", *arguments, "--device", "cpu")
        assert (done.code, message in done.err) == (code, True), done.err
    path = folder / "my-encoder" / "README.md"
    path.write_text("---\nmodel-index: 5\n---\n")
    done = card_of(mirrorbench, "hub-pairs")
    assert "README.md: the metadata" in done.err
    assert path.read_text() == "---\nmodel-index: 5\n---\n"


def test_model_without_pooling_stands_for_several_encoders(
    mirrorbench: Callable, folder: Path, random_model: Callable[[str], Path]
) -> None:
    copy = folder / "plain"
    shutil.copytree(random_model("bert"), copy)
    (copy / "README.md").write_text("A model.\n")
    done = mirrorbench("card", "plain", "-t", "quick-sts", "--device", "cpu")
    assert (done.code, "it stands for several encoders" in done.err) == (2, True)
    assert (copy / "README.md").read_text() == "A model.\n"
