"""P-values of differences from the best row, corrected for its choice, beside scipy's range test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, studentized_range

from mirrorbench.reports.statistics.best_of_many import corrected_for_choice


@pytest.mark.parametrize(("n_rows", "shared"), [(2, 0.0), (12, 0.9)])
def test_independent_rows_are_corrected_as_by_tukey(n_rows: int, shared: float) -> None:
    """A part of the error that all rows share changes no difference."""
    p_values = [0.05, 0.001]
    covariance = np.full((n_rows, n_rows), shared) + (1 - shared) * np.eye(n_rows)
    found = corrected_for_choice(p_values, covariance)
    distances = norm.isf(np.array(p_values) / 2) * np.sqrt(2)
    expected = studentized_range.sf(distances, n_rows, np.inf)
    assert found == pytest.approx(expected, abs=0.01)
    if n_rows == 2:
        assert found == pytest.approx(p_values, abs=0.006)


def test_undefined_and_equal_rows_stay_unchanged() -> None:
    """Rows with the same predictions differ by 0 with certainty."""
    found = corrected_for_choice([None, 1.0], np.ones((3, 3)))
    assert found[0] is None
    assert found[1] == pytest.approx(1.0)


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_copies_of_the_best_row_change_nothing(noise: float) -> None:
    """Their differences are errors of rounding."""
    rng = np.random.default_rng(0)
    effects = rng.normal(size=(2, 300))
    (alone,) = corrected_for_choice([0.03], effects @ effects.T)
    copies = effects[[0] * 13] + noise * rng.normal(size=(13, 300))
    several = np.concatenate([copies, effects[1:]])
    (found,) = corrected_for_choice([0.03], several @ several.T)
    assert found == pytest.approx(alone, abs=0.005)
