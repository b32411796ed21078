"""Measures by their names in MTEB, and folds that keep items with a common text together."""

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
FEWEST = 5
"""Fewest scored texts of each label from which the error of macro F1 can be estimated."""
RETRIEVAL = ("ndcg_at_10", "map", "mrr_at_10", "recall_at_10", "recall_at_100")
"""Measures that are means over queries."""
RERANKING = ("ndcg_at_10", "map", "mrr_at_10")
"""Those of rankings that hold all candidates."""
USUAL_NAMES = {
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
"""Names of measures in headings; the others are called by their own."""
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

    Equal to scikit-learn's but many times as fast: comparing two encoders on n items computes it 2 n times.
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
    positions = np.flatnonzero(order < n_positive)
    # For each positive, the first positive that has its value: all of them are retrieved under one threshold.
    first = np.arange(n_positive)
    first[1:] *= positive[1:] != positive[:-1]
    first = np.maximum.accumulate(first)
    precisions = (n_positive - first) / (n - positions[first])
    return float(np.mean(precisions))


def macro_f1(predicted: Any, gold: Any) -> float | None:
    """Return the mean F1 over labels, for two arrays of labels or of label indices; ``None`` without items.

    Equal to scikit-learn's but many times as fast.
    """
    if not len(gold):
        return None
    labels = np.concatenate([predicted, gold])
    # Numbers are counted as they are: finding those that occur takes most of the time.
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
    """Yield rows to fit on and rows to score, ``FOLDS`` times, stratified by label; a text is in one fold only."""
    from sklearn.model_selection import StratifiedGroupKFold

    splitter = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    yield from splitter.split(texts, labels, text_groups(texts))


def dealt(labels: NDArray[Any], groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return the fold of each item: groups are dealt in the order of their numbers of items with label 1.

    Deterministic, and in seconds for a million groups; scikit-learn's ``StratifiedGroupKFold`` (``folds``) takes a
    tenth of a millisecond for each group.

    Args:
        labels: 1 or 0 of each item.
        groups: its group, a number from 0.
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
    """Return the labels that have too few groups of items to be in all folds, with their numbers of groups."""
    n_groups = {label: len(np.unique(groups[labels == label])) for label in np.unique(labels)}
    return {label: n for label, n in n_groups.items() if n < FOLDS}


def check_folds(data: str, labels: NDArray[Any], groups: NDArray[Any]) -> None:
    """Raise ``DataFormatError`` if a label has too few groups of items to be in all folds."""
    for label, n in rare_labels(labels, groups).items():
        problem = f"{data}: without a split each label needs {FOLDS} different texts, and {shown(str(label))} has {n}"
        raise DataFormatError(problem, "Add examples of it, leave it out, or give a split.")


def text_groups(texts: Sequence[tuple[str, ...]]) -> NDArray[np.intp]:
    """Return the group of each item: items with a common text are in one group, directly or through others."""
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
    """Return the name of each item's group in ``text_groups``, by item, for resampling.

    If one group holds most of the items, such as queries by their relevant documents, return the texts themselves.
    """
    groups = text_groups([tuple(map(normalised, item_texts)) for item_texts in texts.values()])
    if 2 * np.bincount(groups).max() > len(groups):
        return texts
    return {item: (f"group {group}",) for item, group in zip(texts, groups.tolist(), strict=True)}
