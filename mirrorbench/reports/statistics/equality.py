"""Whether two encoders are equal within a margin: two one-sided tests, where simulation holds them.

Each test is at 2.5 %. Rare gains on one side make intervals too short: a difference must rest on enough items, and the
fewer they are the wider it is (``benchmarks/calibration.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.estimates import PointEstimate
from mirrorbench.reports.table import Equality

FEWEST = 20
"""Fewest independent items of equal influence on which a difference must rest, in each task."""
MANY = 300
"""Fewest independent items of which none differs that say something about others."""
SCORES = frozenset({"mean", "spearman", "auc", "ap"})
"""Scores for which the tests were simulated."""


@dataclass(frozen=True)
class Basis:
    """What the difference of two encoders rests on.

    Attributes:
        items: number of independent items.
        differing: share of the items on which the encoders differ.
        carrying: number of independent items of equal influence that would vary as the items do; of several tasks the
            fewest.
        counted: whether all are right or wrong answers of one seed to independent items of one task.
        effect: largest difference of the scores, in shares of items that differ; infinite where that is unknown, as with several tasks or seeds.
        simulated: whether the scores are among ``SCORES``.
    """

    items: float
    differing: float
    carrying: float
    counted: bool
    effect: float
    simulated: bool


def asked_for(margin: float | None) -> Equality | None:
    """Return an equality to test; ``None`` without a margin.

    Raises:
        UsageError: the margin is not between 0 and 1.
    """
    if margin is None:
        return None
    if isinstance(margin, bool) or not isinstance(margin, int | float):
        raise UsageError(f"margin={margin!r:.60}", "Pass a number between 0 and 1, such as .01.")
    if not 0 < margin < 1:
        raise UsageError(
            f"a margin of {margin:g} is not between 0 and 1", "Such as --margin .01, one point"
        )
    return Equality(margin)


def equality_within(estimate: PointEstimate, basis: Basis, margin: float) -> Equality:
    """Test whether a difference is smaller than a margin, in either direction.

    The p-value is that of two one-sided tests, doubled, or of the bound by the items that differ, if that is
    significant. It is ``None``, with the reason, where the items cannot say.

    Args:
        estimate: of the difference.
        basis: what it rests on.
        margin: above 0, in the unit of the score.
    """
    if not basis.simulated:
        return Equality(margin, why_not="is not tested for this score")
    n = round(basis.items)
    if basis.differing == 0 and n < MANY:
        why_not = f"these items cannot say: no item differs, of fewer than {MANY}"
        return Equality(margin, why_not=why_not)
    p = None
    if basis.counted and basis.differing > 0:
        p = estimate.p_within(margin, estimate.df)
    elif basis.carrying >= FEWEST:
        # Gains of few items vary as the number of those items does.
        p = estimate.p_within(margin, min(estimate.df, basis.carrying - 1))
    bound = _p_of_bound(basis, n, margin)
    if bound < 1 - LEVEL:
        p = bound if p is None else min(p, bound)
    if p is None:
        carrying = round(basis.carrying)
        items = f"about {carrying} {'item' if carrying == 1 else 'items'}, fewer than {FEWEST}"
        if basis.differing == 0:
            items = "items of which none differs"
        return Equality(margin, why_not=f"these items cannot say: it rests on {items}")
    return Equality(margin, p)


def _p_of_bound(basis: Basis, n: int, margin: float) -> float:
    """The level at which the largest difference that the share of differing items allows is the margin.

    That share is at most the upper end of Clopper and Pearson's interval.
    """
    from scipy.special import betaincc

    differing = basis.differing * n
    if isinf(basis.effect) or differing >= n:
        return 1.0
    return min(1.0, 2 * float(betaincc(differing + 1, n - differing, margin / basis.effect)))
