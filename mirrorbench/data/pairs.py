"""What the parsers of pair data sets return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts and a human judgement of their similarity.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``MSRpar/17``.
        left: the first text, exactly as in the original file.
        right: the second text.
        gold: the similarity, on the data set's own scale (rank correlations do not care).
        subset: the part of the data set that the pair belongs to (``MSRpar``), empty where there are no parts.
    """

    id: str
    left: str
    right: str
    gold: float
    subset: str = ""
