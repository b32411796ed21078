"""Batches that waste little on padding: by length, under a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

# What fits the cache wins on a CPU; a GPU wants to be filled. Tokens in a batch, padding included.
TOKEN_BUDGET = {"cpu": 1024, "cuda": 65_536, "mps": 16_384}


def by_length(lengths: ArrayLike, budget: int, fixed_length: int = 0) -> Iterator[list[int]]:
    """Split indices into batches of similar length, longest first.

    Args:
        lengths: tokens of each text.
        budget: the most tokens in a batch, padding included; a longer text makes a batch of its own.
        fixed_length: count every text as this long (for padding to a fixed length), 0 for its own length.

    Yields:
        Lists of indices into ``lengths``; together they hold each index once.
    """
    # A stable sort, so that equal inputs give equal batches and so equal rounding.
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable").tolist()
    start = 0
    while start < len(order):
        width = fixed_length or max(1, int(tokens[order[start]]))  # the longest of this batch comes first
        end = start + max(1, budget // width)
        yield order[start:end]
        start = end
