"""Clustering of labelled texts by k-means on their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.own_data.labelled_texts import Labelled, LabelledTexts
from mirrorbench.tasks.base import Scores, Vectors
from mirrorbench.tasks.v_measure import of_each_clustering

if TYPE_CHECKING:
    from mirrorbench.core.encoder_protocol import Array

SEEDS = tuple(range(10))
"""Seeds of k-means."""
BATCH = 500
"""Texts in a step of k-means, as in MTEB."""


class Clustering(LabelledTexts):
    """Texts with labels, clustered without them: k-means on all vectors, as they are, with as many clusters as labels.

    The protocol of MTEB's first version: scikit-learn's ``MiniBatchKMeans`` with batches of ``BATCH`` texts. Metrics:
    ``v_measure``, the mean over ``SEEDS``, and ``v_measure_std``, their standard deviation. The interval covers texts,
    which are left out of the clusters in groups, and seeds.
    """

    kind = "clustering"
    main_metric = "v_measure"
    measures = (main_metric,)
    values_name = "shares of seeds in which most of the text's cluster have its label"

    def check(self, items: Sequence[Labelled]) -> None:
        """Check that ids are unique, and that there are fewer labels than texts, but two at least.

        Raises:
            DataFormatError: otherwise.
        """
        self.check_ids([item.id for item in items])
        n_labels = len({item.label for item in items})
        hint = "Clustering needs two labels at least, and several texts of a label."
        if n_labels == 1:
            raise DataFormatError(f"{self.name}: all {len(items):,} texts have one label", hint)
        if n_labels == len(items):
            problem = f"{self.name}: each of {len(items):,} texts has a label of its own"
            raise DataFormatError(problem, hint)

    def summary(self, items: Sequence[Labelled]) -> str:
        """Return the numbers of texts and labels, and the remarks on them."""
        n_labels = len({item.label for item in items})
        counts = f"{self.count_items(len(items))}, {n_labels:,} labels"
        return "; ".join((counts, *self.remarks(items)))

    def score(self, items: Sequence[Labelled], vectors: Vectors, protocol: str) -> Scores:
        """Cluster with each seed, and compute the V-measure."""
        names, labels = np.unique([item.label for item in items], return_inverse=True)
        clusters = k_means(vectors(self.inputs(items)), len(names))
        v_measures = of_each_clustering(clusters, labels)
        deviation = float(v_measures.std(ddof=1))
        seeds = f"seeds {SEEDS[0]} to {SEEDS[-1]}, which deviate by {deviation:.3f}"
        # The clusters of the first seed stand for all where one label or cluster is shown.
        first_clusters = clusters[:, 0]
        found = names[labels_of_most(first_clusters, labels)]
        return Scores(
            {"v_measure": float(v_measures.mean()), "v_measure_std": deviation},
            [item.id for item in items],
            first_clusters.astype(np.float64),
            labels.astype(np.float64),
            notes=(f"k-means with {len(names)} clusters, {seeds}",),
            extra={"clusters": clusters, "found": found[:, None]},
        )


def k_means(vectors: Array, n_clusters: int) -> NDArray[np.int32]:
    """Return the cluster of each vector for each of ``SEEDS``, numbered from 0, shape (n, seeds)."""
    from sklearn.cluster import MiniBatchKMeans

    columns = []
    for seed in SEEDS:
        model = MiniBatchKMeans(n_clusters, batch_size=BATCH, random_state=seed, n_init="auto")
        columns.append(model.fit_predict(vectors))
    return np.stack(columns, axis=1).astype(np.int32)


def labels_of_most(clusters: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each item the label that most items of its cluster have; of several the first.

    Args:
        clusters: of the items, numbered from 0, shape (n,).
        labels: likewise.
    """
    counts = np.zeros((clusters.max() + 1, labels.max() + 1), dtype=np.intp)
    np.add.at(counts, (clusters, labels), 1)
    most: NDArray[np.intp] = counts.argmax(axis=1)[clusters]
    return most
