"""Exact nearest-neighbour search in bounded memory: top-k by cosine or dot product, CSLS, and ranks."""

from __future__ import annotations

from mirrorbench.tasks.neighbours.search import csls, neighbourhood, ranks, topk

__all__ = ["csls", "neighbourhood", "ranks", "topk"]
