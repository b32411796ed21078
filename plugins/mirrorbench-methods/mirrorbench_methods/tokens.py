"""A loss over the tokens of texts, computed in portions that fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mirrorbench.plugin import Ragged, moved

if TYPE_CHECKING:
    from torch import Tensor


TokenLoss = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
"""``(vectors, tokens, real) -> summed loss`` of n texts: padded ids, shape (n, width), and true at real tokens."""


def sum_over_tokens(
    function: TokenLoss, vectors: Tensor, ids: Ragged, most: int, pad_id: int | None
) -> Tensor:
    """Return the sum of a loss over the tokens of all texts, given the texts' vectors.

    Predictions have the size of the vocabulary, so texts are read in portions of an eighth of ``most`` tokens, which
    are computed again for gradients if there are several.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    parts = ids.portions(most // 8)
    compute = function
    if len(parts) > 1:
        # Forget the activations of a portion, and compute them again for its gradients.
        compute = partial(checkpoint, function, use_reentrant=False)
    total = vectors.new_zeros(())
    for rows in parts:
        part = ids.take(rows)
        width = int(part.lengths.max())
        # ``real`` tells the function where padding is, so any id will do for it.
        tokens = moved(torch.from_numpy(part.padded(width, pad_id or 0)), vectors.device)
        real = moved(torch.from_numpy(part.mask(width)), vectors.device)
        # The rows of a portion are consecutive.
        total = total + compute(vectors[rows[0] : rows[-1] + 1], tokens, real)
    return total
