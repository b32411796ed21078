"""Tests whether two encoders are equal within a margin: two one-sided tests (Schuirmann 1987), each at 2.5 %.

Intervals are too short if few items make the whole difference. A difference must therefore rest on enough items, and
their number limits the degrees of freedom. The rules are those for which ``benchmarks/calibration.py`` finds that the
tests hold their level.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.estimates import PointEstimate
from mirrorbench.reports.table import Equality

FEWEST_EFFECTIVE_ITEMS = 20
"""Fewest effective items on which a difference must rest, in each task (``Basis.effective_items``)."""
FEWEST_IDENTICAL_ITEMS = 300
"""Fewest independent items from which equality can follow if the encoders do not differ on any of them."""
SIMULATED_SCORES = frozenset({"mean", "spearman", "auc", "ap"})
"""Scores for which simulations (``benchmarks/calibration.py``) confirm the tests."""


@dataclass(frozen=True)
class Basis:
    """The items behind the difference of two encoders.

    Attributes:
        groups: number of independent groups of items; the number of items if all are independent.
        differing: share of the items on which the encoders differ.
        effective_items: number of independent items of equal influence that would vary as the items do; the smallest of
            several tasks (``Dependence.effective_items``).
        independent_answers: whether the values are right or wrong answers of one seed to independent items of one task.
        effect: largest difference of two scores, divided by the share of items that differ; infinite if unknown, as
            with several tasks or seeds.
        simulated: whether the scores are among ``SIMULATED_SCORES``, and none rests on thresholds fitted in folds.
    """

    groups: float
    differing: float
    effective_items: float
    independent_answers: bool
    effect: float
    simulated: bool


def requested_equality(margin: float | None) -> Equality | None:
    """Return the equality to test for a user's margin; ``None`` without a margin.

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

    The p-value is twice the larger one of two one-sided tests against ``-margin`` and ``margin`` (Schuirmann 1987). If
    the share of items that differ alone bounds the difference significantly, the p-value of this bound is used where it
    is smaller. The p-value is ``None``, with the reason, if the score was not simulated or the items do not suffice.

    Args:
        estimate: the estimate of the difference.
        basis: the items behind the difference.
        margin: the margin, above 0, in the unit of the score.
    """
    if not basis.simulated:
        return Equality(margin, why_not="is not tested for this score")
    n = round(basis.groups)
    if basis.differing == 0 and n < FEWEST_IDENTICAL_ITEMS:
        why_not = f"these items cannot say: no item differs, of fewer than {FEWEST_IDENTICAL_ITEMS}"
        return Equality(margin, why_not=why_not)
    # The two one-sided tests, if the items suffice: the score test of independent answers needs no least number.
    p = None
    if basis.independent_answers and basis.differing > 0:
        p = estimate.p_within(margin, estimate.df)
    elif basis.effective_items >= FEWEST_EFFECTIVE_ITEMS:
        # The error of a difference that rests on few items is itself estimated from only these items.
        df = min(estimate.df, basis.effective_items - 1)
        p = estimate.p_within(margin, df)
    # The bound counts only if it is significant by itself.
    p_of_bound = _p_of_bound(basis, n, margin)
    if p_of_bound < 1 - LEVEL:
        p = p_of_bound if p is None else min(p, p_of_bound)
    if p is None:
        return Equality(margin, why_not=_reason_against_test(basis))
    return Equality(margin, p)


def _reason_against_test(basis: Basis) -> str:
    if basis.differing == 0:
        return "these items cannot say: it rests on items of which none differs"
    n = round(basis.effective_items)
    noun = "item" if n == 1 else "items"
    return (
        f"these items cannot say: it rests on about {n} {noun}, fewer than {FEWEST_EFFECTIVE_ITEMS}"
    )


def _p_of_bound(basis: Basis, n: int, margin: float) -> float:
    """Return the two-sided p-value at which the share of differing items bounds the difference by the margin.

    The difference is at most ``basis.effect`` times the true share of items that differ. Its upper confidence limit is
    that of Clopper and Pearson (1934), from the number of differing ones among n independent items.
    """
    from scipy.special import betaincc

    differing = basis.differing * n
    if isinf(basis.effect) or differing >= n:
        return 1.0
    return min(1.0, 2 * float(betaincc(differing + 1, n - differing, margin / basis.effect)))
