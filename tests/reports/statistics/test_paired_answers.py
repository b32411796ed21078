"""Score test and interval of the difference of two shares, beside published values and the likelihood itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from mirrorbench.reports.statistics.paired_answers import score_interval, score_p


def test_interval_equals_published_example() -> None:
    """Tango (1998), section 5: 12 and 2 of 50 questions."""
    assert score_interval(12, 2, 50, 0.95) == pytest.approx((0.0611, 0.3447), abs=5e-5)


@pytest.mark.parametrize(("wins", "losses", "n"), [(12, 2, 50), (5, 0, 600), (3, 9, 40), (1, 1, 2)])
def test_ends_are_rejected_by_exactly_the_level(wins: int, losses: int, n: int) -> None:
    """The variance under an end is that of the shares that are most likely under it, found by a search."""
    for end in score_interval(wins, losses, n, 0.9):

        def unlikely(share: float, end: float = end) -> float:
            rest = 1 - 2 * share - end
            counts = np.array([wins, losses, n - wins - losses])
            shares = np.array([share + end, share, rest])
            return -float(np.sum(counts * np.log(np.maximum(shares, 1e-300))))

        found = minimize_scalar(
            unlikely,
            bounds=(max(0, -end), (1 - end) / 2),
            method="bounded",
            options={"xatol": 1e-12},
        ).x
        variance = (2 * found + end - end**2) / n
        distance = ((wins - losses) / n - end) / np.sqrt(variance)
        assert abs(distance) == pytest.approx(norm.ppf(0.95), rel=1e-4)


def test_interval_holds_zero_as_the_test_says() -> None:
    for wins in range(8):
        for losses in range(8):
            low, high = score_interval(wins, losses, 60, 0.95)
            assert (low <= 0 <= high) == (score_p(wins, losses) >= 0.05)
            assert low < high
            assert score_interval(losses, wins, 60, 0.95) == pytest.approx((-high, -low))


def test_interval_stays_between_minus_one_and_one() -> None:
    assert score_interval(3, 0, 3, 0.95)[1] == 1
    assert score_interval(0, 3, 3, 0.95)[0] == -1
