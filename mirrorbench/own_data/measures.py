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
    values, right = np.asarray(scores, np.float64), np.asarray(gold) == 1
    n, n_right = len(values), int(np.count_nonzero(right))
    if not 0 < n_right < n:
        return None
    positive = np.sort(values[right])
    # A stable sort merges two sorted runs in linear time, and puts a positive below a negative of its value.
    order = np.argsort(np.concatenate([positive, np.sort(values[~right])]), kind="stable")
    positions, first = np.flatnonzero(order < n_right), np.arange(n_right)
    first[1:] *= positive[1:] != positive[:-1]
    first = np.maximum.accumulate(first)  # of the positives of one value
    return float(np.mean((n_right - first) / (n - positions[first])))


def macro_f1(predicted: Any, gold: Any) -> float | None:
    """Return the mean F1 over labels, for two arrays of labels or of label indices; ``None`` without items.

    Equal to scikit-learn's but many times as fast.
    """
    if not len(gold):
        return None
    both = np.concatenate([predicted, gold])
    # Numbers are counted as they are: finding those that occur takes most of the time.
    codes = (
        both.astype(np.intp) if both.dtype.kind == "f" else np.unique(both, return_inverse=True)[1]
    )
    answered, right = codes[: len(predicted)], codes[len(predicted) :]
    size = codes.max() + 1
    hits, in_all = (
        np.bincount(right[answered == right], minlength=size),
        np.bincount(codes, minlength=size),
    )
    return float(np.mean(2 * hits[in_all > 0] / in_all[in_all > 0]))


def folds(
    labels: NDArray[Any], texts: Sequence[tuple[str, ...]]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield rows to fit on and rows to score, ``FOLDS`` times, stratified by label; a text is in one fold only."""
    from sklearn.model_selection import StratifiedGroupKFold

    yield from StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0).split(
        texts, labels, text_groups(texts)
    )


def dealt(labels: NDArray[Any], groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return the fold of each item: groups are dealt in the order of their numbers of items with label 1.

    Deterministic, and in seconds for a million groups, of which scikit-learn's ``StratifiedGroupKFold`` (``folds``) takes
    a tenth of a millisecond each.

    Args:
        labels: 1 or 0 of each item.
        groups: its group, a number from 0.
    """
    n_items, n_positive = np.bincount(groups), np.bincount(groups, weights=labels)
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

    numbers = {
        text: number for number, text in enumerate(dict.fromkeys(chain.from_iterable(texts)))
    }
    n, size = len(texts), len(texts) + len(numbers)
    # A graph of items and texts, since items that share a text would have an edge for each pair of them.
    items = np.repeat(np.arange(n), list(map(len, texts)))
    held = [n + numbers[text] for text in chain.from_iterable(texts)]
    graph = coo_array((np.ones(len(items), dtype=np.int8), (items, held)), (size, size))
    groups: NDArray[np.intp] = connected_components(graph, directed=False)[1][:n]
    return groups


def resampling_groups(texts: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Return the name of each item's group in ``text_groups``, by item, for resampling.

    If one group holds most of the items, such as queries by their relevant documents, return the texts themselves.
    """
    groups = text_groups([tuple(map(normalised, item_texts)) for item_texts in texts.values()])
    if 2 * np.bincount(groups).max() > len(groups):
        return texts
    return {item: (f"group {group}",) for item, group in zip(texts, groups.tolist(), strict=True)}
