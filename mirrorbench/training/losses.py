"""Objectives: losses over the vectors of both views, and modules that learn beside the model.

Every loss takes ``left`` and ``right``, the first and second views, shape (N, dimensions), ``temperature``, tau, and
``labels`` of the pairs, shape (N,): vectors of one label are no negatives of each other. By default all labels differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.devices import moved, out_of_memory
from mirrorbench.core.errors import DeviceMemoryError, PluginError
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.recipes import LOSS_PARAMETERS, MULTI_SIMILARITY

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from mirrorbench.models.batching import Ragged
    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.recipes import Recipe

LossFunction = Callable[..., "Tensor"]
"""``(left, right, temperature, labels) -> loss``: see ``mirrorbench.training.losses``."""


@dataclass(frozen=True, slots=True)
class TokenizedPairs:
    """Both views of n pairs: rows 0 to n - 1 are the first views, rows n to 2n - 1 the second views in this order."""

    ids: Ragged
    """Token ids, special tokens included, not padded."""
    targets: Ragged | None
    """Positions of the targets' tokens, for the pooling ``target`` alone."""
    labels: Tensor
    """Shape (n,); pairs of one group have the same label."""

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> TokenizedPairs:
        """Return some of the pairs."""
        chosen = np.asarray(rows, dtype=np.int64)
        both = np.concatenate([chosen, chosen + len(self.labels)])
        targets = None if self.targets is None else self.targets.take(both)
        return TokenizedPairs(self.ids.take(both), targets, self.labels[chosen])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each view, shape (2, n)."""
        return self.ids.lengths.reshape(2, -1)

    def view(self, index: int) -> tuple[Ragged, Ragged | None]:
        """Return token ids and positions of the targets' tokens of the first (0) or the second (1) views."""
        rows = np.arange(index * len(self.labels), (index + 1) * len(self.labels))
        return self.ids.take(rows), None if self.targets is None else self.targets.take(rows)


