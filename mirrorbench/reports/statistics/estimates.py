"""An estimate and its standard error, from which interval and p-value follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan, sqrt
from typing import Literal

import numpy as np

from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.paired_answers import score_distance, score_interval, score_p

Interval = tuple[float, float]
"""The lower and the upper end."""
Variance = tuple[float, float]
"""A variance and its degrees of freedom."""
Scale = Literal["plain", "share", "area"]
"""Which interval a score has, as in ``PointEstimate.scale``."""


@dataclass(frozen=True)
class Answers:
    """Right answers of two encoders to n independent questions, which are worth as much as the items of an estimate.

    Dependent items and several seeds are worth the number of questions that have the same standard error.

    Attributes:
        wins: number of questions that only the first encoder answers.
        losses: number of questions that only the second encoder answers.
        n: number of all questions.
    """

    wins: float
    losses: float
    n: float


@dataclass(frozen=True)
class Labels:
    """Numbers of independent items of the two labels behind an area under the ROC curve."""

    positive: float
    negative: float


@dataclass(frozen=True)
class PointEstimate:
    """A score, or the difference of two.

    Attributes:
        value: the score or difference, in the metric's unit.
        parts: independent parts of its variance, each with its degrees of freedom: first over items, then over the
            seeds of each encoder with several.
        groups: number of independent groups of items, which gives the degrees of freedom if there is no variance.
        answers: for a difference of two shares of right answers; interval and p-value are then those of the score test
            (``paired_answers``).
        scale: ``share`` for a single share of right answers, ``area`` for a single area such as that under the ROC
            curve; their intervals stay between 0 and 1. ``plain`` for other scores and for differences.
        labels: numbers of items behind an area under the ROC curve.
    """

    value: float
    parts: tuple[Variance, ...]
    groups: float = 1
    answers: Answers | None = None
    scale: Scale = "plain"
    labels: Labels | None = None

    @cached_property
    def error(self) -> float:
        """The standard error; NaN if undefined. It is rounded to 12 digits, below which it is due to rounding."""
        return round(sqrt(sum(variance for variance, _ in self.parts)), 12)

    @cached_property
    def df(self) -> float:
        """Degrees of freedom of the standard error, by Satterthwaite's approximation (1946) for a sum of variances.

        If seeds vary more than items, there are at most as many as for the seeds alone, since the approximation gives
        too many for few seeds. Without any variance there is one less than groups, but at least 1.
        """
        if isnan(self.error):
            return nan
        if self.error == 0:
            return max(1.0, self.groups - 1)
        (item_variance, _), *seed_parts = self.parts
        df = _satterthwaite_df(self.parts)
        if sum(variance for variance, _ in seed_parts) > item_variance:
            df = min(df, _satterthwaite_df(seed_parts))
        return df

    @property
    def p(self) -> float | None:
        """The two-sided p-value of the hypothesis that the true value is 0; ``None`` if undefined.

        It is that of McNemar's score test for ``answers``, otherwise that of a t test.
        """
        from scipy.stats import t

        if self.answers:
            return score_p(self.answers.wins, self.answers.losses, self.df)
        if self.value == self.error == 0:
            return 1.0
        if not self.error > 0:
            return None
        return 2 * float(t.sf(abs(self.value) / self.error, self.df))

    def p_within(self, margin: float, df: float) -> float | None:
        """Return the p-value of the hypothesis that the true value is not between ``-margin`` and ``margin``.

        It is twice the larger one of the p-values of two one-sided tests (Schuirmann 1987). It is below ``1 - level``
        if and only if the interval at that level lies between the margins. ``None`` if undefined.

        Args:
            margin: the margin, above 0.
            df: degrees of freedom of the tests.
        """
        from scipy.stats import t

        # Distances from both margins, in standard errors.
        if self.answers:
            answers = self.answers
            above_lower = score_distance(-margin, answers.wins, answers.losses, answers.n)
            below_upper = -score_distance(margin, answers.wins, answers.losses, answers.n)
        elif self.error > 0:
            above_lower = (self.value + margin) / self.error
            below_upper = -((self.value - margin) / self.error)
        else:
            return None
        return min(1.0, 2 * float(t.sf(min(above_lower, below_upper), df)))

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return the confidence interval; ``None`` if undefined.

        The interval of a difference contains 0 if ``p`` is above ``1 - level``. It is Tango's interval (1998) for
        ``answers``, Wilson's (1927) for a share, an interval on the logit scale for an area, and otherwise that of a t
        test.
        """
        from scipy.stats import t

        if self.answers:
            answers = self.answers
            return score_interval(answers.wins, answers.losses, answers.n, level, self.df)
        if self.scale != "plain" and self.value in (0, 1):
            return self._interval_of_extreme_score(level)
        if self.scale == "area":
            return self._interval_of_area(level)
        # The same values on all items.
        if self.value == self.error == 0:
            return 0.0, 0.0
        quantile = float(t.ppf((1 + level) / 2, self.df))
        if self.scale == "share" and self.groups > 1:
            n = self.groups
            if self.error > 0:
                # The number of independent items that would have this standard error.
                n = self.value * (1 - self.value) / self.error**2
            return _wilson_interval(self.value, n, quantile)
        # Also ``None`` if the error is NaN.
        if not self.error > 0:
            return None
        half_width = self.error * quantile
        return self.value - half_width, self.value + half_width

    def _interval_of_extreme_score(self, level: float) -> Interval | None:
        """Return the interval of a score of exactly 0 or 1: from there to the other end of Wilson's interval."""
        from scipy.stats import t

        if self.groups < 2:
            return None
        quantile = float(t.ppf((1 + level) / 2, self.df))
        low, high = _wilson_interval(self.value, self.groups, quantile)
        return (0.0, high) if self.value == 0 else (low, 1.0)

    def _interval_of_area(self, level: float) -> Interval | None:
        """Return the interval on the logit scale; with ``labels``, widened to hold Newcombe's interval.

        If there are few items of a label, all of them may be ranked alike, which makes the standard error too small.
        """
        from scipy.special import expit, logit
        from scipy.stats import norm, t

        intervals: list[Interval] = []
        if self.error > 0:
            half_width = float(t.ppf((1 + level) / 2, self.df)) * self.error
            half_width /= self.value * (1 - self.value)  # the derivative of the logit
            ends = expit(logit(self.value) + np.array([-half_width, half_width]))
            intervals.append((float(ends[0]), float(ends[1])))
        if self.labels:
            quantile = float(norm.ppf((1 + level) / 2))
            intervals.append(area_interval(self.value, self.labels, quantile))
        if not intervals:
            return None
        lowest = min(low for low, _ in intervals)
        highest = max(high for _, high in intervals)
        return lowest, highest


