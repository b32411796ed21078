"""Sense disambiguation against plain loops, under both protocols."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.toy_plugin import STORE, scored, vectors_of
from scipy.spatial import distance

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import (
    Disambiguation,
    Occurrence,
    SenseContexts,
)
from mirrorbench.tasks.lexical import SenseDisambiguation


def sense(key: str, n_examples: int) -> SenseContexts:
    examples = tuple(TextInput(f"{key} example {n}", ((0, 1),)) for n in range(n_examples))
    return SenseContexts(examples, TextInput(f"{key} means", ((0, 1),)))


SENSES = {f"s{n}": sense(f"s{n}", n % 4) for n in range(12)}


def made_up(rng: np.random.Generator, n: int = 60) -> Disambiguation:
    words = []
    for number in range(n):
        candidates = tuple(f"s{k}" for k in rng.choice(12, size=rng.integers(1, 5), replace=False))
        gold = frozenset(rng.choice(candidates, size=rng.integers(1, len(candidates) + 1)).tolist())
        corpus = "one" if number < n // 3 else "two"
        words.append(
            Occurrence(
                f"{corpus}.{number}",
                TextInput(f"word {number}", ((0, 4),)),
                candidates,
                gold,
                corpus,
            )
        )
    return Disambiguation(tuple(words), SENSES)


@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_nearest_candidate_sense_wins(protocol: str) -> None:
    rng = np.random.default_rng(1)
    items = made_up(rng)
    task = SenseDisambiguation("toy", items)
    vectors = vectors_of(task, items, lambda item: rng.normal(size=4))

    def cosine(word: Occurrence, key: str) -> float:
        contexts = list(SENSES[key].examples)
        if protocol == "released" or not contexts:
            contexts.append(SENSES[key].gloss)
        return 1 - float(distance.cosine(vectors([word.target])[0], vectors(contexts).mean(axis=0)))

    words = items.occurrences
    predicted = [max(word.candidates, key=partial(cosine, word)) for word in words]
    hits = [best in word.gold for best, word in zip(predicted, words, strict=True)]
    scores = task.score(items, vectors, protocol)
    assert scores.extra["predicted"].tolist() == predicted
    wanted = {
        "accuracy": hits,
        "accuracy_one": hits[:20],
        "accuracy_two": hits[20:],
        "mfs_accuracy": [word.candidates[0] in word.gold for word in words],
    }
    for name, of_words in wanted.items():
        assert scores.metrics[name] == pytest.approx(np.mean(of_words))
    assert scores.notes == ("9 of 12 senses have examples with the word in them, at most 3 each",)


def test_sense_ties_ignore_rounding() -> None:
    """Vectors of one direction and different lengths have one cosine, except for its last bit."""
    keys = tuple(SENSES)
    words = [
        Occurrence(f"a.{n}", TextInput(f"word {n}"), keys, frozenset({keys[0]}), "a")
        for n in range(40)
    ]
    rng = np.random.default_rng(1)
    of_word = {word.target: rng.normal(size=99) for word in words}
    axis = rng.integers(-9, 9, size=99)
    length = {
        item: n + 1
        for n, sense in enumerate(SENSES.values())
        for item in (*sense.examples, sense.gloss)
    }
    task = SenseDisambiguation("toy", Disambiguation(tuple(words), SENSES))
    scores = scored(task, lambda item: of_word[item] if item in of_word else length[item] * axis)
    assert set(scores.extra["predicted"].tolist()) == {keys[0]}


def test_occurrence_specific_sense_contexts_are_used() -> None:
    named = {f"{key} forms": sense(name, 1) for key, name in (("s1", "far"), ("s2", "near"))}
    word = Occurrence("a.1", TextInput("near"), ("s1", "s2"), frozenset({"s2"}), "a", tuple(named))
    task = SenseDisambiguation("toy", Disambiguation((word,), named))
    scores = scored(task, lambda item: [1, item.text.startswith("near")])
    assert (scores.extra["predicted"].tolist(), scores.metrics["accuracy"]) == (["s2"], 1)


def test_inconsistent_items_are_refused() -> None:
    word = Occurrence("a.1", TextInput("word"), ("s1",), frozenset({"s2"}), "a")
    nameless = replace(word, gold=frozenset({"s1"}), contexts=("s1 forms",))
    for words, message in (
        ((), "holds no items"),
        ((word,), "right senses of a.1 do not match"),
        ((nameless,), "right senses of a.1 do not match"),
    ):
        with pytest.raises(DataFormatError, match=message):
            SenseDisambiguation("toy", Disambiguation(words, SENSES)).load(STORE)
    orders = (replace(word, candidates=candidates) for candidates in (("s1", "s2"), ("s2", "s1")))
    first, second = (
        SenseDisambiguation("toy", Disambiguation((w,), SENSES)).identity(STORE) for w in orders
    )
    assert first != second


def test_senses_of_a_lemma_are_collected() -> None:
    def context(text: str) -> TextInput:
        start = text.index("bank")
        return TextInput(text, ((start, start + 4),))

    keys = ("bank%1:14:00::", "bank%1:17:01::", "cat%1:05:00::")
    senses = {
        key: SenseContexts((context(f"example bank {key}"),), context(f"bank means {key}"))
        for key in keys
    }
    texts = ("my bank", "a river bank", f"example bank {keys[0]}", f"example bank {keys[1]}")
    words = [
        Occurrence(text, context(text), keys[:2], frozenset({key}), "x")
        for text, key in zip(texts[:2], keys[:2], strict=True)
    ]
    items = Disambiguation(tuple(words), senses)
    task = SenseDisambiguation("wsd", items)
    contexts = task.senses(items, "bank")
    assert tuple(item.text for item in contexts) == texts
    assert tuple(contexts.values()) == keys[:2] * 2
    assert list(task.senses(items, "cat").values()) == [keys[2]]
