"""Held-out strings: which they are, their partners, and what their vectors are like, without labels.

Alignment and uniformity are those of Wang & Isola ("Understanding Contrastive Representation Learning through Alignment
and Uniformity on the Hypersphere", ICML 2020, section 4.1), over unit vectors: the mean squared distance of positive
pairs (alpha = 2), and the logarithm of the mean of exp(-2 d^2) over all pairs of distinct texts (t = 2). Tuning usually
improves uniformity and worsens alignment a little. Isotropy is the score of Mu and Viswanath (2018), used in
Mirror-BERT (section 4.4, Eq. 2) and as a logarithm in MirrorWiC (section 5.3, Eq. 2). The effective rank is that of Roy
& Vetterli ("The Effective Rank", EUSIPCO 2007, section 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import TuningError
from mirrorbench.core.inputs import Array, rounded, unit
from mirrorbench.training.methods import OF_TWO, PairFunction, PairMaker
from mirrorbench.training.recipes import Recipe

HELD_OUT, HELD_OUT_SHARE = 500, 0.1
"""Strings held out by default, and their maximum share of all strings."""
FEWEST = 10
"""Held-out strings that ``stop=auto`` needs at least: among fewer, one hit is more than a tenth of the accuracy."""
MEASURES = {
    "alignment": ("alignment", "lower is better"),
    "uniformity": ("uniformity", "lower is better"),
    "accuracy@1": ("retrieval, accuracy@1", "higher is better"),
    "log_isotropy": ("log isotropy", "higher is better"),
    "effective_rank": ("effective rank", "higher is better"),
}
"""Title and direction of each measure, in the order of reports."""
_BLOCK = 256
"""Directions at a time: bounds memory at n x 256 numbers."""


def hold_out(texts: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """The strings that are left to tune on, with their repeats, and distinct ones that are held out.

    Those are drawn by the seed: ``HELD_OUT`` of them, or ``HELD_OUT_SHARE`` where that is less. Fewer than ``FEWEST``
    are a ``TuningError``.
    """
    distinct = list(dict.fromkeys(texts))
    n = min(HELD_OUT, int(len(distinct) * HELD_OUT_SHARE))
    if n < FEWEST:
        raise TuningError(
            f"stop=auto holds a tenth of the strings out, and of {len(distinct)} distinct ones that is too little",
            f"It needs {round(FEWEST / HELD_OUT_SHARE)} at least; leave stop=auto out of the encoder spec.",
        )
    aside = {distinct[row] for row in np.random.default_rng(seed).permutation(len(distinct))[:n]}
    return [text for text in texts if text not in aside], [text for text in distinct if text in aside]


def shortened(text: str, rng: np.random.Generator) -> str:
    """A text without a random span of a tenth of its characters (at least one): the positive of a single text.

    It depends on no tokenizer and no recipe, so results of all models and tunings are comparable.
    """
    length = max(1, len(text) // 10)
    start = int(rng.integers(max(1, len(text) - length + 1)))
    return (text[:start] + text[start + length :]).strip() or text


def positive_pairs(texts: Sequence[str], seed: int, pairs: PairFunction) -> list[tuple[str, str]]:
    """Held-out corpus lines as positive pairs: those of a method of labelled pairs, else each with its short copy.

    ``pairs`` is the method's function. Where lines share a text or a concept, the first one stands for them: the others
    would be false negatives.
    """
    rng = np.random.default_rng(seed)
    if not texts or pairs not in OF_TWO:
        return [(text, shortened(text, rng)) for text in texts]
    plain = Recipe(temperature=1.0, epochs=1, train_max_length=64, pooling="mean")
    made = pairs(texts, PairMaker(plain, rng, "", "paper", {}))
    representatives: dict[Any, tuple[str, str]] = {}
    for left, right, group in zip(made.left, made.right, made.groups or (), strict=True):
        representatives.setdefault(group, (left.text, right.text))
    return list(representatives.values())


def measure_pairs(left: Array, right: Array) -> tuple[dict[str, float], NDArray[np.bool_]]:
    """``MEASURES`` of at least 2 pairs of vectors, each side of shape (n, d), and which pairs are retrieved.

    ``accuracy@1`` is the share of first texts whose own second text has the strictly highest cosine of all. Isotropy
    and effective rank are of the first texts, uniformity too.
    """
    first, second = unit(left), unit(right)
    similarity = rounded(first @ second.T)
    own = similarity.diagonal().copy()
    np.fill_diagonal(similarity, -np.inf)
    hits = own > similarity.max(1)
    distances = 2 - 2 * (first @ first.T)[np.triu_indices(len(first), 1)]
    measures = {
        "alignment": float(np.mean(np.square(first - second).sum(1))),
        "uniformity": float(np.log(np.mean(np.exp(-2 * distances)))),
        "accuracy@1": float(np.mean(hits)),
        "log_isotropy": log_isotropy(left),
        "effective_rank": effective_rank(first),
    }
    return measures, hits


def nearest_rows(vectors: Array, n: int) -> list[int]:
    """For each of the first n rows, the other row with the highest cosine."""
    scaled = unit(vectors)
    similarity = rounded(scaled[:n] @ scaled.T)
    np.fill_diagonal(similarity, -np.inf)
    return [int(row) for row in similarity.argmax(1)]


def effective_rank(vectors: NDArray[Any]) -> float:
    """Exp of the entropy of the singular values divided by their sum: from 1 to the rank; 0 for zeros alone.

    The singular values are those of the vectors as they are, not centred, so a common direction lowers it.
    """
    values = np.linalg.svd(np.asarray(vectors, dtype=np.float64), compute_uv=False)
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0


def log_isotropy(vectors: NDArray[Any]) -> float:
    """log(min Z(c) / max Z(c)) over the eigenvectors c of V^T V, where Z(c) is the sum of exp(c . v) over the vectors.

    0 is isotropic. Both signs of each eigenvector count, since the sign depends on the linear-algebra library.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    sums = log_sums(rows, directions(rows), signs=(1, -1))
    return float(sums.min() - sums.max())


def directions(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The eigenvectors of V^T V, V the rows, by falling eigenvalue; each is a column with its largest part positive."""
    eigenvectors: NDArray[np.float64] = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    largest = eigenvectors[np.abs(eigenvectors).argmax(axis=0), np.arange(eigenvectors.shape[1])]
    oriented: NDArray[np.float64] = eigenvectors * np.where(largest < 0, -1.0, 1.0)
    return oriented


def log_sums(rows: NDArray[np.float64], columns: NDArray[np.float64], signs: tuple[int, ...]) -> NDArray[np.float64]:
    """Logarithms of Z(c) for each column c and each sign."""
    from scipy.special import logsumexp

    blocks = (rows @ columns[:, start : start + _BLOCK] for start in range(0, columns.shape[1], _BLOCK))
    return np.concatenate([logsumexp(sign * products, axis=0) for products in blocks for sign in signs])
