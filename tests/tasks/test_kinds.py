"""Tasks that are registered, and variants of them with other options."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.errors import PluginError, UnknownNameError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import split_names
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import expand_tasks, load_plugins
from mirrorbench.tasks import Task
from mirrorbench.tasks.kinds import as_task
from mirrorbench.tasks.lexical import LexiconInduction

PLUGINS = load_plugins(discover=False)
NAME = "bli-it-fr:vocabulary_size=500,self_learning=2"


class Norm(Task):
    """A task that has all that is required."""

    name, level, main_metric = "norm", "word", "spearman"
    identity = load = inputs = score = lambda *_: {}  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"name": ""}, r"the task '' \(Norm\) has no name"),
        ({"level": None}, r"the task 'norm' \(Norm\) has no level"),
        ({"main_metric": ""}, "has no main_metric"),
        ({"languages": ()}, "has no languages"),
        ({"languages": "en"}, "has languages = 'en', which is not of type tuple"),
        ({"version": "2"}, "has version = '2', which is not of type int"),
        ({"level": "letter"}, "'norm' has the level 'letter'"),
    ],
)
def test_invalid_task_attribute_is_named(
    plugins: Plugins, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(PluginError, match=message):
        as_task(type("Norm", (Norm,), attributes)(), plugins.task_kinds)
    assert as_task(Norm(), plugins.task_kinds).title == "norm"
    bare = type(
        "Bare", (Task,), {name: lambda *_: None for name in ("identity", "load", "inputs", "score")}
    )
    with pytest.raises(PluginError, match=r"the task '' \(Bare\) has no name"):
        as_task(bare(), plugins.task_kinds)


def test_variant_is_a_separate_task() -> None:
    tasks = PLUGINS.tasks
    base, changed, supervised = (
        tasks["bli-it-fr"],
        tasks[NAME],
        tasks["bli-it-fr:mapping=supervised"],
    )
    for task, settings in (
        (base, (0, "orthogonal")),
        (changed, (2, "orthogonal")),
        (supervised, (0, "supervised")),
    ):
        assert isinstance(task, LexiconInduction)
        assert (task.self_learning, task.mapping) == settings
        assert (task.level, task.main_metric, task.languages) == (
            "word",
            "accuracy@1",
            ("it", "fr"),
        )
    assert (base.name, changed.name) == ("bli-it-fr", NAME)
    assert "vocabulary_size=500" in changed.title
    assert tasks[NAME] is changed
    assert NAME in tasks
    assert NAME not in tasks.names()
    assert expand_tasks([NAME, "bli-it-fr"], PLUGINS) == (NAME, "bli-it-fr")
    assert split_names(["sts, wic", f"{NAME},stsb"]) == [
        "sts",
        "wic",
        NAME,
        "stsb",
    ]  # options and names share commas
    assert split_names(["stsb,a=1"]) == ["stsb", "a=1"]


def test_variant_options_select_words(originals: Callable[..., DataStore], tmp_path: Path) -> None:
    tasks, store = PLUGINS.tasks, originals("bli", "train")
    tasks["bli-it-fr"].fetch(store)
    whole, cut, small = (
        tasks[name].load(store) for name in ("bli-it-fr", NAME, "bli-it-fr:train=1k")
    )
    assert (len(whole.train), len(whole.test), len(small.train)) == (5000, 2000, 1000)
    assert (len(whole.source_words), len(whole.target_words)) == (10_000, 9_998)
    assert whole.source_words[:2] == ("e", "non")
    assert {"yacle.test.freq.2k.it-fr.tsv", "words-it/it_50k.txt"} < tasks["bli-it-fr"].identity(
        store
    ).keys()
    assert (cut.source_words, cut.target_words) == (
        whole.source_words[:500],
        whole.target_words[:500],
    )
    assert (cut.train, small.test) == (whole.train, whole.test)
    for language in ("it", "fr"):
        (tmp_path / f"{language}.txt").write_text("uno\ndue\ntre\n", encoding="utf-8")
    own = tasks[f"bli-it-fr:vocabulary={tmp_path}/{{lang}}.txt"]
    assert own.load(store).source_words == ("uno", "due", "tre")
    before = own.identity(store)
    (tmp_path / "it.txt").write_text("uno\ndue\n", encoding="utf-8")
    assert own.identity(store) != before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bli-it-fr:trian=1k", "unknown option of the task bli-it-fr 'trian'"),
        ("bli-it-fr:train=1", "train=1 is not of the type of its default, '5k'"),
        ("bli-it-fr:vocabulary_size=many", "vocabulary_size=many is not of the type"),
        ("bli-it-fr:train", "'train' is not KEY=VALUE"),
        ("bli-it-fr:mapping=supervisd", "unknown mapping 'supervisd'"),
        ("stsb:split=dev", "the task stsb takes no options"),
        ("bli-it-xx:train=1k", "unknown task 'bli-it-xx'"),
    ],
)
def test_invalid_task_options_are_rejected(name: str, message: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=message):
        PLUGINS.tasks[name]


def test_path_that_is_not_utf8_is_refused(tmp_path: Path, plugins: Plugins) -> None:
    """Results are stored under it, as UTF-8."""
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")
    Path(name).write_text("sentence1,sentence2,score\na,b,1\nb,c,2\n")
    with pytest.raises(UsageError, match=r"caf\\udce9\.csv is not UTF-8"):
        plugins.tasks[name]
