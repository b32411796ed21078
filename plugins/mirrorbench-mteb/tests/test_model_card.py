"""Scores on MTEB's data in a model card: MTEB's data set, commit and split."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from helpers.plugin_fixtures import Said
from huggingface_hub import parse_eval_result_entries
from memory import similarity_task
from mirrorbench_mteb.tasks import from_mteb

import mirrorbench
from mirrorbench.plugin import Pair, Task

pytestmark = pytest.mark.slow

PLUGIN = """
import mirrorbench.plugin
from test_model_card import tasks

@mirrorbench.plugin.hookimpl
def register_tasks(register):
    for task in tasks():
        register(task)
"""
PAIRS = [("a cat", "a kitten", 4.5), ("a dog", "the dog", 5.0), ("a car", "a bus", 2.5)]


def tasks() -> list[Task]:
    pairs = [Pair(str(i), left, right, gold) for i, (left, right, gold) in enumerate(PAIRS)]
    return from_mteb(similarity_task(pairs))


def test_card_names_the_data_that_mteb_pins(said: Said, tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    mirrorbench.tune(["a cat", "a dog", "a bus", "a car"], "tiny", tmp_path / "mine", held_out=0)
    (task,) = tasks()
    code, _, err = said(
        "card",
        str(tmp_path / "mine"),
        "--tasks",
        task.name,
        *("--plugin", str(tmp_path / "plugin.py"), "--offline", "--device", "cpu"),
    )
    assert code == 0, err
    text = (tmp_path / "mine" / ".eval_results" / "mirrorbench.yaml").read_text()
    (entry,) = parse_eval_result_entries(yaml.safe_load(text))
    dataset = similarity_task([]).metadata.dataset
    assert (entry.dataset_id, entry.dataset_revision) == (dataset["path"], dataset["revision"])
    assert entry.task_id == "default"
    assert entry.notes is not None
    assert "of the split test" in entry.notes
