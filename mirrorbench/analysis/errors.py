"""Error analysis: which items change their answer from one encoder to another (MirrorWiC, section 5.3, Table 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.analysis.roc import is_binary
from mirrorbench.tasks.metrics import exact_threshold

Answers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Change:
    """An item whose answer is another one under the second encoder.

    Attributes:
        id: of the item.
        gold: the right answer, 0 or 1.
        before: the first encoder's answer.
        after: the second's.
        score_before: the first encoder's score less its threshold; above 0 is a yes.
        score_after: the second's.
    """

    id: str
    gold: int
    before: int
    after: int
    score_before: float
    score_after: float

    @property
    def corrected(self) -> bool:
        """Whether the second encoder is right (else the first was)."""
        return self.after == self.gold


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed, and the four counts that MirrorWiC gives.

    Attributes:
        n: items compared.
        changed: those whose answer changed, the largest change of the score first.
        corrected: how many of them were wrong and are right.
        corrected_true: corrected ones whose right answer is yes (new true positives).
        spoiled: how many were right and are wrong.
        spoiled_false: spoiled ones whose right answer is no (new false positives).
    """

    n: int
    changed: tuple[Change, ...]
    corrected: int
    corrected_true: int
    spoiled: int
    spoiled_false: int


@dataclass(frozen=True, slots=True)
class Shift:
    """An item of a graded task that one encoder ranks better than another.

    Attributes:
        id: of the item.
        gold: its rank by the judgements, from 0 (least similar) to 1.
        before: its rank by the first encoder.
        after: by the second.
    """

    id: str
    gold: float
    before: float
    after: float

    @property
    def gain(self) -> float:
        """How much nearer to the judgement's rank the second encoder is; negative where it is further away."""
        return abs(self.before - self.gold) - abs(self.after - self.gold)


def answers(predictions: Mapping[str, NDArray[Any]], threshold: float | None = None) -> tuple[Answers, float] | None:
    """Yes or no for each item, and the threshold behind it.

    Args:
        predictions: ``scores`` and ``gold`` of shape (n,); ``predictions`` where the task stored its decisions.
        threshold: the one that the task chose, if it stored one.

    Returns:
        Answers of shape (n,) and the threshold: the task's own; for labels without one, that with the best accuracy on
        the same items; 0.5 where the scores are hits (1) and misses (0). ``None`` for graded judgements.
    """
    scores, gold = predictions["scores"], predictions["gold"]
    if "predictions" in predictions and threshold is not None:
        return predictions["predictions"].astype(np.int64), threshold
    if set(np.unique(scores)) <= {0.0, 1.0} and bool((gold == 1).all()):
        return scores.astype(np.int64), 0.5
    if is_binary(gold):
        known = ~np.isnan(gold)
        cut = exact_threshold(scores[known], gold[known])
        return (scores > cut).astype(np.int64), cut
    return None


def changed_answers(
    ids: list[str],
    gold: ArrayLike,
    before: tuple[Answers, float],
    after: tuple[Answers, float],
    scores: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> Changes:
    """The items whose answers differ.

    The paper's scores are "isotropy-adjusted" by the similarity of random words. Here they count from each encoder's
    own threshold, so that their sign is the answer and the two encoders can be compared.

    Args:
        ids: of n items.
        gold: the right answers, 0 or 1, shape (n,).
        before: the first encoder's answers and threshold.
        after: the second's.
        scores: both encoders' scores, each of shape (n,).
    """
    right = np.asarray(gold, dtype=np.int64)
    found = [
        Change(
            ids[row], int(right[row]), int(before[0][row]), int(after[0][row]),
            float(scores[0][row] - before[1]), float(scores[1][row] - after[1]),
        )
        for row in np.flatnonzero(before[0] != after[0])
    ]  # fmt: skip
    found.sort(key=lambda change: -abs(change.score_after - change.score_before))
    corrected = [change for change in found if change.corrected]
    spoiled = [change for change in found if not change.corrected]
    return Changes(
        n=len(ids),
        changed=tuple(found),
        corrected=len(corrected),
        corrected_true=sum(change.gold for change in corrected),
        spoiled=len(spoiled),
        spoiled_false=sum(1 - change.gold for change in spoiled),
    )


def shifted_ranks(
    ids: list[str], gold: ArrayLike, before: NDArray[np.float64], after: NDArray[np.float64]
) -> list[Shift]:
    """How far each item of a graded task moved towards its place, the largest moves of either direction first.

    Args:
        ids: of n items, n at least 2.
        gold: judgements, shape (n,).
        before: the first encoder's scores, shape (n,).
        after: the second's.
    """
    from scipy.stats import rankdata

    ranks = [(rankdata(values) - 1) / (len(ids) - 1) for values in (gold, before, after)]
    shifts = [Shift(item, *(float(rank[row]) for rank in ranks)) for row, item in enumerate(ids)]
    return sorted(shifts, key=lambda shift: -abs(shift.gain))