class Objective:
    """A loss with models, modules or a state of its own: one object a tuning. ``register_losses`` takes the class.

    It is created after torch's seed and the model's augmentations are set. The loop computes the vectors in
    micro-batches, as for any loss, and keeps ``transformer`` alone after the last step.

    Attributes:
        transformer: the backbone.
        recipe: the hyper-parameters.
        pooling: the pooling of vectors.
        readers: the models that read the first and the second views: ``transformer`` unless ``__init__`` sets a copy,
            or ``None`` for views without vectors, which are zeros.
        modules: further modules that learn; ``__init__`` appends to it. Weights shared with a reader count once.
    """

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        self.transformer = transformer
        self.recipe = recipe
        self.pooling = recipe.readout(recipe.train_max_length)
        self.pad_to = recipe.train_max_length if recipe.pooling == "mean-padded" else 0
        self.readers: tuple[Transformer | None, Transformer | None] = (transformer, transformer)
        self.modules: list[nn.Module] = []

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Return the loss of a batch, with gradients for the vectors and for all ``weights`` in use.

        It may be called again for the same step, with the same seed of torch, when memory runs out: a state changes in
        ``stepped``.

        Args:
            left: vectors of the first views, shape (n, dimensions).
            right: vectors of the second views, in the same order.
            batch: token ids of both views, and labels of the pairs (on the CPU).
            most: most tokens with activations in memory at once.
        """
        raise NotImplementedError

    def read(self, reader: Transformer, ids: Ragged, targets: Ragged | None, most: int) -> Tensor:
        """Return the vectors of a view (``batch.view(0)`` or ``(1)``) by any model, without gradients."""
        import torch

        def vectors(rows: NDArray[np.int64]) -> Tensor:
            located = None if targets is None else targets.take(rows)
            return reader.forward(ids.take(rows), [self.pooling], self.pad_to, located)[0]

        with torch.no_grad():
            return torch.cat([vectors(rows) for rows in portions(ids, most)])

    def optimizer(self) -> torch.optim.Optimizer:
        """Create AdamW for ``weights`` at the recipe's learning rate and weight decay.

        Its averages are created at once: a first step without enough memory would leave half of them.

        Raises:
            DeviceMemoryError: the averages do not fit into memory.
        """
        import torch

        weights = self.weights
        optimizer = torch.optim.AdamW(
            weights, lr=self.recipe.lr, weight_decay=self.recipe.weight_decay, fused=True
        )
        try:
            for weight in weights:
                averages: dict[str, Any] = {
                    name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")
                }
                step = torch.zeros((), dtype=torch.float32, device=weight.device)
                optimizer.state[weight] = {"step": step, **averages}
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            raise DeviceMemoryError(
                f"no memory left on {weights[0].device} for the averages that AdamW keeps of each weight",
                "Tuning takes four times the memory of the weights: add lora=16 to the encoder spec, or use a smaller "
                "model, fewer --workers on a GPU, or --device cpu.",
            ) from error
        return optimizer

    def stepped(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        """Update schedules, averages or queues after each of the optimiser's ``steps``."""

    def state_dict(self) -> dict[str, Any] | None:
        """Return the values and tensors of ``stepped`` for checkpoints, beside weights, buffers and the optimiser.

        ``None``, the default with a ``stepped``, makes an interrupted tuning start anew.
        """
        return {} if type(self).stepped is Objective.stepped else None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of ``state_dict``, with tensors on the CPU."""

    @property
    def weights(self) -> list[nn.Parameter]:
        """Parameters that learn."""
        every = (weight for module in self._learning() for weight in module.parameters())
        return list(dict.fromkeys(weight for weight in every if weight.requires_grad))

    @property
    def buffers(self) -> list[Tensor]:
        """Buffers of the modules, such as averages over batches."""
        return list(
            dict.fromkeys(buffer for module in self._learning() for buffer in module.buffers())
        )

    def _learning(self) -> list[nn.Module]:
        return [
            *(reader.model for reader in (self.transformer, *self.readers) if reader),
            *self.modules,
        ]

    def train(self) -> None:
        """Switch all modules that learn to training mode."""
        for module in self._learning():
            module.train()


def portions(ids: Ragged, most: int) -> list[NDArray[np.int64]]:
    """Divide the rows of texts, in their order, into portions of about ``most`` tokens when padded."""
    n = len(ids)
    return np.array_split(np.arange(n), min(n, -(-n * int(ids.lengths.max()) // max(1, most))))


class OfVectors(Objective):
    """The objective of a loss function."""

    def __init__(self, transformer: Transformer, recipe: Recipe, function: LossFunction) -> None:
        super().__init__(transformer, recipe)
        own = list(inspect.signature(function).parameters)[4:]
        self.named = f"the loss {recipe.loss!r}{defined_at(function)}"
        if unknown := [name for name in own if not hasattr(recipe, name)]:
            problem = f"{self.named} has the arguments {', '.join(unknown)}"
            raise PluginError(problem, "After the first four they are keys of the recipe.")
        self.function = partial(function, **{name: getattr(recipe, name) for name in own})

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Return the function's value; a ``PluginError`` unless that is a scalar computed from the vectors."""
        labels = moved(batch.labels, left.device)
        value = self.function(left, right, self.recipe.temperature, labels)
        if fault := _fault_of(value, learns=left.requires_grad):
            raise PluginError(
                f"{self.named} returned {fault}",
                "It returns a scalar tensor, computed from the vectors.",
            )
        return value


def _fault_of(value: object, learns: bool) -> str:
    """Return what a loss returned instead of a scalar tensor, with gradients if the vectors have some; else empty."""
    import torch

    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    if value.ndim:
        return f"a tensor of shape {tuple(value.shape)}"
    return "a tensor without gradients" if learns and not value.requires_grad else ""


def objective_of(
    loss: LossFunction | type[Objective], transformer: Transformer, recipe: Recipe
) -> Objective:
    """Create the objective of a registered loss."""
    return (
        loss(transformer, recipe)
        if isinstance(loss, type)
        else OfVectors(transformer, recipe, loss)
    )


_PAPER = LOSS_PARAMETERS["paper"]
MS_MARGIN = 0.2
"""Difference of Euclidean distances from which a negative is easy (SapBERT's released code, ``miner_margin``)."""


