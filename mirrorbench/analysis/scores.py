"""Analyses of stored per-item scores.

Cosines of positive and negative pairs are Mirror-BERT's Figure 7 (section 4.4), ROC curves of unsupervised QNLI its
Figure 4; answers that tuning changes are MirrorWiC's Table 6 (section 5.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.tasks.metrics import auc, exact_threshold, roc_points

FEWEST, MOST = 12, 40
"""Limits for the number of bins of a histogram, which follows the Rice rule, 2 n^(1/3)."""
GRADES = ("low", "middle", "high")
"""Bands of graded judgements: thirds of the gold range."""
Answers = tuple[NDArray[np.int64], NDArray[np.float64]]
"""The binary answer to each item, and each score minus the encoder's threshold."""


def bands_of(gold: ArrayLike) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The kinds of pairs, and the index of each pair's kind; graded judgements are cut into ``GRADES``."""
    values = np.asarray(gold, dtype=np.float64)
    low, high = values.min(), values.max()
    if low == high:
        raise ValueError("all pairs have the same judgement")
    if set(np.unique(values)) <= {0.0, 1.0}:
        return ("negative", "positive"), values.astype(np.int64)
    cuts = np.linspace(low, high, len(GRADES) + 1)[1:-1]
    return GRADES, np.searchsorted(cuts, values, side="right").astype(np.int64)


def shared_edges(cosines: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Histogram edges over the cosines of all encoders, so that their histograms are comparable."""
    low, high = min(float(c.min()) for c in cosines), max(float(c.max()) for c in cosines)
    margin = 0.01 * max(high - low, 1e-6)
    bins = int(np.clip(round(2 * max(len(c) for c in cosines) ** (1 / 3)), FEWEST, MOST))
    edges: NDArray[np.float64] = np.linspace(low - margin, high + margin, bins + 1)
    return edges


def distribution(cosines: NDArray[np.float64], gold: ArrayLike, edges: NDArray[np.float64]) -> dict[str, Any]:
    """The distribution of an encoder's similarities in each kind of pair that occurs.

    ``overlap`` is the shared area of the lowest and highest histograms, from 0 (separate) to 1 (equal), ``auc`` the
    share of cases in which a pair of the highest band scores above one of the lowest.
    """
    names, kind = bands_of(gold)
    bands: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        own = cosines[kind == index]
        if len(own):
            sd = float(own.std(ddof=1)) if len(own) > 1 else None
            density = np.histogram(own, edges, density=True)[0]
            numbers = {"n": len(own), "mean": float(own.mean()), "sd": sd, "median": float(np.median(own))}
            bands.append({"name": name, **numbers, "density": density})
    overlap = float((np.minimum(bands[0]["density"], bands[-1]["density"]) * np.diff(edges)).sum())
    extreme = (kind == 0) | (kind == len(names) - 1)
    area = auc(cosines[extreme], kind[extreme] > 0)
    return {"bands": bands, "edges": edges, "overlap": overlap, "auc": area}


def roc_curve(predictions: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The ROC curve of predictions, from its stored points or their scores; items of unknown gold (NaN) left out."""
    scores, gold = predictions["scores"], predictions["gold"]
    scores, gold = scores[~np.isnan(gold)], gold[~np.isnan(gold)]
    if set(np.unique(gold)) != {0.0, 1.0}:
        raise ValueError("a ROC curve needs labels 0 and 1, and both of them")
    points = predictions if "roc_fpr" in predictions else roc_points(scores, gold)
    return {
        "fpr": points["roc_fpr"], "tpr": points["roc_tpr"], "threshold": points["roc_thresholds"],
        "auc": auc(scores, gold), "positives": int(gold.sum()), "negatives": len(gold) - int(gold.sum()),
    }  # fmt: skip


def answers(predictions: Mapping[str, NDArray[Any]], threshold: float | None = None) -> Answers | None:
    """The binary answer to each item; ``None`` for graded judgements.

    The threshold is the task's own if it stored one with its decisions, 0.5 where scores are hits (1) and misses (0),
    and otherwise the one with the best accuracy on the same items.
    """
    scores, gold = predictions["scores"], predictions["gold"]
    known = ~np.isnan(gold)
    if "predictions" in predictions and threshold is not None:
        return predictions["predictions"].astype(np.int64), scores - threshold
    if set(np.unique(scores)) <= {0.0, 1.0} and bool((gold == 1).all()):
        return scores.astype(np.int64), scores - 0.5
    if set(np.unique(gold[known])) != {0.0, 1.0}:
        return None
    cut = exact_threshold(scores[known], gold[known])
    return (scores > cut).astype(np.int64), scores - cut


def changed_answers(ids: Sequence[str], gold: ArrayLike, before: Answers, after: Answers) -> list[dict[str, Any]]:
    """The items whose answers differ, the largest change of the score first.

    Scores are relative to each encoder's threshold; the paper's are "isotropy-adjusted" by random-word similarity.
    """
    names = ("id", "gold", "before", "after", "score_before", "score_after")
    arrays = (np.asarray(gold, dtype=np.int64), before[0], after[0], before[1], after[1])
    rows = [dict(zip(names, row, strict=True)) for row in zip(ids, *(a.tolist() for a in arrays), strict=True)]
    changed = [row for row in rows if row["before"] != row["after"]]
    return sorted(changed, key=lambda row: -abs(row["score_after"] - row["score_before"]))


def shifted_ranks(
    ids: Sequence[str], gold: ArrayLike, before: NDArray[np.float64], after: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Ranks of at least two items by gold and both encoders, from 0 (least similar) to 1, largest change first.

    ``gain`` is by how much the second encoder's rank is closer to the gold rank; negative where it is further away.
    """
    from scipy.stats import rankdata

    ranks = [((rankdata(values) - 1) / (len(ids) - 1)).tolist() for values in (gold, before, after)]
    rows = [
        {"id": item, "gold_rank": g, "rank_before": b, "rank_after": a, "gain": abs(b - g) - abs(a - g)}
        for item, g, b, a in zip(ids, *ranks, strict=True)
    ]
    return sorted(rows, key=lambda row: -abs(row["gain"]))
