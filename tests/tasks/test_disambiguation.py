"""One-shot disambiguation against plain loops, under both protocols."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toys import vectors_of

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import Disambiguation, Occurrence, SenseContexts
from mirrorbench.data.store import DataStore
from mirrorbench.tasks import SenseDisambiguation

STORE = DataStore(Path("nowhere"), offline=True)
RNG = np.random.default_rng(1)


def sense(key: str, n_examples: int) -> SenseContexts:
    examples = tuple(TextInput(f"{key} example {n}", ((0, 1),)) for n in range(n_examples))
    return SenseContexts(examples, TextInput(f"{key} means", ((0, 1),)))


SENSES = {f"s{n}": sense(f"s{n}", n % 4) for n in range(12)}


def made_up(n: int = 60) -> Disambiguation:
    words = []
    for number in range(n):
        candidates = tuple(f"s{k}" for k in RNG.choice(12, size=RNG.integers(1, 5), replace=False))
        gold = frozenset(RNG.choice(candidates, size=RNG.integers(1, len(candidates) + 1)).tolist())
        corpus = "one" if number < n // 3 else "two"
        words.append(Occurrence(f"{corpus}.{number}", TextInput(f"word {number}", ((0, 4),)), candidates, gold, corpus))
    return Disambiguation(tuple(words), SENSES)


@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_the_nearest_candidate_wins(protocol: str) -> None:
    task = SenseDisambiguation("toy", made_up())
    items = task.load(STORE)
    vectors = vectors_of(task, items, lambda item: RNG.normal(size=4))
    scores = task.score(items, vectors, protocol)
    hits, predicted = [], []
    for word in items.occurrences:
        best, best_cosine = "", -2.0
        for key in word.candidates:
            contexts = list(SENSES[key].examples)
            if protocol == "released" or not contexts:
                contexts.append(SENSES[key].gloss)
            mean = sum(vectors([context])[0].astype(float) for context in contexts) / len(contexts)
            target = vectors([word.target])[0].astype(float)
            cosine = float(target @ mean) / float(np.linalg.norm(target) * np.linalg.norm(mean))
            if cosine > best_cosine:
                best, best_cosine = key, cosine
        predicted.append(best)
        hits.append(best in word.gold)
    assert scores.extra["predicted"].tolist() == predicted
    assert scores.metrics["accuracy"] == pytest.approx(np.mean(hits))
    assert scores.metrics["accuracy_one"] == pytest.approx(np.mean(hits[:20]))
    assert scores.metrics["accuracy_two"] == pytest.approx(np.mean(hits[20:]))
    assert scores.metrics["mfs_accuracy"] == pytest.approx(
        np.mean([word.candidates[0] in word.gold for word in items.occurrences])
    )
    assert scores.notes == ("9 of 12 senses have examples with the word in them",)


def test_of_equal_senses_the_most_frequent_one() -> None:
    word = Occurrence("a.1", TextInput("word"), ("s1", "s2", "s3"), frozenset({"s1"}), "a")
    task = SenseDisambiguation("toy", Disambiguation((word,), SENSES))
    items = task.load(STORE)
    scores = task.score(items, vectors_of(task, items, lambda item: [1, 1]))
    assert scores.extra["predicted"].tolist() == ["s1"]


def test_what_does_not_go_together() -> None:
    word = Occurrence("a.1", TextInput("word"), ("s1",), frozenset({"s2"}), "a")
    for words in ((), (word,)):
        with pytest.raises(DataFormatError):
            SenseDisambiguation("toy", Disambiguation(words, SENSES)).load(STORE)


def test_the_identity_is_that_of_the_data() -> None:
    word = Occurrence("a.1", TextInput("word"), ("s1", "s2"), frozenset({"s1", "s2"}), "a")
    other = Occurrence("a.1", TextInput("word"), ("s2", "s1"), frozenset({"s1", "s2"}), "a")
    first, second = (SenseDisambiguation("toy", Disambiguation((w,), SENSES)).identity(STORE) for w in (word, other))
    assert first != second
