from __future__ import annotations

import random
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import toy_tasks

from mirrorbench.core.inputs import TextInput
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import ALL, NONE, SOME, find_contamination, normalised
from mirrorbench.data.items import (
    ContextChange,
    ContextPair,
    Disambiguation,
    Lexicon,
    Linking,
    Mention,
    Occurrence,
    RatedContexts,
    SenseContexts,
)
from mirrorbench.data.store import DataStore
from mirrorbench.tasks import (
    EntityLinking,
    LexiconInduction,
    SenseDisambiguation,
    SimilarityChange,
    Task,
    UsageSimilarity,
    WordInContext,
)

CORPUS = ["A cat  sits.", "ﬁne weather", "STRASSE", "a dog"]


def test_shares_and_flags() -> None:
    items = {
        "both": ("a CAT sits. ", "fine weather"),
        "left": ("a\tcat\nsits.", "a cat sits"),  # punctuation counts
        "right": ("no", "straße"),
        "none": ("cat", "a dog is here"),
        "one text": ("a dog",),
    }
    found = find_contamination(items, CORPUS)
    assert found is not None
    assert found.found == {"both": ALL, "left": SOME, "right": SOME, "none": NONE, "one text": ALL}
    assert (found.share(SOME), found.share(ALL)) == (4 / 5, 2 / 5)
    flags = found.flags(["none", "both", "left"])
    assert flags.tolist() == [0, 2, 1]
    assert flags.dtype == np.int8
    assert found.to_json() == {
        "n_items": 5, "any_text": 0.8, "all_texts": 0.4, "normalisation": "NFKC, case folded, white space collapsed"
    }  # fmt: skip


def test_without_texts_nobody_knows() -> None:
    assert find_contamination({}, CORPUS) is None


def test_an_item_without_text_does_not_overlap() -> None:
    found = find_contamination({"1": ()}, CORPUS)
    assert found is not None
    assert found.share(ALL) == 0


@given(st.text(max_size=30))
def test_normalised_texts_stay_as_they_are(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert normalised(f"  {text}\n") == once
    assert normalised(unicodedata.normalize("NFD", text)) == once


def test_against_a_naive_search() -> None:
    rng = random.Random(0)
    words = ["Cat", "cat", "dog ", "a  b", "A b", "ab"]
    corpus = rng.choices(words[:4], k=3)
    items = {str(i): tuple(rng.choices(words, k=2)) for i in range(50)}
    found = find_contamination(items, corpus)
    assert found is not None
    hits = {i: [any(t.lower().split() == c.lower().split() for c in corpus) for t in ts] for i, ts in items.items()}
    assert found.share(SOME) == sum(any(h) for h in hits.values()) / 50
    assert found.share(ALL) == sum(all(h) for h in hits.values()) / 50


def target(text: str) -> TextInput:
    return TextInput(text, ((0, 1),))


def rated(text: str, other: str = "") -> RatedContexts:
    return RatedContexts(text, target(text), target(other or text), 1.0)


SENSE = SenseContexts((), target("x means y"))
WORD = Occurrence("o", target("t"), ("k",), frozenset("k"), "se")
TASKS: list[tuple[Task, dict[str, tuple[str, ...]]]] = [
    (toy_tasks()[1], {"1": ("a dog", "the cat"), "2": ("a dog", "my dog"), "3": ("zoo", "why not")}),
    (
        EntityLinking("e", [Linking((Mention("m", ("a", "b"), frozenset("1")),), ("n",), (frozenset("1"),))]),
        {"m": ("a", "b")},
    ),
    (
        WordInContext("w", [ContextPair(str(i), target(f"l{i}"), target(f"r{i}"), i, "dev") for i in (0, 1)]),
        {"0": ("l0", "r0"), "1": ("l1", "r1")},
    ),
    (UsageSimilarity("u", [rated("l", "r")]), {"l": ("l", "r")}),
    (SimilarityChange("c", [ContextChange("c", rated("one"), rated("two"))]), {"c": ("one", "two")}),
    (
        SenseDisambiguation("d", Disambiguation((WORD,), {"k": SENSE})),
        {"o": ("t",)},
    ),
    (
        LexiconInduction("b", Lexicon((("a", "b"),), (("c", "d"), ("c", "e"))), languages=("en", "fr")),
        {"c": ("c", "d", "e")},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("task", "texts"), TASKS, ids=[task.name for task, _ in TASKS])
def test_tasks_say_which_texts_their_items_hold(task: Task, texts: dict[str, tuple[str, ...]], data: DataStore) -> None:
    items = task.load(data)
    assert {item: tuple(own) for item, own in task.texts(items).items()} == texts
    asked = {item.text for item in task.inputs(items)}
    assert {text for own in texts.values() for text in own} <= asked


@pytest.fixture
def data(tmp_path_factory: pytest.TempPathFactory) -> DataStore:
    return DataStore(tmp_path_factory.mktemp("data"), offline=True)


@pytest.mark.real
def test_a_third_to_a_half_of_sts12_to_15_was_tuned_on(real_store: DataStore, plugins: Plugins) -> None:
    from mirrorbench.data.corpora import read_corpus

    cards = {entry.name: entry.value for entry in plugins.corpora}
    corpus = read_corpus("sts-sentences", real_store, cards).texts
    known = {" ".join(text.casefold().split()) for text in corpus}  # plain English: no need for NFKC
    shares = {}
    for name in ("sts12", "sts13", "sts14", "sts15", "stsb", "sickr"):
        task = plugins.tasks[name]
        pairs = task.load(real_store)
        found = find_contamination(task.texts(pairs), corpus)
        assert found is not None
        naive = [{" ".join(t.casefold().split()) in known for t in (p.left, p.right)} for p in pairs]
        assert found.share(SOME) == pytest.approx(sum(True in hits for hits in naive) / len(pairs), abs=0.002)
        assert found.share(ALL) == pytest.approx(sum(hits == {True} for hits in naive) / len(pairs), abs=0.002)
        shares[name] = found.share(SOME)
    for name in ("sts12", "sts13", "sts14", "sts15"):
        assert 1 / 3 < shares[name] < 0.55
    assert shares["stsb"] < 0.2
    assert shares["sickr"] < 0.01
