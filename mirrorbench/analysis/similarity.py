"""Distributions of similarities: how far apart do pairs lie that belong together and pairs that do not?

Mirror-BERT's Figure 7 (section 4.4) shows the cosines of positive and negative pairs before and after tuning: they
fall, and the two kinds part. Graded judgements are split into bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.tasks.metrics import auc

FEWEST, MOST = 12, 40
"""Bins of a histogram over the range of all encoders that are compared: the Rice rule, 2 n^(1/3), within these."""
GRADES = ("low", "middle", "high")
"""Bands of graded judgements: thirds of the range of the gold scale."""


@dataclass(frozen=True, slots=True)
class Band:
    """The similarities of the pairs of one kind.

    Attributes:
        name: ``negative`` and ``positive``, or the bands of ``GRADES``.
        n: how many pairs.
        mean: of their cosines.
        sd: sample standard deviation; ``None`` for a single pair.
        median: of their cosines.
        density: of the histogram, shape (bins,); its integral is 1.
    """

    name: str
    n: int
    mean: float
    sd: float | None
    median: float
    density: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distribution:
    """The similarities of one encoder, by kind of pair.

    Attributes:
        bands: from dissimilar to similar; empty ones are left out.
        edges: of the histograms, shape (bins + 1,).
        overlap: shared area of the histograms of the lowest and the highest band, from 0 (parted) to 1 (alike).
        auc: how often a pair of the highest band scores above one of the lowest.
    """

    bands: tuple[Band, ...]
    edges: NDArray[np.float64]
    overlap: float
    auc: float | None


def bands_of(gold: ArrayLike) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The kinds of pairs, and the kind of each pair.

    Args:
        gold: n judgements: 0 and 1, or a graded scale, which is cut into three parts of equal width.

    Returns:
        The names, and for each pair an index into them, shape (n,).

    Raises:
        ValueError: all judgements are equal.
    """
    values = np.asarray(gold, dtype=np.float64)
    low, high = values.min(), values.max()
    if low == high:
        raise ValueError("all pairs have the same judgement")
    if set(np.unique(values)) <= {0.0, 1.0}:
        return ("negative", "positive"), values.astype(np.int64)
    cuts = np.linspace(low, high, len(GRADES) + 1)[1:-1]
    return GRADES, np.searchsorted(cuts, values, side="right").astype(np.int64)


def shared_edges(cosines: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Edges of histograms that hold the cosines of all encoders, so that their figures can be compared."""
    low, high = min(float(c.min()) for c in cosines), max(float(c.max()) for c in cosines)
    margin = 0.01 * max(high - low, 1e-6)
    bins = int(np.clip(round(2 * max(len(c) for c in cosines) ** (1 / 3)), FEWEST, MOST))
    edges: NDArray[np.float64] = np.linspace(low - margin, high + margin, bins + 1)
    return edges


def distribution(cosines: NDArray[np.float64], gold: ArrayLike, edges: NDArray[np.float64]) -> Distribution:
    """How an encoder's similarities are distributed within each kind of pair.

    Args:
        cosines: n similarities.
        gold: n judgements (see ``bands_of``).
        edges: of the bins (see ``shared_edges``).
    """
    names, kind = bands_of(gold)
    bands = []
    for index, name in enumerate(names):
        own = cosines[kind == index]
        if len(own):
            sd = float(own.std(ddof=1)) if len(own) > 1 else None
            density = np.histogram(own, edges, density=True)[0]
            bands.append(Band(name, len(own), float(own.mean()), sd, float(np.median(own)), density))
    overlap = float((np.minimum(bands[0].density, bands[-1].density) * np.diff(edges)).sum())
    extreme = (kind == 0) | (kind == len(names) - 1)
    return Distribution(tuple(bands), edges, overlap, auc(cosines[extreme], kind[extreme] > 0))
