"""Held-out strings: their choice, their positive pairs, and measures of their vectors without labels.

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

from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.errors import TuningError
from mirrorbench.core.vectors import rounded, unit
from mirrorbench.training.methods import OF_TWO, PairFunction, PairMaker
from mirrorbench.training.recipes import Recipe

HELD_OUT, HELD_OUT_SHARE = 500, 0.1
"""Strings held out by default, and their maximum share of all strings."""
FEWEST = 10
"""Least held-out strings for ``stop=auto``: among fewer, one hit is more than a tenth of the accuracy."""
MEASURES = {
    "alignment": ("alignment", "lower is better"),
    "uniformity": ("uniformity", "lower is better"),
    "accuracy@1": ("retrieval, accuracy@1", "higher is better"),
    "log_isotropy": ("log isotropy", "higher is better"),
    "effective_rank": ("effective rank", "higher is better"),
}
"""Title and direction of each measure, in the order of reports."""
_BLOCK = 256
"""Directions computed together, which bounds memory at n x 256 numbers."""


def hold_out(texts: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """Divide strings into those to tune on, with their repeats, and distinct ones drawn by the seed to hold out.

    ``HELD_OUT`` strings are held out, or ``HELD_OUT_SHARE`` if that is less; fewer than ``FEWEST`` raise a
    ``TuningError``.
    """
    distinct = list(dict.fromkeys(texts))
    n = min(HELD_OUT, int(len(distinct) * HELD_OUT_SHARE))
    if n < FEWEST:
        raise TuningError(
            f"stop=auto holds a tenth of the strings out, and of {len(distinct)} distinct ones that is too little",
            f"It needs {round(FEWEST / HELD_OUT_SHARE)} at least; leave stop=auto out of the encoder spec.",
        )
    aside = {distinct[row] for row in np.random.default_rng(seed).permutation(len(distinct))[:n]}
    return [text for text in texts if text not in aside], [
        text for text in distinct if text in aside
    ]


def shortened(text: str, rng: np.random.Generator) -> str:
    """Remove a random span of a tenth of a text's characters (at least one), to make its positive.

    Without tokenizer and recipe, results of all models and tunings are comparable.
    """
    length = max(1, len(text) // 10)
    start = int(rng.integers(max(1, len(text) - length + 1)))
    return (text[:start] + text[start + length :]).strip() or text


def positive_pairs(texts: Sequence[str], seed: int, pairs: PairFunction) -> list[tuple[str, str]]:
    """Make positive pairs of held-out corpus lines: the labelled pairs of a method's function, or ``shortened`` texts.

    Of several lines with a common text or concept only the first one is used: the others would be false negatives.
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
    """Return ``MEASURES`` of n > 1 pairs of vectors, each side of shape (n, d), and whether each pair is retrieved.

    ``accuracy@1`` is the share of first texts with the strictly highest cosine to their own second text. Uniformity,
    isotropy and effective rank are the first texts'.
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
    """Return for each of the first n rows the other row with the highest cosine."""
    scaled = unit(vectors)
    similarity = rounded(scaled[:n] @ scaled.T)
    np.fill_diagonal(similarity, -np.inf)
    return [int(row) for row in similarity.argmax(1)]


def effective_rank(vectors: NDArray[Any]) -> float:
    """Return exp of the entropy of the singular values divided by their sum: from 1 to the rank; 0 for zeros alone.

    The vectors are not centred, so a common direction lowers it.
    """
    values = np.linalg.svd(np.asarray(vectors, dtype=np.float64), compute_uv=False)
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0


def log_isotropy(vectors: NDArray[Any]) -> float:
    """Return log(min Z(c) / max Z(c)) over the eigenvectors c of V^T V; Z(c) is the sum of exp(c . v) over the vectors.

    0 is isotropic. Both signs of each eigenvector count, since the sign depends on the linear-algebra library.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    sums = log_sums(rows, directions(rows), signs=(1, -1))
    return float(sums.min() - sums.max())


def directions(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the eigenvectors of V^T V, V the rows, as columns by falling eigenvalue, largest components positive."""
    eigenvectors: NDArray[np.float64] = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    largest = eigenvectors[np.abs(eigenvectors).argmax(axis=0), np.arange(eigenvectors.shape[1])]
    return np.where(largest < 0, -1.0, 1.0) * eigenvectors


def log_sums(
    rows: NDArray[np.float64], columns: NDArray[np.float64], signs: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return the logarithms of Z(c) for each column c and each sign."""
    from scipy.special import logsumexp

    blocks = (
        rows @ columns[:, start : start + _BLOCK] for start in range(0, columns.shape[1], _BLOCK)
    )
    return np.concatenate(
        [logsumexp(sign * products, axis=0) for products in blocks for sign in signs]
    )