def infonce(
    left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None
) -> Tensor:
    """InfoNCE as Eq. 1 of Mirror-BERT and MirrorWiC: the denominator holds the negatives alone.

    Each of the 2N vectors is an anchor (N is at least 2); its positive is its other view, its 2N - 2 negatives are all
    other vectors. The papers sum over anchors; this is the mean, which rescales the step. The loss can be negative,
    since the fraction may exceed 1 without the positive in the denominator.
    """
    cosines, same, positive = _similarities(left, right, labels)
    similarity = cosines / temperature
    negatives = similarity.masked_fill(same, float("-inf")).logsumexp(dim=1)
    return (negatives - similarity.gather(1, positive[:, None]).squeeze(1)).mean()


def ntxent(left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None) -> Tensor:
    """NT-Xent as in the papers' released code: ``infonce`` with the positive in the denominator, too."""
    cosines, same, positive = _similarities(left, right, labels)
    return _cross_entropy(cosines / temperature, same, positive)


def multi_similarity(
    left: Tensor,
    right: Tensor,
    temperature: float,
    labels: Tensor | None = None,
    alpha: float = _PAPER["alpha"],
    beta: float = _PAPER["beta"],
    base: float = _PAPER["base"],
) -> Tensor:
    """The multi-similarity loss (Wang et al. 2019, Eq. 16) over hard pairs mined in the batch, as SapBERT trains.

    A positive and a negative of an anchor are hard if the negative's Euclidean distance, of normalised vectors, is less
    than ``MS_MARGIN`` larger than the positive's. With S the cosine, P and N the hard positives and negatives of an
    anchor, its loss is

        1/alpha log(1 + sum_P exp(-alpha (S - base))) + 1/beta log(1 + sum_N exp(beta (S - base))).

    All vectors of one label are positives of each other. The mean is over all 2N anchors, those without a hard pair
    included. The temperature is not used.
    """
    import torch

    cosines, same, _ = _similarities(left, right, labels)
    diagonal = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    positive, negative = same & ~diagonal, ~same
    with torch.no_grad():
        distance = (2 - 2 * cosines).clamp(min=0).sqrt()
        nearest = distance.masked_fill(~negative, float("inf")).amin(dim=1, keepdim=True)
        furthest = distance.masked_fill(~positive, float("-inf")).amax(dim=1, keepdim=True)
        positive &= nearest - distance <= MS_MARGIN
        negative &= distance - furthest <= MS_MARGIN
    towards = _softplus_of_sum(-alpha * (cosines - base), positive) / alpha
    away = _softplus_of_sum(beta * (cosines - base), negative) / beta
    return (towards + away).mean()


def in_batch(
    left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None
) -> Tensor:
    """Cross-entropy over in-batch negatives, in one direction (SimCSE: Gao et al., EMNLP 2021, Eq. 4).

    Each first view is an anchor, its own second view the positive, and the other N - 1 second views the negatives,
    unlike in ``ntxent``. Also known as ``MultipleNegativesRankingLoss``, with scale 1 / tau. Further rows of ``right``
    are negatives of every anchor.
    """
    import torch
    from torch.nn import functional as F  # noqa: N812  (torch's own convention)

    cosines = F.normalize(left.float(), dim=1) @ F.normalize(right.float(), dim=1).T
    own = torch.arange(len(left), device=left.device)
    labels = own if labels is None else labels
    same = F.pad(labels[:, None] == labels[None, :], (0, len(right) - len(left)))
    return _cross_entropy(cosines / temperature, same, own)


def _cross_entropy(similarity: Tensor, same: Tensor, positive: Tensor) -> Tensor:
    """Return the mean cross-entropy of each anchor's positive, without other columns of its label."""
    from torch.nn import functional as F  # noqa: N812

    others = same.scatter(1, positive[:, None], value=False)
    return F.cross_entropy(similarity.masked_fill(others, float("-inf")), positive)


def _softplus_of_sum(exponents: Tensor, chosen: Tensor) -> Tensor:
    """Return log(1 + sum of exp over the chosen entries of each row)."""
    import torch

    masked = exponents.masked_fill(~chosen, float("-inf"))
    return torch.cat([masked, masked.new_zeros(len(masked), 1)], dim=1).logsumexp(dim=1)


def _similarities(
    left: Tensor, right: Tensor, labels: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the cosines of all 2N vectors, true at pairs of one label, and the index of each vector's other view."""
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
    """Register the losses of this module."""
    for name, function in LOSSES.items():
        register(name, function, (function.__doc__ or "").split(":")[0].split(" (")[0].rstrip("."))
