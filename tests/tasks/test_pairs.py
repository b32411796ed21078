"""Similarity and classification of pairs of texts against scipy, scikit-learn and plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.toy_plugin import CATS, DOGS, LETTERS, STORE, letter_counts, scored
from scipy.spatial import distance
from scipy.stats import pearsonr, spearmanr

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.tasks import Pair, PairClassification, PairSimilarity
from mirrorbench.tasks.base import TaskKind


def cosine(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    return 1 - float(distance.cosine(np.asarray(x, np.float64), np.asarray(y, np.float64)))


def test_pair_similarity_equals_scipy() -> None:
    found = scored(PairSimilarity("toy", CATS), letter_counts)
    expected = [
        cosine(*([side.count(c) for c in LETTERS] for side in (pair.left, pair.right)))
        for pair in CATS
    ]
    gold = [pair.gold for pair in CATS]
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert found.gold.tolist() == gold
    assert found.ids == ["1", "2", "3", "4"]
    assert found.metrics == {
        "spearman": pytest.approx(spearmanr(expected, gold)[0]),
        "pearson": pytest.approx(pearsonr(expected, gold)[0], abs=1e-6),
    }
    assert (found.coverage, found.notes) == (1, ())
    constant = scored(PairSimilarity("toy", CATS), lambda item: [1, 1, 1])
    assert constant.metrics == {"spearman": None, "pearson": None}
    assert "undefined" in constant.notes[0]


def test_subsets_add_plain_and_weighted_means() -> None:
    pairs = [replace(p, subset="cats") for p in CATS] + [
        replace(p, id=f"d{p.id}", subset="dogs") for p in DOGS
    ]
    parts: list[Any] = [
        scored(PairSimilarity("toy", some), letter_counts).metrics for some in (pairs, CATS, DOGS)
    ]
    whole, one, other = parts[0], *(metrics["spearman"] for metrics in parts[1:])
    assert whole["spearman_mean"] == pytest.approx((one + other) / 2)
    assert whole["spearman_wmean"] == pytest.approx((4 * one + 3 * other) / 7)
    assert whole["spearman"] not in (whole["spearman_mean"], whole["spearman_wmean"])


def test_cross_lingual_texts_carry_their_language() -> None:
    task = PairSimilarity("toy", [Pair("1", "poison", "gift", 5.0)], languages=("en", "de"))
    assert task.inputs(task.load(STORE)) == [
        TextInput("poison", language="en"),
        TextInput("gift", language="de"),
    ]


def test_pair_classification_reports_roc_auc() -> None:
    plane = {"q1": (1, 0), "q2": (0, 2), "s1": (3, 1), "s2": (1, 1)}
    labelled = [
        Pair("a", "q1", "s1", 1.0),
        Pair("b", "q1", "s2", 0.0),
        Pair("c", "q2", "s2", 1.0),
        Pair("d", "q2", "s1", 0.0),
    ]
    scores = scored(PairClassification("answers", labelled), lambda item: plane[item.text])
    # cosines: a 3/sqrt(10), b 1/sqrt(2), c 1/sqrt(2), d 1/sqrt(10): three pairs in order, one tie
    assert scores.scores == pytest.approx([3 / 10**0.5, 0.5**0.5, 0.5**0.5, 0.1**0.5])
    assert scores.metrics == {"auc": pytest.approx((1 + 1 + 0.5 + 1) / 4)}
    assert (PairClassification.main_metric, scores.ids) == ("auc", ["a", "b", "c", "d"])
    assert set(scores.extra) == {"roc_fpr", "roc_tpr", "roc_thresholds"}


@pytest.mark.parametrize(
    ("kind", "items", "message"),
    [
        (PairSimilarity, (), "holds no items"),
        (PairSimilarity, (CATS[0], replace(CATS[1], id="1")), "item ids repeat"),
        (
            PairClassification,
            [Pair("1", "a", "b", 1.0), Pair("2", "a", "b", 1.0)],
            "labels must be 0 and 1",
        ),
    ],
)
def test_inconsistent_pairs_are_refused(
    kind: type[TaskKind[Any]], items: Sequence[Any], message: str
) -> None:
    with pytest.raises(DataFormatError, match=f"task toy: .*{message}"):
        kind("toy", items).load(STORE)


def test_shared_texts_are_the_texts_of_pairs() -> None:
    task = PairSimilarity("p", CATS)
    assert task.shared(CATS) == task.texts(CATS)
    assert task.texts(CATS)["1"] == (CATS[0].left, CATS[0].right)
