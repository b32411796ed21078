from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mirrorbench.analysis.scores import roc_curve
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import Pair
from mirrorbench.tasks import PairClassification, Vectors

RNG = np.random.default_rng(5)
GOLD = RNG.integers(0, 2, 80).astype(np.float64)
SCORES = np.round(RNG.normal(GOLD * 0.7, 1), 1)  # with ties


def naive_points(scores: np.ndarray, gold: np.ndarray) -> set[tuple[float, float]]:
    points = {(0.0, 0.0)}
    for threshold in scores:
        hit = [bool(s >= threshold) for s in scores]
        tp = sum(h and g == 1 for h, g in zip(hit, gold, strict=True))
        fp = sum(h and g == 0 for h, g in zip(hit, gold, strict=True))
        points.add((fp / (gold == 0).sum(), tp / (gold == 1).sum()))
    return points


def test_points_and_area_of_loops() -> None:
    found = roc_curve({"scores": SCORES, "gold": GOLD})
    assert set(zip(found.fpr.tolist(), found.tpr.tolist(), strict=True)) <= naive_points(SCORES, GOLD)
    wins = [float(p > n) + 0.5 * (p == n) for p in SCORES[GOLD == 1] for n in SCORES[GOLD == 0]]
    assert found.auc == pytest.approx(sum(wins) / len(wins)) == roc_auc_score(GOLD, SCORES)
    assert np.trapezoid(found.tpr, found.fpr) == pytest.approx(found.auc)  # points left out lie on straight lines
    assert (found.positives, found.negatives) == ((GOLD == 1).sum(), (GOLD == 0).sum())


def test_secret_labels_are_left_out() -> None:
    gold = np.append(GOLD, [np.nan, np.nan])
    scores = np.append(SCORES, [9.0, -9.0])
    assert roc_curve({"scores": scores, "gold": gold}).auc == roc_curve({"scores": SCORES, "gold": GOLD}).auc


def test_stored_points_are_taken() -> None:
    pairs = [Pair(str(n), f"left {n}", f"right {n}", gold) for n, gold in enumerate(GOLD)]
    task = PairClassification("yes-no", pairs)
    inputs = [TextInput(text) for pair in pairs for text in (pair.left, pair.right)]
    vectors = Vectors(inputs, RNG.normal(size=(len(inputs), 3)).astype(np.float32))
    scores = task.score(pairs, vectors)
    stored = {"scores": scores.scores, "gold": scores.gold, **scores.extra}
    assert roc_curve(stored).fpr is stored["roc_fpr"]
    assert roc_curve(stored).auc == pytest.approx(scores.metrics["auc"])


@pytest.mark.parametrize("gold", [[0, 1, 2], [1, 1, 1], [0.0, np.nan, 0.0]])
def test_other_judgements_have_no_curve(gold: list[float]) -> None:
    with pytest.raises(ValueError, match="labels 0 and 1"):
        roc_curve({"scores": np.array([0.1, 0.2, 0.3]), "gold": np.array(gold, dtype=np.float64)})
