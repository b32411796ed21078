"""P-values of permutation tests."""

from __future__ import annotations

from typing import Any

from mirrorbench.reports.statistics.resampling import correlation_swaps, mean_swaps, p_of_swaps


def correlation_permutation(*arguments: Any, **more: Any) -> float | None:
    """Of the difference of two correlations."""
    values = correlation_swaps(*arguments, **more)
    return None if values is None else p_of_swaps(values).value


def mean_permutation(*arguments: Any, **more: Any) -> float:
    """Of the difference of two means."""
    return p_of_swaps(mean_swaps(*arguments, **more)).value
