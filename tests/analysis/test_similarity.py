from __future__ import annotations

import statistics
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mirrorbench.analysis.scores import FEWEST, MOST, bands_of, distribution, shared_edges


def test_labels_are_negative_and_positive() -> None:
    names, kind = bands_of([1, 0, 1.0])
    assert names == ("negative", "positive")
    assert kind.tolist() == [1, 0, 1]


def test_grades_are_thirds_of_their_range() -> None:
    names, kind = bands_of([0, 1.6, 1.7, 3.3, 3.4, 5])
    assert [names[k] for k in kind] == ["low", "low", "middle", "middle", "high", "high"]


def test_one_judgement_for_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="same judgement"):
        bands_of([2.0, 2.0])


def test_distribution_of_loops() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 200)
    cosines = np.clip(rng.normal(0.4 + 0.2 * gold, 0.15), -1, 1)
    edges = shared_edges([cosines])
    found = distribution(cosines, gold, edges)
    for band, label in zip(found.bands, (0, 1), strict=True):
        own = [c for c, g in zip(cosines.tolist(), gold.tolist(), strict=True) if g == label]
        assert band.n == len(own)
        assert band.mean == pytest.approx(statistics.fmean(own))
        assert band.sd == pytest.approx(statistics.stdev(own))
        assert band.median == pytest.approx(statistics.median(own))
        counts = [sum(low <= c < high for c in own) for low, high in pairwise(edges)]
        assert band.density * np.diff(edges) * len(own) == pytest.approx(counts)
    assert found.auc == pytest.approx(roc_auc_score(gold, cosines))
    shared = [
        min(a, b) * (high - low)
        for a, b, low, high in zip(found.bands[0].density, found.bands[1].density, edges[:-1], edges[1:], strict=True)
    ]
    assert found.overlap == pytest.approx(sum(shared))
    assert 0 < found.overlap < 1


def test_parted_and_equal_bands() -> None:
    parted = np.array([0.1, 0.15, 0.8, 0.9])
    edges = shared_edges([parted])
    assert distribution(parted, [0, 0, 1, 1], edges).overlap == 0
    same = np.array([0.1, 0.9, 0.1, 0.9])
    assert distribution(same, [0, 0, 1, 1], shared_edges([same])).overlap == pytest.approx(1)


def test_graded_bands_compare_their_ends() -> None:
    gold = np.array([0, 0.5, 2.5, 4.5, 5])
    cosines = np.array([0.2, 0.6, 0.99, 0.5, 0.9])
    found = distribution(cosines, gold, shared_edges([cosines]))
    assert [band.name for band in found.bands] == ["low", "middle", "high"]
    assert found.bands[1].sd is None
    assert found.auc == pytest.approx(0.75)  # of four pairs only .6 > .5 is wrong


@pytest.mark.parametrize(("n", "bins"), [(5, FEWEST), (1000, 20), (10**6, MOST)])
def test_edges_hold_everything(n: int, bins: int) -> None:
    cosines = [np.linspace(-0.2, 0.5, n), np.array([0.9])]
    edges = shared_edges(cosines)
    assert len(edges) == bins + 1
    assert edges[0] < -0.2
    assert edges[-1] > 0.9


def test_equal_cosines_have_edges_too() -> None:
    assert (np.diff(shared_edges([np.full(3, 0.5)])) > 0).all()
