"""Tasks of cards, the same tasks under other options, and the texts of their items."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_data import as_here, make, write
from toys import toy_tasks

from mirrorbench.core.errors import DataFormatError, MirrorbenchError, UnknownNameError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.specs import split_names
from mirrorbench.data import items as held
from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import plugins
from mirrorbench.runs.rows import expand_tasks
from mirrorbench.tasks import (
    EntityLinking,
    LexiconInduction,
    PairClassification,
    SenseDisambiguation,
    SimilarityChange,
    Task,
    UsageSimilarity,
    WordInContext,
)
from mirrorbench.tasks.kinds import TASK_KINDS, as_task

NAME = "bli-it-fr:vocabulary_size=500,self_learning=2"


@pytest.mark.parametrize(
    ("name", "kind", "facts"),
    [
        ("ncbi-disease", EntityLinking, ("phrase", "accuracy@1", ("en",), "umls-names")),
        ("bc5cdr-chemical-sub", EntityLinking, ("phrase", "accuracy@1", ("en",), "umls-names")),
        ("qnli", PairClassification, ("sentence", "auc", ("en",), "qnli-sentences")),
        ("qqp", PairClassification, ("sentence", "auc", ("en",), "")),
        ("wsd", SenseDisambiguation, ("wic", "accuracy", ("en",), "")),
    ],
)
def test_the_built_in_tasks(name: str, kind: type[Task], facts: tuple[object, ...]) -> None:
    task = plugins().tasks[name]
    assert isinstance(task, kind)
    assert (task.level, task.main_metric, task.languages, task.corpus) == facts


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
    task = TASK_KINDS[builtin_cards()[name].kind].from_card(as_here(builtin_cards()[name], made))
    for of_target in (True, False):
        assert task.reading("released", of_target).load(DataStore(tmp_path, offline=True))


@pytest.mark.parametrize("kind", TASK_KINDS)
def test_a_kind_whose_parser_returns_other_items(kind: str, tmp_path: Path) -> None:
    (tmp_path / "pets.tsv").write_text("a cat\ta dog\t1\na cat\ta bus\t0\n", encoding="utf-8")
    options = "{format: tsv, columns: {left: 0, right: 1, gold: 2}, scale: [0, 5]}"
    (tmp_path / "pets.yaml").write_text(
        f"name: pets\nkind: {kind}\nlevel: wic\nlanguages: [en, fr]\nmetric: m\nparser: table\noptions: {options}\n"
        "files: [pets.tsv]\n"
    )
    task = as_task(tmp_path / "pets.yaml")
    if kind in ("pair-similarity", "pair-classification"):
        assert len(task.load(DataStore(tmp_path / "store"))) == 2
        return
    with pytest.raises(
        DataFormatError, match=rf"'{kind}' works on \w+, and the parser 'table' .* returns Pair"
    ) as caught:
        task.load(DataStore(tmp_path / "store"))
    assert "'marks'" in caught.value.hint


def test_a_variant_is_a_task_of_its_own() -> None:
    base, changed = plugins().tasks["bli-it-fr"], plugins().tasks[NAME]
    assert isinstance(changed, LexiconInduction)
    assert (changed.name, changed.self_learning, changed.languages) == (NAME, 2, base.languages)
    assert (base.name, base.self_learning) == ("bli-it-fr", 0)
    assert "vocabulary_size=500" in changed.title
    assert plugins().tasks[NAME] is changed
    supervised = plugins().tasks["bli-it-fr:mapping=supervised"]
    assert isinstance(base, LexiconInduction)
    assert isinstance(supervised, LexiconInduction)
    assert (base.mapping, supervised.mapping) == ("orthogonal", "supervised")
    assert NAME in plugins().tasks
    assert NAME not in plugins().tasks.names()
    assert expand_tasks([NAME, "bli-it-fr"], plugins()) == (NAME, "bli-it-fr")
    assert split_names(["sts, wic", f"{NAME},stsb"]) == ["sts", "wic", NAME, "stsb"]  # options and names share commas
    assert split_names(["stsb,a=1"]) == ["stsb", "a=1"]


def test_a_variant_reads_other_words_of_the_same_files(originals: Callable[..., DataStore], tmp_path: Path) -> None:
    store = originals("bli", "train")
    for language in ("it", "fr"):
        (tmp_path / f"{language}.txt").write_text("uno\ndue\ntre\n", encoding="utf-8")
    cut = plugins().tasks[NAME].load(store)
    task = plugins().tasks["bli-it-fr"]
    task.fetch(store)
    whole = task.load(store)
    assert (len(whole.train), len(whole.test)) == (5000, 2000)
    assert (len(whole.source_words), len(whole.target_words)) == (10_000, 9_998)
    assert whole.source_words[:2] == ("e", "non")
    assert {"yacle.test.freq.2k.it-fr.tsv", "words-it/it_50k.txt"} < task.identity(store).keys()
    assert (task.level, task.main_metric, task.languages) == ("word", "accuracy@1", ("it", "fr"))
    assert cut.source_words == whole.source_words[:500]
    assert cut.target_words == whole.target_words[:500]
    assert cut.train == whole.train
    small = plugins().tasks["bli-it-fr:train=1k"].load(store)
    assert (len(small.train), small.test) == (1000, whole.test)
    own = plugins().tasks[f"bli-it-fr:vocabulary={tmp_path}/{{lang}}.txt"]
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
    with pytest.raises((UsageError, UnknownNameError)) as caught:
        plugins().tasks[name]
    assert isinstance(caught.value, MirrorbenchError)
    assert message in caught.value.message


def target(text: str) -> TextInput:
    return TextInput(text, ((0, 1),))


def rated(text: str, other: str = "") -> held.RatedContexts:
    return held.RatedContexts(text, target(text), target(other or text), 1.0)


LINKING = held.Linking((held.Mention("m", ("a", "b"), frozenset("1")),), ("n",), (frozenset("1"),))
CONTEXTS = [held.ContextPair(str(i), target(f"l{i}"), target(f"r{i}"), i, "dev") for i in (0, 1)]
WORD = held.Occurrence("o", target("t"), ("k",), frozenset("k"), "se")
SENSES = held.Disambiguation((WORD,), {"k": held.SenseContexts((), target("x means y"))})
LEXICON = held.Lexicon((("a", "b"),), (("c", "d"), ("c", "e")))
TASKS: list[tuple[Task, dict[str, tuple[str, ...]]]] = [
    (toy_tasks()[1], {"1": ("a dog", "the cat"), "2": ("a dog", "my dog"), "3": ("zoo", "why not")}),
    (EntityLinking("e", [LINKING]), {"m": ("a", "b")}),
    (WordInContext("w", CONTEXTS), {"0": ("l0", "r0"), "1": ("l1", "r1")}),
    (UsageSimilarity("u", [rated("l", "r")]), {"l": ("l", "r")}),
    (SimilarityChange("c", [held.ContextChange("c", rated("one"), rated("two"))]), {"c": ("one", "two")}),
    (SenseDisambiguation("d", SENSES), {"o": ("t",)}),
    (LexiconInduction("b", LEXICON, languages=("en", "fr")), {"c": ("c", "d", "e")}),
]


@pytest.mark.parametrize(("task", "texts"), TASKS, ids=[task.name for task, _ in TASKS])
def test_tasks_say_which_texts_items_hold(task: Task, texts: dict[str, Any], tmp_path: Path) -> None:
    items = task.load(DataStore(tmp_path, offline=True))
    assert {item: tuple(own) for item, own in task.texts(items).items()} == texts
    asked = {item.text for item in task.inputs(items)}
    assert {text for own in texts.values() for text in own} <= asked
