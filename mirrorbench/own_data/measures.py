"""Measures by their names in MTEB; folds and groups of items that share a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.corpora import normalised

FOLDS = 5
"""Number of folds for data without a split."""
MIN_TEXTS_OF_LABEL = 5
"""Smallest number of scored texts of each label from which the error of macro F1 can be estimated."""
RETRIEVAL_MEASURES = ("ndcg_at_10", "map", "mrr_at_10", "recall_at_10", "recall_at_100")
"""Measures of retrieval, which are means over queries."""
RERANKING_MEASURES = ("ndcg_at_10", "map", "mrr_at_10")
"""Measures of reranking; recall says nothing of rankings that hold all candidates."""
MEASURE_TITLES = {
    "ndcg_at_10": "nDCG@10",
    "map": "MAP",
    "mrr_at_10": "MRR@10",
    "recall_at_10": "recall@10",
    "recall_at_100": "recall@100",
    "cosine_spearman": "Spearman",
    "cosine_ap": "AP",
    "auc": "AUC",
    "macro_f1": "macro F1",
    "v_measure": "V-measure",
}
"""Names of measures in headings; a measure that is not among them keeps its name."""
SPREAD = {
    "ndcg_at_10": 0.25,
    "map": 0.25,
    "mrr_at_10": 0.4,
    "recall_at_10": 0.3,
    "recall_at_100": 0.3,
    "cosine_spearman": 0.25,
    "cosine_ap": 0.35,
    "auc": 0.3,
    "accuracy": 0.4,
    "macro_f1": 0.6,
    "v_measure": 0.5,
    "accuracy@1": 0.4,
    "accuracy@5": 0.4,
}
"""Standard deviation of two encoders' difference on an item, measured on real data: ``benchmarks/RESULTS.md``."""


def average_precision(scores: Any, gold: Any) -> float | None:
    """Return the average precision of scores against labels of 1 and 0; ``None`` if only one label occurs.

    The same as scikit-learn's but many times as fast: comparing two encoders on n items computes it 2 n times.
    """
    values = np.asarray(scores, np.float64)
    is_positive = np.asarray(gold) == 1
    n = len(values)
    n_positive = int(np.count_nonzero(is_positive))
    if not 0 < n_positive < n:
        return None
    positive = np.sort(values[is_positive])
    negative = np.sort(values[~is_positive])
    # A stable sort merges two sorted runs in linear time, and puts a positive below a negative of its value.
    order = np.argsort(np.concatenate([positive, negative]), kind="stable")
    # In ``order``, indices below n_positive are those of positives.
    positions = np.flatnonzero(order < n_positive)
    # For each positive, the index of the first positive with the same score: one threshold retrieves all of these.
    # Indices of repeated scores become 0, and the running maximum replaces them by the first index of the score.
    first_equal = np.arange(n_positive)
    first_equal[1:] *= positive[1:] != positive[:-1]
    first_equal = np.maximum.accumulate(first_equal)
    # The precision of this threshold: positives from there on, among all items from there on.
    precisions = (n_positive - first_equal) / (n - positions[first_equal])
    return float(np.mean(precisions))


def macro_f1(predicted: Any, gold: Any) -> float | None:
    """Return the mean F1 over labels, for two arrays of labels or of label indices; ``None`` without items.

    The same as scikit-learn's but many times as fast.
    """
    if not len(gold):
        return None
    labels = np.concatenate([predicted, gold])
    # Floats are label indices, and serve as codes: np.unique would take most of the time.
    if labels.dtype.kind == "f":
        codes = labels.astype(np.intp)
    else:
        codes = np.unique(labels, return_inverse=True)[1]
    predicted_codes = codes[: len(predicted)]
    gold_codes = codes[len(predicted) :]
    size = codes.max() + 1
    hits = np.bincount(gold_codes[predicted_codes == gold_codes], minlength=size)
    # The number of items with a label, predicted and gold together, is the denominator of its F1.
    totals = np.bincount(codes, minlength=size)
    occurs = totals > 0
    return float(np.mean(2 * hits[occurs] / totals[occurs]))


def folds(
    labels: NDArray[Any], texts: Sequence[tuple[str, ...]]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield rows to fit on and rows to score, for each of ``FOLDS`` folds.

    Folds are stratified by label. Items that share a text are in one fold.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    splitter = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    yield from splitter.split(texts, labels, text_groups(texts))


def fold_numbers(labels: NDArray[Any], groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return the number of each item's fold; groups are dealt to folds in turn, by their numbers of items with label 1.

    It is deterministic and takes seconds for a million groups; scikit-learn's ``StratifiedGroupKFold`` (``folds``)
    takes a tenth of a millisecond for each group.

    Args:
        labels: the label of each item, 1 or 0.
        groups: the group of each item, numbered from 0.
    """
    n_items = np.bincount(groups)
    n_positive = np.bincount(groups, weights=labels)
    # Groups with the same numbers are dealt at random.
    chance = np.random.default_rng(0).random(len(n_items))
    order = np.lexsort((chance, n_items, n_positive))
    fold_of_group = np.empty(len(order), dtype=np.intp)
    fold_of_group[order] = np.arange(len(order)) % FOLDS
    folds_of_items: NDArray[np.intp] = fold_of_group[groups]
    return folds_of_items


def rare_labels(labels: NDArray[Any], groups: NDArray[Any]) -> dict[Any, int]:
    """Return the labels that occur in too few groups to be in all folds, with their numbers of groups."""
    n_groups = {label: len(np.unique(groups[labels == label])) for label in np.unique(labels)}
    return {label: n for label, n in n_groups.items() if n < FOLDS}


def check_folds(data: str, labels: NDArray[Any], groups: NDArray[Any]) -> None:
    """Raise a ``DataFormatError`` if a label occurs in too few groups to be in all folds; ``data`` is their name."""
    for label, n in rare_labels(labels, groups).items():
        problem = f"{data}: without a split each label needs {FOLDS} different texts, and {shown(str(label))} has {n}"
        raise DataFormatError(problem, "Add examples of it, leave it out, or give a split.")


def text_groups(texts: Sequence[tuple[str, ...]]) -> NDArray[np.intp]:
    """Return the group of each item, a number from 0; items that share a text, also through others, are one group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    distinct_texts = dict.fromkeys(chain.from_iterable(texts))
    n_items = len(texts)
    # The nodes are items and texts: with items alone, those that share a text would need an edge for each pair.
    nodes_of_texts = {text: node for node, text in enumerate(distinct_texts, start=n_items)}
    n_nodes = n_items + len(distinct_texts)
    item_ends = np.repeat(np.arange(n_items), list(map(len, texts)))
    text_ends = [nodes_of_texts[text] for text in chain.from_iterable(texts)]
    edges = np.ones(len(item_ends), dtype=np.int8)
    graph = coo_array((edges, (item_ends, text_ends)), (n_nodes, n_nodes))
    _, groups_of_nodes = connected_components(graph, directed=False)
    groups: NDArray[np.intp] = groups_of_nodes[:n_items]
    return groups


def resampling_groups(texts: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Return the name of each item's group, by item: the groups are resampled as a whole.

    Items that share a normalised text, directly or through others, are one group. If one group would hold most of the
    items, as with queries and popular relevant documents, return the texts, so that only direct sharing counts.
    """
    groups = text_groups([tuple(map(normalised, item_texts)) for item_texts in texts.values()])
    if 2 * np.bincount(groups).max() > len(groups):
        return texts
    return {item: (f"group {group}",) for item, group in zip(texts, groups.tolist(), strict=True)}
