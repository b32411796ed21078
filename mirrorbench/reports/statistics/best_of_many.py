"""P-values of differences from the best of many rows, which is chosen by the same scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirrorbench.reports.statistics.items import FloatArray

_ROUNDING = 1e-9
"""Share of a row's variance below which that of a difference is an error of rounding."""
DRAWS = 20_000
"""Simulated sets of scores; at a p-value of .05 they leave an error of .0015."""


def corrected_for_choice(
    p_values: Sequence[float | None], covariance: FloatArray
) -> list[float | None]:
    """Correct p-values of differences from the best of k equal rows for the choice of that row.

    A corrected value is the probability that of any two rows the difference, in units of its standard error, is as
    large: the distribution of the largest one is simulated for normal scores of this covariance. It holds for all pairs
    at once (Tukey's range test, for correlated scores).

    Args:
        p_values: of the differences, two-sided; undefined ones stay ``None``.
        covariance: of the scores of all rows, the best one included, shape (k, k).
    """
    from scipy.stats import norm

    largest = np.sort(_largest_differences(covariance))
    corrected: list[float | None] = []
    for p in p_values:
        if p is None:
            corrected.append(None)
            continue
        below = int(np.searchsorted(largest, norm.isf(p / 2)))
        corrected.append((len(largest) - below + 1) / (len(largest) + 1))
    return corrected


def _largest_differences(covariance: FloatArray) -> FloatArray:
    """Simulated largest differences of any two rows, in standard errors, shape (draws,)."""
    rng = np.random.default_rng(0)
    n_rows = len(covariance)
    scores = rng.multivariate_normal(np.zeros(n_rows), covariance, DRAWS, method="eigh")
    variances = np.diag(covariance)
    largest = np.zeros(DRAWS)
    for row in range(n_rows - 1):
        others = np.arange(row + 1, n_rows)
        of_difference = variances[row] + variances[others] - 2 * covariance[row, others]
        # Rows with the same predictions differ by rounding alone, which says nothing.
        certain = of_difference <= _ROUNDING * np.maximum(variances[row], variances[others])
        others, of_difference = others[~certain], of_difference[~certain]
        if len(others):
            differences = np.abs(scores[:, [row]] - scores[:, others]) / np.sqrt(of_difference)
            largest = np.maximum(largest, differences.max(axis=1))
    return largest