def _satterthwaite_df(parts: Sequence[Variance]) -> float:
    """Approximate the degrees of freedom of a sum of independent variances (Satterthwaite 1946)."""
    total = sum(variance for variance, _ in parts)
    return total**2 / sum(variance**2 / df for variance, df in parts)


def _wilson_interval(share: float, n: float, quantile: float) -> Interval:
    """Return Wilson's interval (1927) of a share of n independent items."""
    centre = (share + quantile**2 / (2 * n)) / (1 + quantile**2 / n)
    variance = share * (1 - share) / n + quantile**2 / (4 * n**2)
    half_width = quantile / (1 + quantile**2 / n) * sqrt(variance)
    return max(0.0, centre - half_width), min(1.0, centre + half_width)


def area_interval(area: float, labels: Labels, quantile: float) -> Interval:
    """Return Newcombe's interval (2006, method 5) of an area under the ROC curve.

    It contains all areas that are at most ``quantile`` standard errors away. The standard error of an area is not
    estimated from the items: it follows from the area and the numbers of items of either label (Hanley and McNeil
    1982).
    """
    from scipy.optimize import brentq

    n = (labels.positive + labels.negative) / 2

    def error(value: float) -> float:
        of_positive = (1 - value) / (2 - value)
        of_negative = value / (1 + value)
        variance = value * (1 - value) * (1 + (n - 1) * (of_positive + of_negative))
        return sqrt(max(0.0, variance) / (labels.positive * labels.negative))

    low = float(brentq(lambda value: area - value - quantile * error(value), 0, area))
    high = float(brentq(lambda value: value - area - quantile * error(value), area, 1))
    return low, high


UNDEFINED = PointEstimate(nan, ((nan, 1.0),))
"""The estimate of a score that cannot be computed, or whose error cannot be estimated."""


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values by Holm's step-down procedure (1979), in the order given; undefined ones stay ``None``."""
    defined = [index for index, p in enumerate(p_values) if p is not None]
    p = np.array([p_values[index] for index in defined], np.float64)
    order = np.argsort(p, kind="stable")
    # The smallest of n p-values is multiplied by n, the next one by n - 1, and so on; none falls below the one before.
    factors = np.arange(len(p), 0, -1)
    in_order = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    corrected: list[float | None] = [None] * len(p_values)
    for position, value in zip(order, in_order, strict=True):
        corrected[defined[position]] = float(value)
    return corrected
