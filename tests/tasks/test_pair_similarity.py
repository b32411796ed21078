from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from toys import CATS, DOGS, ToyEncoder, vectors_of

from mirrorbench.core.errors import DataFormatError, UnknownNameError
from mirrorbench.core.plugins import Registry
from mirrorbench.data.store import DataStore
from mirrorbench.models.wordvectors import StaticEncoder
from mirrorbench.tasks import Pair, PairClassification, PairSimilarity, Scores, Vectors
from mirrorbench.tasks.base import score_task

STORE = DataStore(Path("nowhere"), offline=True)
LABELLED = [
    Pair("a", "q1", "s1", 1.0), Pair("b", "q1", "s2", 0.0), Pair("c", "q2", "s2", 1.0), Pair("d", "q2", "s1", 0.0),
]  # fmt: skip
PLANE = {"q1": (1, 0), "q2": (0, 2), "s1": (3, 1), "s2": (1, 1)}


def score(pairs: tuple[Pair, ...], encode: Any = lambda item: ToyEncoder().encode([item])[0]) -> Scores:
    task = PairSimilarity("toy", pairs)
    items = task.load(STORE)
    return task.score(items, vectors_of(task, items, encode))


def letter_cosine(left: str, right: str) -> float:
    letters = sorted(set(left + right) - {" "})
    x, y = [left.count(c) for c in letters], [right.count(c) for c in letters]
    return sum(a * b for a, b in zip(x, y, strict=True)) / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


def test_scores_are_cosines_and_their_correlations() -> None:
    found = score(CATS)
    expected = [letter_cosine(pair.left, pair.right) for pair in CATS]
    gold = [pair.gold for pair in CATS]
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert found.gold.tolist() == gold
    assert found.ids == ["1", "2", "3", "4"]
    assert found.metrics == {
        "spearman": pytest.approx(stats.spearmanr(expected, gold).statistic),
        "pearson": pytest.approx(stats.pearsonr(expected, gold).statistic, abs=1e-6),
    }
    assert (found.coverage, found.notes) == (1, ())


def test_subsets_add_their_two_means() -> None:
    pairs = tuple(replace(p, subset="cats") for p in CATS)
    pairs += tuple(replace(p, id=f"d{p.id}", subset="dogs") for p in DOGS)
    metrics = score(pairs).metrics
    parts = [score(CATS).metrics["spearman"], score(DOGS).metrics["spearman"]]
    assert metrics["spearman_mean"] == pytest.approx(sum(parts) / 2)
    assert metrics["spearman_wmean"] == pytest.approx((4 * parts[0] + 3 * parts[1]) / 7)
    assert metrics["spearman"] not in (metrics["spearman_mean"], metrics["spearman_wmean"])


def test_constant_similarities_are_undefined_and_said_so() -> None:
    found = score(CATS, lambda item: [1, 1, 1])
    assert found.metrics == {"spearman": None, "pearson": None}
    assert "undefined" in found.notes[0]


def test_across_languages_each_text_is_read_in_its_own(tmp_path: Path) -> None:
    """A gift is a present in English and poison in German: one file of vectors for each language keeps them apart."""
    for language, rows in {"en": "gift 3 1\npoison 0 1\npresent 1 0\n", "de": "gift 0 1\ngeschenk 1 0\n"}.items():
        (tmp_path / f"wiki.{language}.vec").write_text(rows)
    pairs = (Pair("1", "poison", "gift", 5.0), Pair("2", "gift", "geschenk", 4.0), Pair("3", "present", "gift", 0.0))
    task = PairSimilarity("toy", pairs, level="word", languages=("en", "de"))
    encoder = StaticEncoder(tmp_path / "wiki.{lang}.vec", language="en")
    found = task.score(pairs, vectors_of(task, pairs, lambda item: encoder.encode([item])[0]))
    np.testing.assert_allclose(found.scores, [1, 3 / math.sqrt(10), 0], atol=1e-6)
    assert found.metrics["spearman"] == 1


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (PairSimilarity("toy", ()), "holds no items"),
        (PairSimilarity("toy", (CATS[0], replace(CATS[1], id="1"))), "item ids repeat"),
        (PairClassification("toy", [Pair("1", "a", "b", 1.0), Pair("2", "a", "b", 1.0)]), "labels must be 0 and 1"),
        (PairClassification("toy", [Pair("1", "a", "b", 0.0), Pair("2", "a", "b", 0.5)]), "labels must be 0 and 1"),
    ],
)
def test_what_is_no_data_set(task: PairSimilarity, message: str) -> None:
    with pytest.raises(DataFormatError, match=f"task toy: .*{message}"):
        task.load(STORE)


def test_the_identity_follows_the_pairs() -> None:
    identities = {
        PairSimilarity("toy", pairs).identity(STORE)["pairs"]
        for pairs in (CATS, DOGS, CATS[::-1], (replace(CATS[0], gold=4.9), *CATS[1:]))
    }
    assert len(identities) == 4
    assert PairSimilarity("a", CATS).identity(STORE) == PairSimilarity("b", lambda data: CATS).identity(STORE)


def test_vectors_are_looked_up_by_input() -> None:
    inputs = list(dict.fromkeys(PairSimilarity("toy", CATS).inputs(CATS)))
    assert {item.text for item in inputs} == {"a cat", "the cat", "a dog", "quick zebras jump", "the dog"}
    array = np.arange(len(inputs) * 2, dtype=np.float32).reshape(-1, 2)
    vectors = Vectors(inputs, array)
    assert vectors(inputs[::-1]).tolist() == array[::-1].tolist()
    assert vectors([inputs[1], inputs[1]]).tolist() == [array[1].tolist()] * 2


def test_classification_by_the_area_under_the_roc_curve() -> None:
    task = PairClassification("answers", LABELLED)
    items = task.load(STORE)
    scores = task.score(items, vectors_of(task, items, lambda item: PLANE[item.text]))
    # cosines: a 3/sqrt(10), b 1/sqrt(2), c 1/sqrt(2), d 1/sqrt(10): three pairs in order, one tie
    assert scores.scores == pytest.approx([3 / 10**0.5, 0.5**0.5, 0.5**0.5, 0.1**0.5])
    assert scores.metrics == {"auc": pytest.approx((1 + 1 + 0.5 + 1) / 4)}
    assert (task.main_metric, scores.ids) == ("auc", ["a", "b", "c", "d"])
    assert set(scores.extra) == {"roc_fpr", "roc_tpr", "roc_thresholds"}


def test_the_main_metric_may_be_a_registered_one() -> None:
    metrics: Registry[Any] = Registry("metric")
    metrics.add("kendall", lambda scores, gold: stats.kendalltau(scores, gold).statistic, "this test")
    metrics.add("spearman", lambda scores, gold: 2.0, "this test")

    def scored(name: str) -> Scores:
        task = PairSimilarity("toy", CATS, main_metric=name)
        return score_task(task, CATS, vectors_of(task, CATS, lambda i: ToyEncoder().encode([i])[0]), "paper", metrics)

    found = scored("kendall")
    assert found.metrics["kendall"] == pytest.approx(stats.kendalltau(found.scores, [p.gold for p in CATS]).statistic)
    assert found.metrics.keys() == {"spearman", "pearson", "kendall"}
    assert scored("spearman").metrics["spearman"] == pytest.approx(stats.spearmanr(found.scores, found.gold).statistic)
    with pytest.raises(UnknownNameError, match="unknown metric 'kendal'"):
        scored("kendal")
