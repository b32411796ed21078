from __future__ import annotations

import pytest

from mirrorbench.tasks.metrics.ranking import accuracy_at, mean_reciprocal_rank


def test_values_by_hand() -> None:
    ranks = [1, 2, 5, 6, float("inf")]
    assert accuracy_at(1, ranks) == pytest.approx(1 / 5)
    assert accuracy_at(5, ranks) == pytest.approx(3 / 5)
    assert mean_reciprocal_rank(ranks) == pytest.approx((1 + 1 / 2 + 1 / 5 + 1 / 6) / 5)


def test_of_nothing_they_are_undefined() -> None:
    assert accuracy_at(1, []) is None
    assert mean_reciprocal_rank([]) is None
