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


@dataclass(frozen=True)
class Answers:
    """Right answers of two encoders to n independent questions, which say as much as the items of an estimate.

    Dependent items and several seeds are worth the number of questions that have the same standard error.

    Attributes:
        wins: number of questions that the first encoder alone answers.
        losses: number of those that the second alone answers.
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
        value: in the metric's unit.
        parts: independent parts of its variance: over items, and over the seeds of each encoder with several.
        groups: number of independent groups of items, which gives the degrees of freedom where there is no variance.
        answers: of a difference of two shares of right answers: interval and p-value are those of the score test
            (``paired_answers``).
        scale: of a single score between 0 and 1: ``share`` of right answers, or ``area`` such as that under the ROC
            curve. Its interval stays between 0 and 1. ``plain`` for other scores and for differences.
        labels: of an area under the ROC curve.
    """

    value: float
    parts: tuple[Variance, ...]
    groups: float = 1
    answers: Answers | None = None
    scale: Scale = "plain"
    labels: Labels | None = None

    @cached_property
    def error(self) -> float:
        """The standard error, rounded to 12 digits, so that errors of rounding are 0; NaN where undefined."""
        return round(sqrt(sum(variance for variance, _ in self.parts)), 12)

    @cached_property
    def df(self) -> float:
        """Degrees of freedom of the standard error; of 0, one less than there are groups.

        Where seeds vary more than items, they have those of the seeds at most: of few seeds, Satterthwaite's are too
        many.
        """
        if isnan(self.error):
            return nan
        if self.error == 0:
            return max(1.0, self.groups - 1)
        (of_items, _), *of_seeds = self.parts
        df = _satterthwaite(self.parts)
        if sum(variance for variance, _ in of_seeds) > of_items:
            df = min(df, _satterthwaite(of_seeds))
        return df

    @property
    def p(self) -> float | None:
        """The two-sided p-value against 0; ``None`` where undefined."""
        from scipy.stats import t

        if self.answers:
            return score_p(self.answers.wins, self.answers.losses, self.df)
        if self.value == self.error == 0:
            return 1.0
        if not self.error > 0:
            return None
        return 2 * float(t.sf(abs(self.value) / self.error, self.df))

    def p_within(self, margin: float, df: float) -> float | None:
        """Return the least level at which the interval lies between ``-margin`` and ``margin``; ``None`` if undefined.

        That is the larger p-value of two one-sided tests, doubled. ``df``: degrees of freedom of its interval.
        """
        from scipy.stats import t

        if self.answers:
            of = self.answers
            below, above = (
                score_distance(end, of.wins, of.losses, of.n) for end in (-margin, margin)
            )
        elif self.error > 0:
            below, above = ((self.value - end) / self.error for end in (-margin, margin))
        else:
            return None
        return min(1.0, 2 * float(t.sf(min(below, -above), df)))

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return the confidence interval, which holds 0 if ``p`` is above ``1 - level``; ``None`` where undefined."""
        from scipy.stats import t

        if self.answers:
            of = self.answers
            return score_interval(of.wins, of.losses, of.n, level, self.df)
        if self.scale != "plain" and self.value in (0, 1):
            return self._bound(level)
        if self.scale == "area":
            return self._interval_of_area(level)
        if self.value == self.error == 0:
            return 0.0, 0.0
        quantile = float(t.ppf((1 + level) / 2, self.df))
        if self.scale == "share" and self.groups > 1:
            n = self.groups
            if self.error > 0:  # as many independent items as would have this standard error
                n = self.value * (1 - self.value) / self.error**2
            return _wilson(self.value, n, quantile)
        if not self.error > 0:
            return None
        half = self.error * quantile
        return self.value - half, self.value + half

    def _bound(self, level: float) -> Interval | None:
        """The interval of a score of exactly 0 or 1, of which the other end is Wilson's."""
        from scipy.stats import t

        if self.groups < 2:
            return None
        low, high = _wilson(self.value, self.groups, float(t.ppf((1 + level) / 2, self.df)))
        return (0.0, high) if self.value == 0 else (low, 1.0)

    def _interval_of_area(self, level: float) -> Interval | None:
        """The interval on the logit scale; with ``labels`` not within that of the score test.

        Among few items of a label all may be ranked alike, so that their standard error is too small.
        """
        from scipy.special import expit, logit
        from scipy.stats import norm, t

        intervals: list[Interval] = []
        if self.error > 0:
            half = float(t.ppf((1 + level) / 2, self.df)) * self.error
            half /= self.value * (1 - self.value)
            low, high = map(float, expit(logit(self.value) + np.array([-half, half])))
            intervals.append((low, high))
        if self.labels:
            quantile = float(norm.ppf((1 + level) / 2))
            intervals.append(area_interval(self.value, self.labels, quantile))
        if not intervals:
            return None
        return min(low for low, _ in intervals), max(high for _, high in intervals)


def _satterthwaite(parts: Sequence[Variance]) -> float:
    """Degrees of freedom of a sum of independent variances (1946)."""
    total = sum(variance for variance, _ in parts)
    return total**2 / sum(variance**2 / df for variance, df in parts)


def _wilson(share: float, n: float, quantile: float) -> Interval:
    """Wilson's interval of a share of n items (1927)."""
    centre = (share + quantile**2 / (2 * n)) / (1 + quantile**2 / n)
    spread = share * (1 - share) / n + quantile**2 / (4 * n**2)
    half = quantile / (1 + quantile**2 / n) * sqrt(spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def area_interval(area: float, labels: Labels, quantile: float) -> Interval:
    """Return Newcombe's interval of an area under the ROC curve (2006, method 5): those at most ``quantile`` errors away.

    The error is not estimated from the items, but follows from the area and the numbers of items.
    """
    from scipy.optimize import brentq

    n = (labels.positive + labels.negative) / 2

    def error(value: float) -> float:
        above, below = (1 - value) / (2 - value), value / (1 + value)
        variance = value * (1 - value) * (1 + (n - 1) * (above + below))
        return sqrt(max(0.0, variance) / (labels.positive * labels.negative))

    low = float(brentq(lambda value: area - value - quantile * error(value), 0, area))
    high = float(brentq(lambda value: value - area - quantile * error(value), area, 1))
    return low, high


UNDEFINED = PointEstimate(nan, ((nan, 1.0),))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values by Holm's step-down procedure (1979), in the order given; undefined ones stay ``None``."""
    known = [index for index, p in enumerate(p_values) if p is not None]
    p = np.array([p_values[index] for index in known], np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    adjusted: list[float | None] = [None] * len(p_values)
    for position, value in zip(order, corrected, strict=True):
        adjusted[known[position]] = float(value)
    return adjusted
