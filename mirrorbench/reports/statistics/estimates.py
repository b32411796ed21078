"""An estimate and its standard error, from which interval and p-value follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan, sqrt
from typing import Literal

import numpy as np

from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.paired_answers import score_interval, score_p

FEW = 25
"""Bound on the items that one of two encoders alone answers: below it McNemar's exact test counts too."""
Interval = tuple[float, float]
"""The lower and the upper end."""
Answers = tuple[int, int, int]
"""Numbers of items that the first of two encoders alone answers, that the second alone answers, and of all."""
Scale = Literal["plain", "share", "area"]
Variance = tuple[float, float]
"""A variance and its degrees of freedom."""


@dataclass(frozen=True)
class PointEstimate:
    """A score, or the difference of two.

    Attributes:
        value: in the metric's unit.
        parts: independent parts of its variance: over items, and over the seeds of each encoder with several.
        discordant: numbers of items that the first of two encoders alone answers, that the second alone answers, and of
            all items; ``None`` unless the first two are few. Interval and p-value are then the less certain ones of t
            and McNemar's exact test.
        answers: the same numbers for independent items, however many: interval and p-value are those of the score test
            (``paired_answers``).
        scale: of a single score between 0 and 1: ``share`` of right answers, or ``area`` such as that under the ROC
            curve. Its interval stays between 0 and 1. ``plain`` for other scores and for differences.
        groups: number of independent groups of items behind a score of exactly 0 or 1 on such a scale.
    """

    value: float
    parts: tuple[Variance, ...]
    discordant: Answers | None = None
    answers: Answers | None = None
    scale: Scale = "plain"
    groups: int = 0

    @cached_property
    def error(self) -> float:
        """The standard error, rounded to 12 digits, so that errors of rounding are 0; NaN where undefined."""
        return round(sqrt(sum(variance for variance, _ in self.parts)), 12)

    @cached_property
    def df(self) -> float:
        """Degrees of freedom of the standard error (Satterthwaite 1946)."""
        return (
            self.error**4 / sum(variance**2 / df for variance, df in self.parts)
            if self.error > 0
            else inf
        )

    @property
    def p(self) -> float | None:
        """The two-sided p-value against 0; ``None`` where undefined."""
        from scipy.stats import binomtest, t

        if self.answers:
            wins, losses, _ = self.answers
            return score_p(wins, losses)
        p_values = []
        if self.error > 0 or self.value == self.error == 0:
            p_values.append(
                2 * float(t.sf(abs(self.value) / self.error, self.df)) if self.value else 1.0
            )
        if self.discordant:
            wins, losses, _ = self.discordant
            p_values.append(float(binomtest(wins, wins + losses).pvalue))
        return max(p_values, default=None)

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return the confidence interval, which holds 0 if ``p`` is above ``1 - level``; ``None`` where undefined."""
        from scipy.stats import binomtest, t

        if self.answers:
            return score_interval(*self.answers, level)
        if self.scale != "plain":
            return self._interval_between_0_and_1(level)
        ends: list[float] = []
        if self.error > 0 or self.value == self.error == 0:
            half = self.error * float(t.ppf((1 + level) / 2, self.df))
            ends += [self.value - half, self.value + half]
        if (
            self.discordant
        ):  # the share of discordant items that the first answers: Clopper and Pearson's interval
            wins, losses, n = self.discordant
            shares = binomtest(wins, wins + losses).proportion_ci(level, "exact")
            ends += [(2 * share - 1) * (wins + losses) / n for share in shares]
        return (min(ends), max(ends)) if ends else None

    def _interval_between_0_and_1(self, level: float) -> Interval | None:
        """Wilson's interval of a share (1927); that of an area on the logit scale, at 0 and 1 Wilson's."""
        from scipy.special import expit, logit
        from scipy.stats import t

        certain = self.value in (0, 1)
        if not certain and not self.error > 0:
            return None
        quantile = float(t.ppf((1 + level) / 2, self.groups - 1 if certain else self.df))
        spread = self.value * (1 - self.value)
        if self.scale == "area" and not certain:
            half = quantile * self.error / spread
            low, high = expit(logit(self.value) + np.array([-half, half]))
            return float(low), float(high)
        # As many independent items as would have this standard error.
        n = self.groups if certain else spread / self.error**2
        centre = (self.value + quantile**2 / (2 * n)) / (1 + quantile**2 / n)
        half = quantile / (1 + quantile**2 / n) * sqrt(spread / n + quantile**2 / (4 * n**2))
        low = 0.0 if self.value == 0 else max(0.0, centre - half)
        high = 1.0 if self.value == 1 else min(1.0, centre + half)
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
