"""Corrected p-values of differences from the best of many rows, which was chosen by the same scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirrorbench.reports.statistics.items import FloatArray

_ROUNDING = 1e-9
"""A variance of a difference below this share of the rows' own variance is due to rounding."""
DRAWS = 20_000
"""Number of simulated sets of scores; they give a p-value of .05 with a standard error of .0015."""


def corrected_for_choice(
    p_values: Sequence[float | None], covariance: FloatArray
) -> list[float | None]:
    """Correct p-values of differences from the best of k rows for the choice of that row.

    The corrected value is the probability that, among k rows with equal true scores, some two rows differ by at least
    as many standard errors. It is estimated by simulating normal scores with the given covariance. This is Tukey's
    range test for correlated scores (Tukey 1953): it holds for all pairs of rows at once.

    Args:
        p_values: two-sided p-values of the differences; undefined ones stay ``None``.
        covariance: covariance of the scores of all rows, the best one included, shape (k, k).
    """
    from scipy.stats import norm

    largest = np.sort(_largest_differences(covariance))
    corrected: list[float | None] = []
    for p in p_values:
        if p is None:
            corrected.append(None)
            continue
        distance = norm.isf(p / 2)
        n_smaller = int(np.searchsorted(largest, distance))
        # The observed difference counts as one more draw, so that no p-value is 0.
        corrected.append((len(largest) - n_smaller + 1) / (len(largest) + 1))
    return corrected


def _largest_differences(covariance: FloatArray) -> FloatArray:
    """Simulate scores; return the largest difference of two rows in each draw, in standard errors, shape (draws,)."""
    rng = np.random.default_rng(0)
    n_rows = len(covariance)
    scores = rng.multivariate_normal(np.zeros(n_rows), covariance, DRAWS, method="eigh")
    variances = np.diag(covariance)
    largest = np.zeros(DRAWS)
    for row in range(n_rows - 1):
        others = np.arange(row + 1, n_rows)
        variances_of_difference = variances[row] + variances[others] - 2 * covariance[row, others]
        # Leave out pairs of rows with the same predictions, which differ only by rounding. The comparison is negated so
        # that an undefined variance (NaN) is not left out.
        tolerances = _ROUNDING * np.maximum(variances[row], variances[others])
        differ = ~(variances_of_difference <= tolerances)
        others = others[differ]
        if len(others):
            errors = np.sqrt(variances_of_difference[differ])
            differences = np.abs(scores[:, [row]] - scores[:, others]) / errors
            largest = np.maximum(largest, differences.max(axis=1))
    return largest
