"""``mirrorbench card``: scores on data of the hub go into the model card, others do not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
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
    register(Path("{folder}") / "hub-pairs-dev.yaml")
    register(Path("{folder}") / "secret-pairs.yaml")
"""
TEXTS = ["the river", "a stone bridge", "some music", "the old garden"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a tuned encoder, two splits of the hub in the store, and a plugin with three tasks."""
    monkeypatch.chdir(tmp_path)
    rows = [{"one": one, "two": two, "score": score} for one, two, score in PAIRS]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    split = tmp_path / "data" / "hub" / "owner" / "toy" / REVISION / "pairs" / "test.jsonl"
    split.parent.mkdir(parents=True)
    split.write_text(lines)
    (tmp_path / "secret.jsonl").write_text(lines)
    card = CARD.replace(", corpus: quick-sentences", "")
    (tmp_path / "hub-pairs.yaml").write_text(card)
    other_rows = [row | {"score": abs(2.5 - row["score"])} for row in rows]
    split.with_name("dev.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in other_rows))
    dev = card.replace("hub-pairs", "hub-pairs-dev").replace("pairs/test", "pairs/dev")
    (tmp_path / "hub-pairs-dev.yaml").write_text(dev)
    hub_file = card.partition("files: ")[2]
    own = card.replace("hub-pairs", "secret-pairs").replace(hub_file, "[secret.jsonl]\n")
    (tmp_path / "secret-pairs.yaml").write_text(own)
    (tmp_path / "plugin.py").write_text(PLUGIN.format(folder=tmp_path))
    mb.tune(TEXTS, "tiny", "my-encoder", held_out=0)
    return tmp_path


def card_of(mirrorbench: Callable, tasks: str) -> Any:
    arguments = ("--plugin", "plugin.py", "--data-dir", "data", "--offline", "--device", "cpu")
    return mirrorbench("card", "my-encoder", "-t", tasks, *arguments)


def test_hub_library_reads_the_scores(mirrorbench: Callable, folder: Path) -> None:
    path = folder / "my-encoder" / "README.md"
    text = ModelCard.load(path).text

    done = card_of(mirrorbench, "hub-pairs,secret-pairs,quick-sts")
    done.assert_works("hub-pairs", "owner/toy")
    assert "left out: secret-pairs: its data are not a split of a data set on the hub" in done.err
    assert "left out: quick-sts: its data are not a split of a data set on the hub" in done.err

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
    assert "with a plugin file: mirrorbench run" in entry.notes
    assert "mirrorbench run --encoder ./my-encoder --tasks hub-pairs" in entry.notes

    card = ModelCard.load(path)
    (result,) = card.data.eval_results
    assert (result.dataset_type, result.dataset_config, result.dataset_split) == (
        "owner/toy",
        "pairs",
        "test",
    )
    assert (result.dataset_revision, result.metric_value) == (REVISION, entry.value)
    assert card.text == text
    published = path.read_text() + file.read_text()
    assert "secret" not in published
    assert str(folder) not in published


def intervals(folder: Path) -> dict[str, list[float]]:
    """Intervals in the card, by the split of the data."""
    text = (folder / "my-encoder" / "README.md").read_text()
    (model,) = yaml.safe_load(text.split("---")[1])["model-index"]
    return {
        result["dataset"]["split"]: result["metrics"][0]["args"]["interval"]
        for result in model["results"]
    }


def test_each_score_has_its_own_interval(mirrorbench: Callable, folder: Path) -> None:
    card_of(mirrorbench, "hub-pairs,hub-pairs-dev").assert_works()
    together = intervals(folder)
    assert together["test"] != together["dev"]
    for task in ("hub-pairs", "hub-pairs-dev"):
        card_of(mirrorbench, task).assert_works()
    assert intervals(folder) == together
    (file,) = (folder / "my-encoder" / ".eval_results").iterdir()
    low, high = together["dev"]
    assert f"split dev, 95% interval [{low:.4f}, {high:.4f}]" in " ".join(file.read_text().split())


FOREIGN = """\
---
# Norwegian
language: no
version: 1.10
model-index:
- name: theirs
  results:
  - task: {type: sentence-similarity}
    dataset: {name: other, type: other/data}
    metrics:
    - {type: spearman, value: .5, note: kept}
- name: another
  results: []
license: mit
---
The text
"""


def test_everything_else_in_a_card_is_kept(mirrorbench: Callable, folder: Path) -> None:
    path = folder / "my-encoder" / "README.md"
    path.write_text(FOREIGN)
    for _ in range(2):
        card_of(mirrorbench, "hub-pairs").assert_works()
    written = path.read_text()
    before, after = (
        FOREIGN.split("model-index:")[0],
        "license: mit\n---\nThe text\n",
    )
    assert (written.startswith(before), written.endswith(after)) == (True, True)
    first, second = yaml.safe_load(written.split("---")[1])["model-index"]
    assert (first["name"], second) == ("theirs", {"name": "another", "results": []})
    assert first["results"][0]["metrics"][0]["note"] == "kept"
    assert [result["dataset"]["type"] for result in first["results"]] == ["other/data", "owner/toy"]


def test_other_metrics_on_the_same_data_stay(mirrorbench: Callable, folder: Path) -> None:
    """The library of the hub joins them with mirrorbench's when it saves a card."""
    card_of(mirrorbench, "hub-pairs").assert_works()
    path = folder / "my-encoder" / "README.md"
    card = ModelCard.load(path)
    (own,) = card.data.eval_results
    other = replace(own, metric_type="pearson", metric_value=0.25, metric_name=None)
    other.metric_args = None
    card.data.eval_results = [other, own]
    card.save(path)
    (joined,) = yaml.safe_load(path.read_text().split("---")[1])["model-index"][0]["results"]
    assert len(joined["metrics"]) == 2
    card_of(mirrorbench, "hub-pairs").assert_works()
    results = ModelCard.load(path).data.eval_results
    assert [result.metric_type for result in results] == ["pearson", "spearman"]


def test_scores_of_a_changed_encoder_are_removed(mirrorbench: Callable, folder: Path) -> None:
    card_of(mirrorbench, "hub-pairs,hub-pairs-dev").assert_works()
    (pooling,) = (folder / "my-encoder").glob("*_Pooling/config.json")
    settings = json.loads(pooling.read_text())
    settings["pooling_mode"] = "cls"
    pooling.write_text(json.dumps(settings))
    done = card_of(mirrorbench, "hub-pairs").assert_works()
    assert "removed: 2 scores of an earlier state of the encoder" in done.err
    assert list(intervals(folder)) == ["test"]
    # Moved, it is the same encoder.
    (folder / "my-encoder").rename(folder / "moved")
    arguments = ("--plugin", "plugin.py", "--data-dir", "data", "--offline", "--device", "cpu")
    done = mirrorbench("card", "moved", "-t", "hub-pairs-dev", *arguments).assert_works()
    assert "removed" not in done.err
    (folder / "moved").rename(folder / "my-encoder")
    assert list(intervals(folder)) == ["test", "dev"]
    # A new encoder in the place of the old one has no scores.
    mb.tune(TEXTS, "tiny", "my-encoder", held_out=0, force=True)
    assert not (folder / "my-encoder" / ".eval_results").exists()


@pytest.mark.parametrize(
    "metadata", ["model-index: 5", "license: [mit", "tags: 3", "a: !!python/object:os.system {}"]
)
def test_unreadable_metadata_are_an_error(
    mirrorbench: Callable, folder: Path, metadata: str
) -> None:
    path = folder / "my-encoder" / "README.md"
    path.write_text(f"---\n{metadata}\n---\n")
    done = card_of(mirrorbench, "hub-pairs")
    assert (done.code, "README.md: the metadata cannot be read" in done.err) == (1, True), done.err
    assert path.read_text() == f"---\n{metadata}\n---\n"


def test_wrong_calls_say_what_to_do(
    mirrorbench: Callable, folder: Path, random_model: Callable[[str], Path]
) -> None:
    for arguments, code, message in (
        (("nowhere", "-t", "quick-sts"), 2, "there is no directory nowhere"),
        (("my-encoder",), 2, "--tasks names no task"),
        (
            ("my-encoder", "-t", "quick-sts"),
            2,
            "quick-sts: its data are not a split of a data set on the hub",
        ),
        ((str(random_model("bert")), "-t", "quick-sts"), 2, "has no model card"),
    ):
        done = mirrorbench("card", *arguments, "--device", "cpu")
        assert (done.code, message in done.err) == (code, True), done.err
    inside = ("my-encoder", "-t", "hub-pairs", "-o", "my-encoder/results", "--device", "cpu")
    assert "would be published with it" in mirrorbench("card", *inside).assert_fails(2).err


def test_data_that_are_not_there_are_a_failure(mirrorbench: Callable, folder: Path) -> None:
    shutil.rmtree(folder / "data")
    done = card_of(mirrorbench, "hub-pairs")
    assert (done.code, "no score can go into the card: hub-pairs: " in done.err) == (1, True)
    assert "The hub shows scores on its own data sets only" not in done.err


def test_model_without_pooling_stands_for_several_encoders(
    mirrorbench: Callable, folder: Path, random_model: Callable[[str], Path]
) -> None:
    copy = folder / "plain"
    shutil.copytree(random_model("bert"), copy)
    (copy / "README.md").write_text("A model.\n")
    done = mirrorbench("card", "plain", "-t", "quick-sts", "--device", "cpu")
    assert (done.code, "it stands for several encoders" in done.err) == (2, True)
    assert (copy / "README.md").read_text() == "A model.\n"
