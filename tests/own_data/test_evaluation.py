"""The number of items that an answer needs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from mirrorbench.own_data.evaluation import items_needed
from mirrorbench.reports.table import Verdict


@pytest.mark.parametrize("n_tests", [1, 5])
def test_items_needed_gives_eighty_percent_power(n_tests: int) -> None:
    """After Bonferroni's correction, the strictest step of Holm's."""
    error, n, difference = 0.02, 100, 0.03
    verdict = Verdict("a", "b", "paper", "t", difference, error=error, n=n, n_tests=n_tests)
    needed = items_needed(verdict)
    assert needed is not None
    drawn = difference + error * np.sqrt(n / needed) * np.random.default_rng(0).normal(size=100_000)
    assert np.mean(
        drawn / (error * np.sqrt(n / needed)) > t.ppf(1 - 0.025 / n_tests, needed - 1)
    ) == pytest.approx(0.8, abs=0.01)
