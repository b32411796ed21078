"""V-measure of clusters against labels (Rosenberg and Hirschberg, EMNLP 2007), also without groups of items.

The harmonic mean of homogeneity and completeness. With entropies H of labels C and clusters K it is
2 (H(C) + H(K) - H(C, K)) / (H(C) + H(K)), and 1 where both have one value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Codes = NDArray[np.intp]

_DIGITS = 12
"""Decimals of entropies that are kept; further ones are rounding errors."""


def v_measure(clusters: Any, labels: Any) -> float | None:
    """Return the V-measure of clusters, or the mean over several clusterings; ``None`` without items.

    Equal to scikit-learn's ``v_measure_score``.

    Args:
        clusters: the number of each item's cluster, shape (n,), or of several clusterings, shape (n, clusterings).
        labels: the number of each item's label, shape (n,).

    >>> v_measure([0, 0, 1, 1], [5, 5, 7, 7])
    1.0
    """
    values = v_measure_of_each_clustering(clusters, labels)
    return float(values.mean()) if len(values) else None


def v_measure_of_each_clustering(clusters: Any, labels: Any) -> FloatArray:
    """Return the V-measure of each clustering, shape (clusterings,); empty without items."""
    if not len(labels):
        return np.empty(0)
    n_items = np.array([len(labels)])
    values = []
    for clustering in _clusterings(clusters, labels):
        label_sum = _sum_n_log_n(np.bincount(clustering.labels))
        cluster_sum = _sum_n_log_n(np.bincount(clustering.clusters))
        pair_sum = _sum_n_log_n(np.bincount(clustering.pairs))
        values += _from_sums(n_items, label_sum, cluster_sum, pair_sum).tolist()
    return np.array(values)


def without_groups(clusters: Any, labels: Any, groups: Codes) -> FloatArray:
    """Return the V-measure without each group of items in turn, shape (groups,); of several clusterings the mean.

    Clusters stay the same. NaN if all items are in one group, since none remain without it.

    Args:
        clusters: as for ``v_measure``.
        labels: as for ``v_measure``.
        groups: the number of each item's group, from 0, shape (n,).
    """
    n_remaining = len(labels) - np.bincount(groups)
    values = []
    for clustering in _clusterings(clusters, labels):
        label_sums = _sums_without(clustering.labels, groups)
        cluster_sums = _sums_without(clustering.clusters, groups)
        pair_sums = _sums_without(clustering.pairs, groups)
        values.append(_from_sums(n_remaining, label_sums, cluster_sums, pair_sums))
    means: FloatArray = np.mean(values, axis=0)
    return means


class _Clustering(NamedTuple):
    """The labels and clusters of n items, numbered from 0, each of shape (n,)."""

    labels: Codes
    """The label of each item."""
    clusters: Codes
    """The cluster of each item."""
    pairs: Codes
    """The pair of label and cluster of each item."""


def _clusterings(clusters: Any, labels: Any) -> Iterator[_Clustering]:
    """Yield each clustering, with its clusters, labels and pairs of both numbered from 0."""
    _, label_codes = np.unique(labels, return_inverse=True)
    columns = np.asarray(clusters)
    if columns.ndim == 1:
        columns = columns[:, None]
    for column in columns.T:
        _, cluster_codes = np.unique(column, return_inverse=True)
        pair_numbers = label_codes * (cluster_codes.max() + 1) + cluster_codes
        _, pair_codes = np.unique(pair_numbers, return_inverse=True)
        yield _Clustering(label_codes, cluster_codes, pair_codes)


def _sum_n_log_n(counts: NDArray[Any]) -> float:
    """Return the sum of n log n over counts.

    The entropy of counts of N items in all is log N - sum / N.
    """
    from scipy.special import xlogy

    return float(xlogy(counts, counts).sum())


def _sums_without(codes: Codes, groups: Codes) -> FloatArray:
    """Return ``_sum_n_log_n`` of the counts of codes without each group, shape (groups,).

    The time grows with the items, not with items times groups.
    """
    from scipy.special import xlogy

    counts = np.bincount(codes)
    # Leaving out a group changes the counts of few codes, those of its items: update the sum by these alone.
    (group, code), n_removed = np.unique(np.stack([groups, codes]), axis=1, return_counts=True)
    before = counts[code]
    after = before - n_removed
    changes: FloatArray = xlogy(after, after) - xlogy(before, before)
    sums = np.full(groups.max() + 1, _sum_n_log_n(counts))
    sums += np.bincount(group, changes)
    return sums


def _from_sums(
    n_items: NDArray[Any],
    label_sums: FloatArray | float,
    cluster_sums: FloatArray | float,
    pair_sums: FloatArray | float,
) -> FloatArray:
    """Return the V-measure of each of m sets of items, shape (m,); NaN without items.

    Args:
        n_items: the number of items of each set, shape (m,).
        label_sums: ``_sum_n_log_n`` of the counts of labels in each set, shape (m,).
        cluster_sums: the same for clusters.
        pair_sums: the same for pairs of label and cluster.
    """
    n = np.where(n_items > 0, n_items, np.nan)
    label_entropy = np.log(n) - label_sums / n
    cluster_entropy = np.log(n) - cluster_sums / n
    joint_entropy = np.log(n) - pair_sums / n
    total = (label_entropy + cluster_entropy).round(_DIGITS)
    mutual_information = (label_entropy + cluster_entropy - joint_entropy).round(_DIGITS)
    # Without any entropy there is one label and one cluster, which agree: 1.
    default = np.where(np.isnan(total), np.nan, 1.0)
    values: FloatArray = np.divide(2 * mutual_information, total, out=default, where=total > 0)
    return values
