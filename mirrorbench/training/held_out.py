"""Held-out strings: how they are chosen and paired, and label-free measures of their vectors.

Alignment and uniformity are those of Wang & Isola ("Understanding Contrastive Representation Learning through Alignment
and Uniformity on the Hypersphere", ICML 2020, section 4.1), over unit vectors: the mean squared distance of positive
pairs (alpha = 2), and the logarithm of the mean of exp(-2 d^2) over all pairs of distinct texts (t = 2). Tuning usually
improves uniformity and worsens alignment a little. Isotropy is the score of Mu and Viswanath (2018), used in
Mirror-BERT (section 4.4, Eq. 2) and as a logarithm in MirrorWiC (section 5.3, Eq. 2). The effective rank is that of Roy
& Vetterli ("The Effective Rank", EUSIPCO 2007, section 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.errors import TuningError
from mirrorbench.core.vectors import rounded, unit
from mirrorbench.training.methods import TWO_TEXT_FUNCTIONS, PairFunction, PairMaker
from mirrorbench.training.recipes import Recipe

HELD_OUT = 500
"""Number of strings held out by default."""
HELD_OUT_SHARE = 0.1
"""Largest share of the distinct strings that is held out."""
FEWEST = 10
"""Fewest held-out strings for ``stop=auto``: with fewer, a single hit is more than a tenth of the accuracy."""
MEASURES = {
    "alignment": ("alignment", "lower is better"),
    "uniformity": ("uniformity", "lower is better"),
    "accuracy@1": ("retrieval, accuracy@1", "higher is better"),
    "log_isotropy": ("log isotropy", "higher is better"),
    "effective_rank": ("effective rank", "higher is better"),
}
"""Title and direction of each measure, in the order of reports."""
_BLOCK = 256
"""Number of directions computed at once, which bounds memory at n x 256 numbers."""


class HeldOutSplit(NamedTuple):
    """Strings divided by ``hold_out``."""

    tuning_texts: list[str]
    """Strings to tune on, in their order, repeated strings included."""
    held_out: list[str]
    """Distinct strings to hold out, in the order of their first occurrence."""


def hold_out(texts: Sequence[str], seed: int) -> HeldOutSplit:
    """Divide strings into those to tune on and those to hold out; the seed determines the draw.

    ``HELD_OUT`` distinct strings are held out, or ``HELD_OUT_SHARE`` of them if that is less.

    Raises:
        TuningError: fewer than ``FEWEST`` strings would be held out.
    """
    distinct = list(dict.fromkeys(texts))
    n = min(HELD_OUT, int(len(distinct) * HELD_OUT_SHARE))
    if n < FEWEST:
        raise TuningError(
            f"stop=auto holds a tenth of the strings out, and of {len(distinct)} distinct ones that is too little",
            f"It needs {round(FEWEST / HELD_OUT_SHARE)} at least; leave stop=auto out of the encoder spec.",
        )
    drawn_rows = np.random.default_rng(seed).permutation(len(distinct))[:n]
    drawn = {distinct[row] for row in drawn_rows}
    return HeldOutSplit(
        tuning_texts=[text for text in texts if text not in drawn],
        held_out=[text for text in distinct if text in drawn],
    )


def shortened(text: str, rng: np.random.Generator) -> str:
    """Return a text's positive: the text without a random span of a tenth of its characters (at least one).

    The result depends on no tokenizer and no recipe, so that measures of all models and tunings are comparable. A text
    of which nothing would remain is returned unchanged.
    """
    length = max(1, len(text) // 10)
    start = int(rng.integers(max(1, len(text) - length + 1)))
    rest = text[:start] + text[start + length :]
    return rest.strip() or text


def positive_pairs(texts: Sequence[str], seed: int, pairs: PairFunction) -> list[tuple[str, str]]:
    """Return positive pairs of held-out corpus lines; none without lines.

    If ``pairs``, the method's pair function, reads two texts from each line, its labelled pairs are returned; otherwise
    each text is paired with its ``shortened`` version. Of several labelled pairs in one group (with a common text or
    concept) only the first is returned: the others would be false negatives.
    """
    rng = np.random.default_rng(seed)
    if not texts or pairs not in TWO_TEXT_FUNCTIONS:
        return [(text, shortened(text, rng)) for text in texts]
    unaugmented = Recipe(temperature=1.0, epochs=1, train_max_length=64, pooling="mean")
    maker = PairMaker(unaugmented, rng, mask_token="", protocol="paper", augmentations={})
    labelled = pairs(texts, maker)
    groups = labelled.groups
    assert groups is not None  # these functions name the group of each pair
    first_pairs: dict[Any, tuple[str, str]] = {}
    for left, right, group in zip(labelled.left, labelled.right, groups, strict=True):
        first_pairs.setdefault(group, (left.text, right.text))
    return list(first_pairs.values())


def measure_pairs(left: Array, right: Array) -> tuple[dict[str, float], NDArray[np.bool_]]:
    """Measure n > 1 pairs of vectors.

    Uniformity and effective rank are those of the normalised first texts, log isotropy that of ``left`` as it is.

    Args:
        left: vectors of the first texts, shape (n, d).
        right: vectors of the second texts, shape (n, d).

    Returns:
        ``MEASURES`` by name, and whether each pair is retrieved: whether the cosine of its two texts is strictly higher
        than that of its first text and every other second text. ``accuracy@1`` is the share of retrieved pairs.
    """
    first = unit(left)
    second = unit(right)
    cosines = rounded(first @ second.T)
    pair_cosines = cosines.diagonal().copy()
    # A first text is compared with the other second texts only.
    np.fill_diagonal(cosines, -np.inf)
    retrieved = pair_cosines > cosines.max(1)

    pair_distances = np.square(first - second).sum(1)
    measures = {
        "alignment": float(np.mean(pair_distances)),
        "uniformity": _uniformity(first),
        "accuracy@1": float(np.mean(retrieved)),
        "log_isotropy": log_isotropy(left),
        "effective_rank": effective_rank(first),
    }
    return measures, retrieved


def _uniformity(vectors: NDArray[Any]) -> float:
    """Return the uniformity of unit vectors (Wang & Isola 2020, section 4.1, t = 2)."""
    above_diagonal = np.triu_indices(len(vectors), 1)
    # |u - v|^2 = 2 - 2 u . v for unit vectors.
    squared_distances = 2 - 2 * (vectors @ vectors.T)[above_diagonal]
    return float(np.log(np.mean(np.exp(-2 * squared_distances))))


def nearest_rows(vectors: Array, n: int) -> list[int]:
    """Return the index of the nearest other row by cosine, for each of the first n rows."""
    scaled = unit(vectors)
    cosines = rounded(scaled[:n] @ scaled.T)
    np.fill_diagonal(cosines, -np.inf)
    return [int(row) for row in cosines.argmax(1)]


def effective_rank(vectors: NDArray[Any]) -> float:
    """Return the effective rank: exp of the entropy of the singular values divided by their sum.

    It lies between 1 and the rank, and is 0 if all vectors are zero. The vectors, shape (n, d), are not centred, so a
    common direction lowers it. Source: Roy & Vetterli (EUSIPCO 2007), section 2.
    """
    singular_values = np.linalg.svd(np.asarray(vectors, dtype=np.float64), compute_uv=False)
    shares = singular_values[singular_values > 0] / singular_values.sum()
    if len(shares) == 0:
        return 0.0
    entropy = -(shares * np.log(shares)).sum()
    return float(np.exp(entropy))


def log_isotropy(vectors: NDArray[Any]) -> float:
    """Return log(min Z(c) / max Z(c)) over the eigenvectors c of V^T V; Z(c) is the sum of exp(c . v) over the vectors.

    Isotropic vectors have 0, all others less. Both signs of each eigenvector count, since the linear-algebra library
    decides which one it returns. Source: Mu and Viswanath (2018); Mirror-BERT, section 4.4, Eq. 2; MirrorWiC, section
    5.3, Eq. 2.

    Args:
        vectors: V, shape (n, d).

    Example:
        >>> import numpy as np
        >>> from mirrorbench.training.held_out import log_isotropy
        >>> log_isotropy(np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]))
        0.0
        >>> log_isotropy(np.array([[1, 0], [1, 1]])) < -1
        True
    """
    rows = np.asarray(vectors, dtype=np.float64)
    sums = log_sums(rows, directions(rows), signs=(1, -1))
    return float(sums.min() - sums.max())


def directions(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the eigenvectors of V^T V, the directions in which vectors are measured.

    Args:
        rows: V, shape (n, d).

    Returns:
        The eigenvectors as columns, shape (d, d), by falling eigenvalue. The component with the largest absolute value
        of each is positive.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.training.held_out import directions
        >>> directions(np.array([[-3.0, 0.0], [0.0, -1.0]])).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    _, ascending = np.linalg.eigh(rows.T @ rows)
    eigenvectors: NDArray[np.float64] = ascending[:, ::-1]
    largest_rows = np.abs(eigenvectors).argmax(axis=0)
    largest_components = eigenvectors[largest_rows, np.arange(eigenvectors.shape[1])]
    signs = np.where(largest_components < 0, -1.0, 1.0)
    return signs * eigenvectors


def log_sums(
    rows: NDArray[np.float64], columns: NDArray[np.float64], signs: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return log Z(s c) for each column c and each sign s; Z(c) is the sum of exp(c . v) over the vectors v.

    Args:
        rows: the vectors v, shape (n, d).
        columns: the directions c, shape (d, k).
        signs: ``(1,)``, ``(-1,)`` or ``(1, -1)``.

    Returns:
        The logarithms, shape (k * len(signs),). With one sign they are in the order of the columns; with two the order
        is by block of 256 columns, in each by sign.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.training.held_out import log_sums
        >>> log_sums(np.zeros((1, 2)), np.eye(2), signs=(1,)).tolist()
        [0.0, 0.0]
    """
    from scipy.special import logsumexp

    sums = []
    for start in range(0, columns.shape[1], _BLOCK):
        products = rows @ columns[:, start : start + _BLOCK]
        for sign in signs:
            sums.append(logsumexp(sign * products, axis=0))
    return np.concatenate(sums)
