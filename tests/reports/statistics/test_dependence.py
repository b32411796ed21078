"""The variance over items against loops over pairs of items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.statistics.comparisons import Comparisons
from mirrorbench.reports.statistics.dependence import Dependence, units_of
from mirrorbench.reports.statistics.items import MEAN, ItemScores

SHARED = np.array([[0, 1], [1, 2], [3, -1], [-1, -1], [0, 2], [4, 5], [4, 5], [5, 6]], np.int32)
INFLUENCE = np.array([3.0, 2, -1, 0, 2, -3, -4, 1]) / 8


def items(n: int, shared: np.ndarray | None = None, units: str = "") -> ItemScores:
    ids = tuple(f"{units}{item}" for item in range(n))
    return ItemScores(
        MEAN, ids, np.zeros(n), np.zeros(n), shared=shared, units=ids if units else ()
    )


def variance_of(tasks: list[ItemScores], influences: list[np.ndarray]) -> tuple[float, float]:
    """The variance and its degrees of freedom."""
    dependence = Dependence(tasks)
    return dependence.variance(influences), dependence.degrees_of_freedom(influences)


def test_variance_includes_covariance_of_dependent_items() -> None:
    """The sum over all pairs that share something, those that share two things counted once."""
    sets, n = [set(row[row >= 0]) for row in SHARED], len(SHARED)
    pairs = [(i, j) for i in range(n) for j in range(n) if i == j or sets[i] & sets[j]]
    expected = sum(INFLUENCE[i] * INFLUENCE[j] for i, j in pairs) / (1 - len(pairs) / n**2)
    found = variance_of([items(n, SHARED)], [INFLUENCE])
    assert found == pytest.approx((expected, n**2 / len(pairs) - 1))
    assert expected > 1.5 * INFLUENCE @ INFLUENCE * n / (n - 1)


def test_equal_items_in_group_count_once() -> None:
    """Of groups of equal values, the variance of the mean is that of the values of the groups."""
    groups = np.random.default_rng(0).normal(size=6)
    values = np.repeat(groups, 5)
    codes = np.repeat(np.arange(6, dtype=np.int32), 5)[:, None]
    found = variance_of([items(30, codes)], [(values - values.mean()) / 30])
    assert found == pytest.approx((groups.var(ddof=1) / 6, 5))


@pytest.mark.parametrize(
    "shared", [None, np.full((50, 2), -1, np.int32), np.arange(50, dtype=np.int32)[:, None]]
)
def test_variance_of_independent_items_is_sample_variance(shared: np.ndarray | None) -> None:
    values = np.random.default_rng(2).normal(size=50)
    found = variance_of([items(50, shared)], [(values - values.mean()) / 50])
    assert found == pytest.approx((values.var(ddof=1) / 50, 49))


def test_variance_never_falls_below_independent_items() -> None:
    """Also where all items share things with all others, so that nothing says how they vary together."""
    opposed = np.array([1.0, -1, 1, -1]) / 4
    pairs = np.array([[0], [0], [1], [1]], np.int32)
    for shared in (pairs, np.array([[0, 1], [0, 2], [1, 2], [0, 1]], np.int32)):
        variance, df = variance_of([items(4, shared)], [opposed])
        assert variance == pytest.approx(opposed @ opposed * 4 / 3)
        assert df >= 1


def test_repeated_tasks_do_not_reduce_variance() -> None:
    """Five copies of a task say what one says, and two that have nothing in common are independent."""
    one = variance_of([items(8, SHARED, "a")], [INFLUENCE])
    five = variance_of([items(8, SHARED, "a")] * 5, [INFLUENCE / 5] * 5)
    assert five == pytest.approx(one)
    apart, df = variance_of([items(8, None, "a"), items(8, None, "b")], [INFLUENCE / 2] * 2)
    alone = variance_of([items(8, None, "a")], [INFLUENCE])
    assert apart == pytest.approx(alone[0] / 2)
    assert df == pytest.approx(15)


def test_items_without_contents_are_matched_by_row() -> None:
    """Between tasks of which one does not know the contents of its items; those that do need no rows."""
    by_row = items(8, SHARED, "file ")
    by_row = replace(by_row, rows=by_row.units)
    by_content = replace(by_row, units=tuple("abcdefgh"))
    one = variance_of([by_row], [INFLUENCE])
    for tasks in ([by_row, by_content], [by_content, by_content, by_row]):
        found = variance_of(tasks, [INFLUENCE / len(tasks)] * len(tasks))
        assert found == pytest.approx(one)
    unrelated = items(8, None, "elsewhere ")
    unrelated = replace(unrelated, rows=unrelated.units)
    apart = [by_content, replace(by_content, units=tuple("ijklmnop"))]
    units = units_of([*apart, unrelated])
    assert len(set(np.concatenate(units).tolist())) == 24
    other = replace(by_content, units=tuple("ijklmnop"), shared=None)
    alone = variance_of([other], [INFLUENCE])
    apart = variance_of([replace(by_content, shared=None), other], [INFLUENCE / 2] * 2)
    assert apart[0] == pytest.approx(alone[0] / 2)


def test_degrees_of_freedom_weight_tasks_by_variance() -> None:
    rng = np.random.default_rng(3)
    short, long = (rng.permutation(np.linspace(-1, 1, n)) for n in (20, 2000))
    both = [items(20, None, "a"), items(2000, None, "b")]
    _, df = variance_of(both, [short / 20, long / 2000])
    assert 15 < df < 25  # the error is that of the short one


def test_incomplete_copy_of_task_adds_no_evidence(plugins: Plugins) -> None:
    """The items of both are the same by their contents, whatever their rows; so are equal items of one task."""
    rng = np.random.default_rng(0)
    n = 80
    content = np.arange(n, dtype=np.uint64)
    rows: dict[tuple[str, str], dict[int, ItemScores]] = {}
    for encoder in "AB":
        values = rng.random(n)
        names = [str(number) for number in content]
        whole = ItemScores(MEAN, tuple(map(str, range(n))), values, np.zeros(n), units=tuple(names))
        rows[encoder, "whole"] = {0: whole}
        rows[encoder, "copy"] = {0: whole.only([*range(10), *range(11, n)])}
        twice = [*range(n), *range(n)]
        rows[encoder, "twice"] = {0: replace(whole.only(twice), ids=tuple(map(str, range(2 * n))))}
    comparisons = Comparisons(rows, plugins)
    alone = comparisons.compare("A", "B", ["whole"]).estimate
    both = comparisons.compare("A", "B", ["whole", "copy"]).estimate
    assert both.error == pytest.approx(alone.error, rel=0.02)
    assert comparisons.compare("A", "B", ["twice"]).estimate.error == pytest.approx(
        alone.error, rel=0.02
    )
