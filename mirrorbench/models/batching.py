"""Batches that waste little on padding: by length, under a budget of tokens.

On a CPU a text's vector is the same bit for bit whichever texts stand beside it, in batches of one length that are not
too small: a row of a matrix product then depends on that row alone. Padding would change the order in which attention
adds up, and of a handful of rows a matrix library makes another kind of product.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

# What fits the cache wins on a CPU; a GPU wants to be filled. Tokens in a batch, padding included.
TOKEN_BUDGET = {"cpu": 1024, "cuda": 65_536, "mps": 16_384}


# What another batch costs, in tokens of padding that it may save: starting kernels, adding up gradients.
PASS_COST = {"cpu": 32, "cuda": 4_096, "mps": 2_048}

MIN_TOKENS = 32
"""Tokens in the smallest pass on a CPU: 4 for each thread sufficed for equal rows where it was tried."""


def equal_length_batches(lengths: ArrayLike, budget: int, fixed_length: int = 0) -> Iterator[list[int]]:
    """Split indices into batches of texts that are equally long, longest first, those of one length evenly filled.

    Args:
        lengths: tokens of each text.
        budget: the most tokens in a batch, padding included; a longer text makes a batch of its own.
        fixed_length: count every text as this long (for padding to a fixed length), 0 for its own length.

    Yields:
        Lists of indices into ``lengths``; together they hold each index once.
    """
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(tokens[order])) + 1):
        if len(group):
            room = max(1, budget // max(1, fixed_length or int(tokens[group[0]])))
            yield from (batch.tolist() for batch in np.array_split(group, -(-len(group) // room)))


def similar_length_batches(
    lengths: ArrayLike, budget: int, fixed_length: int = 0, pass_cost: int = PASS_COST["cpu"]
) -> Iterator[list[int]]:
    """Split indices into batches of similar length, longest first.

    A batch ends where it is full, and where padding the next shorter texts would cost more than another pass.

    Args:
        lengths: tokens of each text.
        budget: the most tokens in a batch, padding included; a longer text makes a batch of its own.
        fixed_length: count every text as this long (for padding to a fixed length), 0 for its own length.
        pass_cost: tokens of padding that are worth another batch.

    Yields:
        Lists of indices into ``lengths``; together they hold each index once.
    """
    # A stable sort, so that equal inputs give equal batches and so equal rounding.
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable")
    start = 0
    while start < len(order):
        width = fixed_length or max(1, int(tokens[order[start]]))  # the longest of this batch comes first
        batch = order[start : start + max(1, budget // width)]
        if not fixed_length:
            batch = batch[: _end(tokens[batch], width, pass_cost)]
        yield batch.tolist()
        start += len(batch)


def even_batches(lengths: ArrayLike, budget: int) -> Iterator[list[int]]:
    """Split indices into as few batches as there must be, longest texts first, all of about as many tokens.

    For batches without padding, where similar lengths still help: attention pads what it reads together. Where there
    are several, they are even in number: two cores then have as much to do.

    Args:
        lengths: tokens of each text.
        budget: the most tokens in a batch; a longer text makes a batch of its own.

    Yields:
        Lists of indices into ``lengths``; together they hold each index once.
    """
    tokens = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-tokens, kind="stable")
    ordered = tokens[order]
    middles = ordered.cumsum() - ordered / 2
    total = int(tokens.sum())
    least = max(1, -(-total // budget))
    for n in range(least + (least > 1 and least % 2), len(order), 2 if least > 1 else 1):
        number = (middles * n / max(1, total)).astype(np.int64)  # rising: a text belongs where its middle lies
        batches = np.split(order, np.flatnonzero(np.diff(number)) + 1)
        if all(len(batch) == 1 or tokens[batch].sum() <= budget for batch in batches):
            yield from (batch.tolist() for batch in batches)
            return
    yield from ([row] for row in order.tolist())


def _end(tokens: NDArray[np.int64], width: int, pass_cost: int) -> int:
    """How many texts of descending lengths are best read together at ``width``."""
    changes = np.flatnonzero(np.diff(tokens)) + 1  # the first text of each shorter length
    ends = np.append(changes, len(tokens))
    padding = np.cumsum(width - tokens)[ends - 1]  # of a batch that ends there
    affordable = int(np.searchsorted(padding, pass_cost, side="right"))
    return int(ends[max(1, affordable) - 1])
