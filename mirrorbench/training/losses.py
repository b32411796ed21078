"""Contrastive losses over the two views of a batch, by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as F  # noqa: N812  (torch's own convention)


def infonce(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """InfoNCE as Eq. 1 of Mirror-BERT and MirrorWiC: the denominator holds the negatives only.

    Each of the 2N vectors is an anchor; its positive is its other view, its 2N - 2 negatives are all other vectors.
    The papers sum over anchors; this is the mean, which only rescales the step.

    Args:
        left: first views, shape (N, dimensions), N at least 2.
        right: second views, same shape and order.
        temperature: tau.

    Returns:
        A scalar. It can be negative: without the positive the fraction may exceed 1.
    """
    similarity, positive = _similarities(left, right, temperature)
    hidden = torch.zeros_like(similarity, dtype=torch.bool)
    rows = torch.arange(len(similarity), device=similarity.device)
    hidden[rows, rows] = True
    hidden[rows, positive] = True
    negatives = similarity.masked_fill(hidden, float("-inf")).logsumexp(dim=1)
    return (negatives - similarity[rows, positive]).mean()


def ntxent(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """NT-Xent as in the papers' released code: as ``infonce``, with the positive in the denominator as well.

    Args:
        left: first views, shape (N, dimensions).
        right: second views, same shape and order.
        temperature: tau.

    Returns:
        A non-negative scalar, the mean over all 2N anchors.
    """
    similarity, positive = _similarities(left, right, temperature)
    similarity = similarity.masked_fill(
        torch.eye(len(similarity), dtype=torch.bool, device=similarity.device), float("-inf")
    )
    return F.cross_entropy(similarity, positive)


def _similarities(left: torch.Tensor, right: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines of all 2N vectors over tau, and the index of each one's positive."""
    n = len(left)
    vectors = F.normalize(torch.cat([left, right]).float(), dim=1)
    positive = torch.arange(2 * n, device=vectors.device).roll(n)
    return vectors @ vectors.T / temperature, positive


LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]] = {
    "infonce": infonce,
    "ntxent": ntxent,
}
