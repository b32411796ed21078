"""Measures under the names that MTEB gives them, and folds that keep apart what shares a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.plugin import DataFormatError

FOLDS = 5
"""Folds of what is fitted to own data without a split."""
RETRIEVAL = ("ndcg_at_10", "map", "mrr_at_10", "recall_at_10", "recall_at_100")
"""Means over queries."""
SPREAD = {
    "ndcg_at_10": 0.25, "map": 0.2, "mrr_at_10": 0.4, "recall_at_10": 0.25, "recall_at_100": 0.2,
    "cosine_spearman": 0.5, "cosine_ap": 0.5, "auc": 0.5, "accuracy": 0.5, "macro_f1": 0.5,
    "accuracy@1": 0.5, "accuracy@5": 0.5,
}  # fmt: skip
"""Standard deviation of two encoders' difference on an item, as found on real data: ``benchmarks/RESULTS.md``."""


def mean(scores: Any, gold: Any) -> float:
    """The mean of the values of items."""
    return float(np.mean(scores))


def average_precision(scores: Any, gold: Any) -> float | None:
    """Average precision of scores against labels of 1 and 0; ``None`` where only one label occurs."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(gold, scores)) if 0 < sum(gold) < len(gold) else None


def macro_f1(predicted: Any, gold: Any) -> float:
    """The mean over labels of their F1, of two arrays of labels or of numbers that stand for them."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, average="macro", zero_division=0))


def folds(
    data: str, labels: NDArray[Any], texts: Sequence[tuple[str, ...]]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Rows to fit on and rows to score, ``FOLDS`` times: stratified by label, items that share a text in one fold.

    Raises:
        DataFormatError: a label has too few items that share no text.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    groups = together(texts)
    for label in np.unique(labels):
        n = len(np.unique(groups[labels == label]))
        if n < FOLDS:
            problem = f"{data}: the label {label} has {n} items that share no text, and there are {FOLDS} folds"
            raise DataFormatError(problem, "Add examples of it, leave it out, or give a split of its own.")
    yield from StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0).split(texts, labels, groups)


def together(texts: Sequence[tuple[str, ...]]) -> NDArray[np.intp]:
    """A number for each item, the same for those that share a text with it or with one another that does."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    names = {text: place for place, text in enumerate(dict.fromkeys(text for own in texts for text in own))}
    rows = np.repeat(np.arange(len(texts)), [len(own) for own in texts])
    columns = [names[text] for own in texts for text in own]
    held = csr_array((np.ones(len(rows)), (rows, columns)), (len(texts), len(names)))
    groups: NDArray[np.intp] = connected_components(held @ held.T)[1]
    return groups
