"""Contrastive losses over the two views of a batch, by name.

Every loss takes the same four arguments:

    left: first views, shape (N, dimensions).
    right: second views, same shape and order.
    temperature: tau.
    labels: shape (N,), for the rows of both views; vectors of one label are no negatives of each other. By default
        every pair has a label of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.objective import LossFunction
from mirrorbench.training.recipes import LOSS_PARAMETERS, MULTI_SIMILARITY

if TYPE_CHECKING:
    from torch import Tensor

_PAPER = LOSS_PARAMETERS["paper"]
MS_MARGIN = 0.2
"""Euclidean distance by which a negative must be further away than a positive to count as easy (SapBERT's released
code, ``miner_margin`` of its training script)."""


def infonce(left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None) -> Tensor:
    """InfoNCE as Eq. 1 of Mirror-BERT and MirrorWiC: the denominator holds the negatives only.

    Each of the 2N vectors is an anchor (N is at least 2); its positive is its other view, its 2N - 2 negatives are all
    other vectors. The papers sum over anchors; this is the mean, which only rescales the step. The loss can be
    negative, since the fraction may exceed 1 without the positive in the denominator.
    """
    cosines, same, positive = _similarities(left, right, labels)
    similarity = cosines / temperature
    negatives = similarity.masked_fill(same, float("-inf")).logsumexp(dim=1)
    return (negatives - similarity.gather(1, positive[:, None]).squeeze(1)).mean()


def ntxent(left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None) -> Tensor:
    """NT-Xent as in the papers' released code: as ``infonce``, with the positive in the denominator as well."""
    cosines, same, positive = _similarities(left, right, labels)
    return _cross_entropy(cosines / temperature, same, positive)


def multi_similarity(
    left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None,
    alpha: float = _PAPER["alpha"], beta: float = _PAPER["beta"], base: float = _PAPER["base"],
) -> Tensor:  # fmt: skip
    """The multi-similarity loss (Wang et al. 2019, Eq. 16) over hard pairs mined in the batch, as SapBERT trains.

    A positive and a negative of an anchor are hard together if the negative is less than ``MS_MARGIN`` further away, as
    Euclidean distances of normalised vectors; pairs that are hard with no other do not count. With S the cosine, P and
    N the hard positives and negatives of an anchor, its loss is

        1/alpha log(1 + sum_P exp(-alpha (S - base))) + 1/beta log(1 + sum_N exp(beta (S - base))).

    All vectors of one label are positives of each other. The mean is over all 2N anchors, those without a hard pair
    included. The temperature is not used.
    """
    import torch

    cosines, same, _ = _similarities(left, right, labels)
    oneself = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    positive, negative = same & ~oneself, ~same
    with torch.no_grad():
        distance = (2 - 2 * cosines).clamp(min=0).sqrt()
        nearest = distance.masked_fill(~negative, float("inf")).amin(dim=1, keepdim=True)
        furthest = distance.masked_fill(~positive, float("-inf")).amax(dim=1, keepdim=True)
        positive &= nearest - distance <= MS_MARGIN
        negative &= distance - furthest <= MS_MARGIN
    towards = _softplus_of_sum(-alpha * (cosines - base), positive) / alpha
    away = _softplus_of_sum(beta * (cosines - base), negative) / beta
    return (towards + away).mean()


def in_batch(left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None) -> Tensor:
    """Cross-entropy over in-batch negatives, in one direction (SimCSE: Gao et al., EMNLP 2021, Eq. 4).

    Each first view is an anchor that must find its own among the N second views. Unlike in ``ntxent``, other first
    views are no negatives, and second views are no anchors. Also known as ``MultipleNegativesRankingLoss``, with scale
    1 / tau. Further rows of ``right`` are negatives of every anchor.
    """
    import torch
    from torch.nn import functional as F  # noqa: N812  (torch's own convention)

    cosines = F.normalize(left.float(), dim=1) @ F.normalize(right.float(), dim=1).T
    own = torch.arange(len(left), device=left.device)
    labels = own if labels is None else labels
    same = F.pad(labels[:, None] == labels[None, :], (0, len(right) - len(left)))
    return _cross_entropy(cosines / temperature, same, own)


def _cross_entropy(similarity: Tensor, same: Tensor, positive: Tensor) -> Tensor:
    """Mean cross-entropy of finding each anchor's positive; other columns with its label are left out."""
    from torch.nn import functional as F  # noqa: N812

    others = same.scatter(1, positive[:, None], value=False)
    return F.cross_entropy(similarity.masked_fill(others, float("-inf")), positive)


def _softplus_of_sum(exponents: Tensor, chosen: Tensor) -> Tensor:
    """log(1 + sum of exp over the chosen entries of each row)."""
    import torch

    masked = exponents.masked_fill(~chosen, float("-inf"))
    return torch.cat([masked, masked.new_zeros(len(masked), 1)], dim=1).logsumexp(dim=1)


def _similarities(left: Tensor, right: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Cosines of all 2N vectors, which of them share a label, and the index of each one's other view."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    n = len(left)
    vectors = F.normalize(torch.cat([left, right]).float(), dim=1)
    labels = torch.arange(n, device=vectors.device) if labels is None else labels
    twice = torch.cat([labels, labels])
    positive = torch.arange(2 * n, device=vectors.device).roll(n)
    return vectors @ vectors.T, twice[:, None] == twice, positive


LOSSES: dict[str, LossFunction] = {
    "infonce": infonce,
    "ntxent": ntxent,
    MULTI_SIMILARITY: multi_similarity,
    "in-batch": in_batch,
}


@hookimpl
def register_losses(register: Register) -> None:
    """The losses of this module."""
    for name, function in LOSSES.items():
        register(name, function, (function.__doc__ or "").split(":")[0].split(" (")[0].rstrip("."))
