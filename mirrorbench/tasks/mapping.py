"""Mapping one vector space onto another, learnt from a dictionary of pairs (vecmap: Artetxe et al. 2016, 2018)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirrorbench.tasks.metrics import unit
from mirrorbench.tasks.neighbours import Floats, IntArray, csls


def normalise(vectors: Floats) -> NDArray[np.float64]:
    """Unit length, then mean zero over the vocabulary, then unit length again (vecmap: ``unit center unit``)."""
    units = unit(vectors)
    return unit(units - units.mean(axis=0))


def procrustes(source: Floats, target: Floats) -> NDArray[np.float64]:
    """The orthogonal matrix W that brings ``source @ W`` nearest to ``target`` (least squares, Schönemann 1966)."""
    from scipy.linalg import orthogonal_procrustes

    rotation: NDArray[np.float64] = orthogonal_procrustes(source, target)[0]
    return rotation


def learn_mapping(
    source: Floats, target: Floats, pairs: IntArray, rounds: int = 0, frequent: int = 10_000, device: str = "cpu"
) -> NDArray[np.float64]:
    """A mapping learnt from pairs, refined in ``rounds`` of self-learning.

    Each round extends the dictionary by mutual nearest neighbours (by CSLS) among the ``frequent`` most frequent words,
    and learns the mapping anew (Artetxe et al. 2018, section 3.2, without the stochastic part; Lample et al. 2018,
    section 2.2, "refinement").

    ``source`` and ``target`` are normalised vectors, the most frequent words first; ``pairs`` are rows of both, shape
    (2, p).
    """
    rotation = procrustes(source[pairs[0]], target[pairs[1]])
    few, many = source[:frequent], target[:frequent]
    for _ in range(rounds):
        mapped = few @ rotation
        there = csls(mapped, many, 1, device=device)[0][:, 0]
        back = csls(many, mapped, 1, device=device)[0][:, 0]
        mutual = np.flatnonzero(back[there] == np.arange(len(few)))
        left, right = np.concatenate([pairs, [mutual, there[mutual]]], axis=1)
        rotation = procrustes(source[left], target[right])
    return rotation
