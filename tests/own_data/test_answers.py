"""The number of items that an answer needs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from mirrorbench.own_data.answers import Answer
from mirrorbench.reports.statistics.comparisons import Comparison, SeedMean
from mirrorbench.reports.statistics.estimates import PointEstimate


@pytest.mark.parametrize("n_answers", [1, 5])
def test_items_needed_gives_eighty_percent_power(n_answers: int) -> None:
    """After Bonferroni's correction, the strictest step of Holm's."""
    error, n, difference = 0.02, 100, 0.03
    means = SeedMean(0.0, None, 1), SeedMean(0.0, None, 1)
    comparison = Comparison(n, 0, *means, PointEstimate(difference, ((error**2, n - 1.0),)))
    needed = Answer("a", "b", comparison, 0.1, n_answers).items_needed
    assert needed is not None
    drawn = difference + error * np.sqrt(n / needed) * np.random.default_rng(0).normal(size=100_000)
    assert np.mean(
        drawn / (error * np.sqrt(n / needed)) > t.ppf(1 - 0.025 / n_answers, needed - 1)
    ) == pytest.approx(0.8, abs=0.01)
