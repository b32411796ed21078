"""Clustering of labelled texts by k-means on their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.own_data.labelled_texts import LabelledText, LabelledTextTask
from mirrorbench.tasks.base import Scores, Vectors
from mirrorbench.tasks.v_measure import v_measure_of_each_clustering

if TYPE_CHECKING:
    from mirrorbench.core.encoder_protocol import Array

SEEDS = tuple(range(10))
"""Seeds of k-means."""
BATCH = 500
"""Texts in a step of k-means, as in MTEB."""


class Clustering(LabelledTextTask):
    """Texts that are clustered without their labels: k-means on the unscaled vectors, with as many clusters as labels.

    The protocol of MTEB's first version: scikit-learn's ``MiniBatchKMeans`` with batches of ``BATCH`` texts. Metrics:
    ``v_measure``, the mean over ``SEEDS``, and ``v_measure_std``, the standard deviation over them. The interval covers
    seeds and texts, which are left out of the clusters in groups.
    """

    kind = "clustering"
    main_metric = "v_measure"
    measures = (main_metric,)
    values_name = "shares of seeds in which most of the text's cluster have its label"

    def check(self, items: Sequence[LabelledText]) -> None:
        """Raise a ``DataFormatError`` unless ids are unique, and there are at least two labels but fewer than texts."""
        self.check_ids([item.id for item in items])
        n_labels = len({item.label for item in items})
        hint = "Clustering needs at least two labels, and several texts of a label."
        if n_labels == 1:
            raise DataFormatError(f"{self.name}: all {len(items):,} texts have one label", hint)
        if n_labels == len(items):
            problem = f"{self.name}: each of {len(items):,} texts has a label of its own"
            raise DataFormatError(problem, hint)

    def summary(self, items: Sequence[LabelledText]) -> str:
        """Return the numbers of texts and labels, and the remarks on them."""
        n_labels = len({item.label for item in items})
        counts = f"{self.count_items(len(items))}, {n_labels:,} labels"
        return "; ".join((counts, *self.remarks(items)))

    def score(self, items: Sequence[LabelledText], vectors: Vectors, protocol: str) -> Scores:
        """Cluster with each seed, and return mean and standard deviation of the V-measure over seeds.

        The scores of items are their clusters with the first seed, and ``gold`` holds indices of labels.
        """
        label_names, labels = np.unique([item.label for item in items], return_inverse=True)
        clusters = k_means(vectors(self.inputs(items)), len(label_names))
        v_measures = v_measure_of_each_clustering(clusters, labels)
        deviation = float(v_measures.std(ddof=1))
        seeds = f"seeds {SEEDS[0]} to {SEEDS[-1]}, which deviate by {deviation:.3f}"
        # The score of an item, and the label that --items shows, are of the first seed.
        first_clusters = clusters[:, 0]
        predicted_labels = label_names[majority_labels(first_clusters, labels)]
        return Scores(
            {"v_measure": float(v_measures.mean()), "v_measure_std": deviation},
            [item.id for item in items],
            first_clusters.astype(np.float64),
            labels.astype(np.float64),
            notes=(f"k-means with {len(label_names)} clusters, {seeds}",),
            # Each item has a list of predictions, here of one label.
            extra={"clusters": clusters, "found": predicted_labels[:, None]},
        )


def k_means(vectors: Array, n_clusters: int) -> NDArray[np.int32]:
    """Return the cluster of each vector for each of ``SEEDS``, numbered from 0, shape (n, seeds)."""
    from sklearn.cluster import MiniBatchKMeans

    columns = []
    for seed in SEEDS:
        model = MiniBatchKMeans(n_clusters, batch_size=BATCH, random_state=seed, n_init="auto")
        columns.append(model.fit_predict(vectors))
    return np.stack(columns, axis=1).astype(np.int32)


def majority_labels(clusters: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each item the most frequent label of its cluster; of equally frequent ones the first.

    Args:
        clusters: the cluster of each item, numbered from 0, shape (n,).
        labels: the label of each item, likewise.
    """
    counts = np.zeros((clusters.max() + 1, labels.max() + 1), dtype=np.intp)
    np.add.at(counts, (clusters, labels), 1)
    labels_of_items: NDArray[np.intp] = counts.argmax(axis=1)[clusters]
    return labels_of_items
