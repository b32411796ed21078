"""V-measure of clusters against labels (Rosenberg and Hirschberg, EMNLP 2007), also without groups of items.

The harmonic mean of homogeneity and completeness. With entropies H of labels C and clusters K it is
2 (H(C) + H(K) - H(C, K)) / (H(C) + H(K)), and 1 where both have one value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Codes = NDArray[np.intp]


def v_measure(clusters: Any, labels: Any) -> float | None:
    """Return the V-measure of clusters; of several clusterings the mean; ``None`` without items.

    Equal to scikit-learn's ``v_measure_score``.

    Args:
        clusters: the number of each item's cluster, shape (n,), or of several clusterings, shape (n, clusterings).
        labels: the number of each item's label, shape (n,).

    >>> v_measure([0, 0, 1, 1], [5, 5, 7, 7])
    1.0
    """
    values = of_each_clustering(clusters, labels)
    return float(values.mean()) if len(values) else None


def of_each_clustering(clusters: Any, labels: Any) -> FloatArray:
    """Return the V-measure of each clustering, shape (clusterings,); empty without items."""
    n = np.array([len(labels)])
    if not n[0]:
        return np.empty(0)
    return np.array(
        [
            _from_sums(n, *(np.array([_sum(np.bincount(codes))]) for codes in both))[0]
            for both in _numbered(clusters, labels)
        ]
    )


def without_groups(clusters: Any, labels: Any, groups: Codes) -> FloatArray:
    """Return the V-measure without each group of items, shape (groups,); of several clusterings the mean.

    Clusters stay as they are. NaN without the only group.

    Args:
        clusters: as for ``v_measure``.
        labels: likewise.
        groups: the number of each item's group, from 0, shape (n,).
    """
    n_left = len(labels) - np.bincount(groups)
    of_each = [
        _from_sums(n_left, *(_sums_without(codes, groups) for codes in both))
        for both in _numbered(clusters, labels)
    ]
    means: FloatArray = np.mean(of_each, axis=0)
    return means


def _numbered(clusters: Any, labels: Any) -> Iterator[tuple[Codes, Codes, Codes]]:
    """Yield for each clustering the label, the cluster, and the pair of both of each item, numbered from 0."""
    of_labels = np.unique(labels, return_inverse=True)[1]
    columns = np.asarray(clusters)
    for column in columns.T if columns.ndim == 2 else [columns]:
        of_clusters = np.unique(column, return_inverse=True)[1]
        pairs = of_labels * (of_clusters.max() + 1) + of_clusters
        yield of_labels, of_clusters, np.unique(pairs, return_inverse=True)[1]


def _sum(counts: NDArray[Any]) -> float:
    """The sum of n log n over counts: with n items in all, log n less an n-th of it is their entropy."""
    from scipy.special import xlogy

    return float(xlogy(counts, counts).sum())


def _sums_without(codes: Codes, groups: Codes) -> FloatArray:
    """``_sum`` of the counts of codes without each group, shape (groups,), in time that grows with the items."""
    from scipy.special import xlogy

    counts = np.bincount(codes)
    # Each group takes items of few codes away, so that only these counts change.
    taken, n_taken = np.unique(np.stack([groups, codes]), axis=1, return_counts=True)
    group, code = taken
    before = counts[code]
    left = before - n_taken
    changes: FloatArray = xlogy(left, left) - xlogy(before, before)
    sums = np.full(groups.max() + 1, _sum(counts))
    sums += np.bincount(group, changes)
    return sums


def _from_sums(
    n: NDArray[Any], of_labels: FloatArray, of_clusters: FloatArray, of_pairs: FloatArray
) -> FloatArray:
    """V-measures from numbers of items and from sums of n log n; NaN without items."""
    known = np.where(n > 0, n, np.nan)
    labels, clusters, pairs = (
        np.log(known) - sums / known for sums in (of_labels, of_clusters, of_pairs)
    )
    entropies = (labels + clusters).round(_DIGITS)
    shared = (labels + clusters - pairs).round(_DIGITS)
    values: FloatArray = np.divide(
        2 * shared, entropies, out=np.where(np.isnan(entropies), np.nan, 1.0), where=entropies > 0
    )
    return values


_DIGITS = 12
"""Digits of entropies; the others are errors of rounding."""
