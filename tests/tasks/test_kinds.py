"""Tasks of cards, and the same tasks under other options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_data import as_here, make, write

from mirrorbench.core.errors import DataFormatError, UnknownNameError, UsageError
from mirrorbench.core.specs import split_names
from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import load_plugins, plugins
from mirrorbench.runs.rows import expand_tasks
from mirrorbench.tasks import LexiconInduction
from mirrorbench.tasks.kinds import as_task

KINDS = load_plugins(discover=False).task_kinds
NAME = "bli-it-fr:vocabulary_size=500,self_learning=2"


@pytest.mark.parametrize(
    "name",
    [
        "sts12", "stsb", "sickr", "simlex999", "multisimlex-en", "qnli", "ncbi-disease", "askapatient", "cometa-sg",
        "wic", "wic-tsv-1", "usim", "wsd",
    ],
)  # fmt: skip
def test_a_task_of_each_format_can_be_read_under_released(name: str, tmp_path: Path) -> None:
    made = make([name])
    write(made, tmp_path)
    task = KINDS[builtin_cards()[name].kind].from_card(as_here(builtin_cards()[name], made))
    for of_target in (True, False):
        assert task.reading("released", of_target).load(DataStore(tmp_path, offline=True))


@pytest.mark.parametrize("kind", KINDS.names())
def test_a_kind_whose_parser_returns_other_items(kind: str, tmp_path: Path) -> None:
    (tmp_path / "pets.tsv").write_text("a cat\ta dog\t1\na cat\ta bus\t0\n", encoding="utf-8")
    options = "{format: tsv, columns: {left: 0, right: 1, gold: 2}, scale: [0, 5]}"
    (tmp_path / "pets.yaml").write_text(
        f"name: pets\nkind: {kind}\nlevel: wic\nlanguages: [en, fr]\nmetric: m\nparser: table\noptions: {options}\n"
        "files: [pets.tsv]\n"
    )
    task, store = as_task(tmp_path / "pets.yaml", KINDS), DataStore(tmp_path / "store")
    if kind in ("pair-similarity", "pair-classification"):
        assert len(task.load(store)) == 2
        return
    told = rf"'{kind}' works on \w+, and the parser 'table' .* returns Pair"
    with pytest.raises(DataFormatError, match=told) as caught:
        task.load(store)
    assert "'marks'" in caught.value.hint


def test_a_variant_is_a_task_of_its_own() -> None:
    tasks = plugins().tasks
    base, changed, supervised = tasks["bli-it-fr"], tasks[NAME], tasks["bli-it-fr:mapping=supervised"]
    for task, settings in ((base, (0, "orthogonal")), (changed, (2, "orthogonal")), (supervised, (0, "supervised"))):
        assert isinstance(task, LexiconInduction)
        assert (task.self_learning, task.mapping) == settings
        assert (task.level, task.main_metric, task.languages) == ("word", "accuracy@1", ("it", "fr"))
    assert (base.name, changed.name) == ("bli-it-fr", NAME)
    assert "vocabulary_size=500" in changed.title
    assert tasks[NAME] is changed
    assert NAME in tasks
    assert NAME not in tasks.names()
    assert expand_tasks([NAME, "bli-it-fr"], plugins()) == (NAME, "bli-it-fr")
    assert split_names(["sts, wic", f"{NAME},stsb"]) == ["sts", "wic", NAME, "stsb"]  # options and names share commas
    assert split_names(["stsb,a=1"]) == ["stsb", "a=1"]


def test_a_variant_reads_other_words_of_the_same_files(originals: Callable[..., DataStore], tmp_path: Path) -> None:
    tasks, store = plugins().tasks, originals("bli", "train")
    tasks["bli-it-fr"].fetch(store)
    whole, cut, small = (tasks[name].load(store) for name in ("bli-it-fr", NAME, "bli-it-fr:train=1k"))
    assert (len(whole.train), len(whole.test), len(small.train)) == (5000, 2000, 1000)
    assert (len(whole.source_words), len(whole.target_words)) == (10_000, 9_998)
    assert whole.source_words[:2] == ("e", "non")
    assert {"yacle.test.freq.2k.it-fr.tsv", "words-it/it_50k.txt"} < tasks["bli-it-fr"].identity(store).keys()
    assert (cut.source_words, cut.target_words) == (whole.source_words[:500], whole.target_words[:500])
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
        ("bli-it-fr:train=1", "train=1 is not of the kind of its default, '5k'"),
        ("bli-it-fr:vocabulary_size=many", "vocabulary_size=many is not of the kind"),
        ("bli-it-fr:train", "'train' is not KEY=VALUE"),
        ("bli-it-fr:mapping=supervisd", "unknown mapping 'supervisd'"),
        ("stsb:split=dev", "the task stsb takes no options"),
        ("bli-it-xx:train=1k", "unknown task 'bli-it-xx'"),
    ],
)
def test_what_is_wrong_with_an_option(name: str, message: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=message):
        plugins().tasks[name]
