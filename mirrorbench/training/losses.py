"""Losses over the vectors of both views, and objectives with modules that learn beside the model.

The arguments of every loss function are:

- ``left`` and ``right``: vectors of the first and second views, shape (N, dimensions);
- ``temperature``: tau;
- ``labels`` of the pairs, integers of shape (N,): vectors of one label are not negatives of each other. With ``None``,
  all labels differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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

    from mirrorbench.models.ragged import Ragged
    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.recipes import Recipe

LossFunction = Callable[..., "Tensor"]
"""``(left, right, temperature, labels) -> loss``: see ``mirrorbench.training.losses``."""


@dataclass(frozen=True, slots=True)
class TokenizedPairs:
    """Both views of n pairs as token ids: what ``Objective.loss`` gets as ``batch``, beside their vectors.

    ``ids`` has 2n rows: rows 0 to n - 1 are the first views, rows n to 2n - 1 the second views in the same order.
    ``labels`` has n integers; pairs with the same label are not negatives of each other. mirrorbench makes one for each
    batch, from the pairs of the method and after all augmentations. A loss that needs more than the vectors, such as
    one that predicts tokens, reads a view by ``view``; a test makes the object as below.

    Attributes:
        ids: token ids of 2n texts, special tokens included, not padded.
        targets: positions of the tokens to pool in each of 2n texts; ``None`` unless the pooling is over target words,
            or over the last copy of a text that the prompt repeats.
        labels: integers of shape (n,), on the CPU; pairs of one group have the same label.

    Example:
        >>> import torch
        >>> from mirrorbench.plugin import Ragged, TokenizedPairs
        >>> first_views = [[2, 40, 3], [2, 305, 447, 3]]
        >>> second_views = [[2, 41, 3], [2, 305, 3]]
        >>> batch = TokenizedPairs(Ragged.of([*first_views, *second_views]), None, torch.tensor([0, 1]))
        >>> ids, targets = batch.view(1)
        >>> [row.tolist() for row in ids]
        [[2, 41, 3], [2, 305, 3]]
        >>> batch.lengths.tolist()
        [[3, 4], [3, 3]]
    """

    ids: Ragged
    targets: Ragged | None
    labels: Tensor

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> TokenizedPairs:
        """Return the pairs with these indices, in the order of ``rows``."""
        first_rows = np.asarray(rows, dtype=np.int64)
        second_rows = first_rows + len(self.labels)
        view_rows = np.concatenate([first_rows, second_rows])
        targets = None if self.targets is None else self.targets.take(view_rows)
        return TokenizedPairs(self.ids.take(view_rows), targets, self.labels[first_rows])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Numbers of tokens of the first and second views, shape (2, n)."""
        return self.ids.lengths.reshape(2, -1)

    def view(self, index: int) -> tuple[Ragged, Ragged | None]:
        """Return token ids, and the rows of ``targets`` or ``None``, of the first (0) or the second (1) views."""
        n = len(self.labels)
        rows = np.arange(index * n, (index + 1) * n)
        targets = None if self.targets is None else self.targets.take(rows)
        return self.ids.take(rows), targets


class Objective:
    """A loss with models, modules or a state of its own. A plugin registers the subclass with ``register_losses``.

    A subclass implements ``loss``. It may extend ``__init__(transformer, recipe)``, to add modules or readers and to
    raise a ``TuningError`` for models and recipes that it does not suit; replace ``optimizer``; and implement
    ``stepped``, together with ``state_dict`` and ``load_state_dict``. A loss without anything of its own is a function
    of the vectors instead.

    mirrorbench creates one object for each tuning (``SUBCLASS(transformer, recipe)``), after torch's seed and the
    model's augmentations are set. For each batch it computes the vectors in micro-batches, and calls ``loss``, then the
    optimiser, then ``stepped``. After the last step only ``transformer`` is kept.

    Attributes:
        transformer: the backbone, a ``Transformer``.
        recipe: the hyper-parameters, a ``Recipe``.
        pooling: how states become vectors, from ``recipe.readout``; for ``pool`` and ``Transformer.forward``.
        pad_to: tokens to which texts are padded, under the pooling ``mean-padded``; otherwise 0.
        readers: the models that read the first and the second views. Both are ``transformer`` by default; ``__init__``
            may set a copy (``dataclasses.replace(transformer, model=copy.deepcopy(transformer.model))``), a subclass of
            ``Transformer`` with another ``forward``, or ``None`` for the views of one side, which then get zeros.
        modules: further modules that learn (``torch.nn.Module`` on the transformer's device); ``__init__`` appends to
            it. Weights shared with a reader count once.

    Example:
        A layer, which learns and is dropped after the tuning, projects the vectors before the loss, as in SimCLR (Chen
        et al. 2020, section 2.1):

        >>> import torch
        >>> from mirrorbench import Session, hookimpl
        >>> from mirrorbench.plugin import Objective, in_batch, load_plugins
        >>> class Projection(Objective):
        ...     def __init__(self, transformer, recipe):
        ...         super().__init__(transformer, recipe)
        ...         width = transformer.dimensions
        ...         self.layer = torch.nn.Linear(width, width).to(transformer.device)
        ...         self.modules.append(self.layer)
        ...     def loss(self, left, right, batch, most):
        ...         labels = batch.labels.to(left.device)
        ...         return in_batch(self.layer(left), self.layer(right), self.recipe.temperature, labels)
        >>> class ProjectionPlugin:
        ...     @hookimpl
        ...     def register_losses(self, register):
        ...         register("projection", Projection)
        >>> plugins = load_plugins(discover=False)
        >>> plugins.add(ProjectionPlugin(), "projection")
        >>> spec = "tiny+mirror:loss=projection,corpus=quick-sentences,corpus_size=40"
        >>> Session(plugins=plugins, device="cpu").load(spec).encode(["a cat"]).shape
        (1, 256)
    """

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        self.transformer = transformer
        self.recipe = recipe
        self.pooling = recipe.readout(recipe.train_max_length)
        self.pad_to = recipe.train_max_length if recipe.pooling == "mean-padded" else 0
        self.readers: tuple[Transformer | None, Transformer | None] = (transformer, transformer)
        self.modules: list[nn.Module] = []

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Return the loss of a batch, a scalar with gradients for the vectors and for all ``weights`` in use.

        If memory runs out, it is called again for the same step with the same seed of torch. A state must therefore
        change only in ``stepped``.

        Args:
            left: vectors of the first views, shape (n, dimensions).
            right: vectors of the second views, in the same order.
            batch: token ids of both views, and labels of the pairs (on the CPU).
            most: most tokens whose activations may be in memory at once.
        """
        raise NotImplementedError

    def read(self, reader: Transformer, ids: Ragged, targets: Ragged | None, most: int) -> Tensor:
        """Return the vectors of a view by any model, without gradients, shape (n, dimensions).

        Args:
            reader: the model.
            ids: token ids, from ``batch.view(0)`` or ``batch.view(1)``.
            targets: positions of the targets' tokens, from the same call.
            most: most tokens, padding included, of a pass through the model.
        """
        import torch

        def vectors(rows: NDArray[np.int64]) -> Tensor:
            located = None if targets is None else targets.take(rows)
            return reader.forward(ids.take(rows), [self.pooling], self.pad_to, located)[0]

        with torch.no_grad():
            return torch.cat([vectors(rows) for rows in ids.portions(most)])

    def optimizer(self) -> torch.optim.Optimizer:
        """Return AdamW for ``weights`` with the recipe's learning rate and weight decay.

        Raises:
            DeviceMemoryError: AdamW's averages do not fit into memory.
        """
        import torch

        weights = self.weights
        optimizer = torch.optim.AdamW(
            weights, lr=self.recipe.lr, weight_decay=self.recipe.weight_decay, fused=True
        )
        # Create the averages now: a first step that runs out of memory would leave half of them.
        try:
            for weight in weights:
                mean = torch.zeros_like(weight)
                mean_of_squares = torch.zeros_like(weight)
                optimizer.state[weight] = {
                    "step": torch.zeros((), dtype=torch.float32, device=weight.device),
                    "exp_avg": mean,
                    "exp_avg_sq": mean_of_squares,
                }
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
        """Update schedules, averages or queues after each step of the optimiser; ``steps`` counts them from 1.

        The default does nothing.
        """

    def state_dict(self) -> dict[str, Any] | None:
        """Return the state that ``stepped`` changes, for checkpoints: plain values and tensors.

        Weights, buffers and the optimiser are saved anyway. ``None`` means that the state is unknown: no checkpoint is
        written, and an interrupted tuning starts anew. That is the default of a subclass with its own ``stepped``.
        """
        has_own_state = type(self).stepped is not Objective.stepped
        return None if has_own_state else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of ``state_dict``, with tensors on the CPU."""

    @property
    def weights(self) -> list[nn.Parameter]:
        """Parameters that learn, each once."""
        parameters: dict[nn.Parameter, None] = {}
        for module in self._learning_modules():
            parameters.update(dict.fromkeys(module.parameters()))
        return [parameter for parameter in parameters if parameter.requires_grad]

    @property
    def buffers(self) -> list[Tensor]:
        """Buffers of the modules that learn, such as averages over batches, each once."""
        buffers: dict[Tensor, None] = {}
        for module in self._learning_modules():
            buffers.update(dict.fromkeys(module.buffers()))
        return list(buffers)

    def _learning_modules(self) -> list[nn.Module]:
        models = [reader.model for reader in (self.transformer, *self.readers) if reader]
        return [*models, *self.modules]

    def train(self) -> None:
        """Switch all modules that learn to training mode."""
        for module in self._learning_modules():
            module.train()


class FunctionObjective(Objective):
    """The objective of a loss function, whose arguments after the fourth are keys of the recipe.

    Raises:
        PluginError: the recipe has no such key.
    """

    def __init__(self, transformer: Transformer, recipe: Recipe, function: LossFunction) -> None:
        super().__init__(transformer, recipe)
        self.description = f"the loss {recipe.loss!r}{defined_at(function)}"
        parameters = list(inspect.signature(function).parameters)
        settings: dict[str, Any] = {}
        unknown = []
        # After left, right, temperature and labels.
        for name in parameters[4:]:
            if hasattr(recipe, name):
                settings[name] = getattr(recipe, name)
            else:
                unknown.append(name)
        if unknown:
            problem = f"{self.description} has the arguments {', '.join(unknown)}"
            raise PluginError(problem, "After the first four they are keys of the recipe.")
        self.function = partial(function, **settings)

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Return the function's value.

        Raises:
            PluginError: the value is not a scalar computed from the vectors.
        """
        labels = moved(batch.labels, left.device)
        value = self.function(left, right, self.recipe.temperature, labels)
        fault = _fault_of(value, learns=left.requires_grad)
        if fault:
            raise PluginError(
                f"{self.description} returned {fault}",
                "It returns a scalar tensor, computed from the vectors.",
            )
        return value


def _fault_of(value: object, learns: bool) -> str:
    """Describe what is wrong with the value of a loss; empty if it is a scalar tensor, with gradients if it ``learns``."""
    import torch

    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    if value.ndim:
        return f"a tensor of shape {tuple(value.shape)}"
    if learns and not value.requires_grad:
        return "a tensor without gradients"
    return ""


def objective_of(
    loss: LossFunction | type[Objective], transformer: Transformer, recipe: Recipe
) -> Objective:
    """Create the objective of a registered loss."""
    if isinstance(loss, type):
        objective: Objective = loss(transformer, recipe)
        return objective
    return FunctionObjective(transformer, recipe, loss)


_PAPER = LOSS_PARAMETERS["paper"]
MS_MARGIN = 0.2
"""Difference of Euclidean distances from which a negative is easy (SapBERT's released code, ``miner_margin``)."""


def infonce(
    left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None
) -> Tensor:
    """Return InfoNCE as in Eq. 1 of Mirror-BERT and MirrorWiC: the denominator holds the negatives alone.

    Each of the 2N vectors is an anchor. Its positive is its other view; its 2N - 2 negatives are all other vectors. The
    papers sum over anchors; this is the mean, which rescales the step. The loss can be negative, since the fraction may
    exceed 1 without the positive in the denominator.

    Args:
        left: vectors of the first views, shape (N, dimensions); N is at least 2.
        right: vectors of the second views, in the same order.
        temperature: tau.
        labels: integers of shape (N,); vectors of one label are not negatives of each other. By default all differ.

    Returns:
        The loss, a scalar.

    Example:
        >>> import torch
        >>> from mirrorbench.training.losses import infonce
        >>> vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> round(infonce(vectors, vectors, temperature=0.5).item(), 4)  # log 2 - 1 / 0.5
        -1.3069
    """
    similarities = _similarities(left, right, labels)
    scaled = similarities.cosines / temperature
    negatives = scaled.masked_fill(similarities.same_label, float("-inf")).logsumexp(dim=1)
    positives = scaled.gather(1, similarities.positives[:, None]).squeeze(1)
    return (negatives - positives).mean()


def ntxent(left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None) -> Tensor:
    """Return NT-Xent as in the papers' released code: ``infonce`` with the positive in the denominator, too.

    Args:
        left: vectors of the first views, shape (N, dimensions).
        right: vectors of the second views, in the same order.
        temperature: tau.
        labels: integers of shape (N,); vectors of one label are not negatives of each other. By default all differ.

    Returns:
        The loss, a scalar of at least 0.

    Example:
        >>> import torch
        >>> from mirrorbench.training.losses import ntxent
        >>> vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> round(ntxent(vectors, vectors, temperature=0.5).item(), 4)  # log(2 + e^2) - 2
        0.2395
    """
    similarities = _similarities(left, right, labels)
    scaled = similarities.cosines / temperature
    return _cross_entropy(scaled, similarities.same_label, similarities.positives)


def multi_similarity(
    left: Tensor,
    right: Tensor,
    temperature: float,
    labels: Tensor | None = None,
    alpha: float = _PAPER["alpha"],
    beta: float = _PAPER["beta"],
    base: float = _PAPER["base"],
) -> Tensor:
    """Return the multi-similarity loss (Wang et al. 2019, Eq. 16) over hard pairs of the batch, as SapBERT trains.

    A positive and a negative of an anchor are hard if the negative's Euclidean distance, of normalised vectors, is at
    most the positive's plus ``MS_MARGIN``. With S the cosine, P and N the hard positives and negatives of an
    anchor, its loss is

        1/alpha log(1 + sum_P exp(-alpha (S - base))) + 1/beta log(1 + sum_N exp(beta (S - base))).

    All vectors of one label are positives of each other. The mean is over all 2N anchors, those without a hard pair
    included.

    Args:
        left: vectors of the first views, shape (N, dimensions).
        right: vectors of the second views, in the same order.
        temperature: not used.
        labels: integers of shape (N,). By default all differ.
        alpha: weight of the positives.
        beta: weight of the negatives.
        base: cosine from which a positive is near enough and a negative too near. The defaults of ``alpha``, ``beta``
            and ``base`` are ``LOSS_PARAMETERS["paper"]``.

    Returns:
        The loss, a scalar of at least 0.

    Example:
        >>> import torch
        >>> from mirrorbench.training.losses import multi_similarity
        >>> easy = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> multi_similarity(easy, easy, temperature=1.0).item()  # no hard pairs
        0.0
        >>> hard = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # each text is nearer to the other one's second view
        >>> multi_similarity(easy, hard, temperature=1.0).item() > 0.5
        True
    """
    import torch

    similarities = _similarities(left, right, labels)
    cosines = similarities.cosines
    is_anchor = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    positives = similarities.same_label & ~is_anchor
    negatives = ~similarities.same_label
    # Find the hard pairs of each anchor (row), without a gradient: it suffices to compare a positive with the nearest
    # negative, and a negative with the furthest positive.
    with torch.no_grad():
        distances = (2 - 2 * cosines).clamp(min=0).sqrt()
        nearest_negative = distances.masked_fill(~negatives, float("inf")).amin(dim=1, keepdim=True)
        furthest_positive = distances.masked_fill(~positives, float("-inf")).amax(
            dim=1, keepdim=True
        )
        hard_positives = positives & (nearest_negative - distances <= MS_MARGIN)
        hard_negatives = negatives & (distances - furthest_positive <= MS_MARGIN)
    towards = _softplus_of_sum(-alpha * (cosines - base), hard_positives) / alpha
    away = _softplus_of_sum(beta * (cosines - base), hard_negatives) / beta
    return (towards + away).mean()


def in_batch(
    left: Tensor, right: Tensor, temperature: float, labels: Tensor | None = None
) -> Tensor:
    """Return the cross-entropy over in-batch negatives, in one direction (SimCSE: Gao et al., EMNLP 2021, Eq. 4).

    Each first view is an anchor, its own second view the positive, and the other second views are the negatives, unlike
    in ``ntxent``. Also known as ``MultipleNegativesRankingLoss``, with scale 1 / tau. It is the registered loss
    ``in-batch``; the loss of a plugin calls it for vectors of its own.

    Args:
        left: vectors of the first views, shape (N, dimensions); not normalised, since the similarity is the cosine.
        right: vectors of the second views, in the same order, shape (M, dimensions), M >= N. Rows after the first N
            are negatives of every anchor.
        temperature: tau, by which cosines are divided; above 0.
        labels: integers of shape (N,), on the device of the vectors; vectors of one label are not negatives of each
            other. By default all differ.

    Returns:
        The loss, the mean over the anchors; a scalar of at least 0, in float32.

    Example:
        >>> import torch
        >>> from mirrorbench.plugin import in_batch
        >>> vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> round(in_batch(vectors, vectors, temperature=0.5).item(), 4)  # log(1 + e^2) - 2
        0.1269
    """
    import torch
    from torch.nn import functional as F  # noqa: N812  (torch's own convention)

    cosines = F.normalize(left.float(), dim=1) @ F.normalize(right.float(), dim=1).T
    positives = torch.arange(len(left), device=left.device)
    if labels is None:
        labels = positives
    same_label = labels[:, None] == labels[None, :]
    # Further second views have no label, and are negatives.
    further_rows = len(right) - len(left)
    same_label = F.pad(same_label, (0, further_rows))
    return _cross_entropy(cosines / temperature, same_label, positives)


def _cross_entropy(similarities: Tensor, same_label: Tensor, positives: Tensor) -> Tensor:
    """Return the mean cross-entropy of each row's positive column, without the other columns of its label."""
    from torch.nn import functional as F  # noqa: N812

    excluded = same_label.scatter(1, positives[:, None], value=False)
    return F.cross_entropy(similarities.masked_fill(excluded, float("-inf")), positives)


def _softplus_of_sum(exponents: Tensor, chosen: Tensor) -> Tensor:
    """Return log(1 + sum of exp over the chosen entries of each row)."""
    import torch

    masked = exponents.masked_fill(~chosen, float("-inf"))
    return torch.cat([masked, masked.new_zeros(len(masked), 1)], dim=1).logsumexp(dim=1)


class _Similarities(NamedTuple):
    """Similarities of all 2N vectors: the first views, then the second views."""

    cosines: Tensor
    """Shape (2N, 2N)."""
    same_label: Tensor
    """Whether two vectors have the same label, shape (2N, 2N); true on the diagonal."""
    positives: Tensor
    """Index of each vector's other view, shape (2N,)."""


def _similarities(left: Tensor, right: Tensor, labels: Tensor | None) -> _Similarities:
    import torch
    from torch.nn import functional as F  # noqa: N812

    n = len(left)
    vectors = F.normalize(torch.cat([left, right]).float(), dim=1)
    if labels is None:
        labels = torch.arange(n, device=vectors.device)
    vector_labels = torch.cat([labels, labels])
    return _Similarities(
        cosines=vectors @ vectors.T,
        same_label=vector_labels[:, None] == vector_labels,
        positives=torch.arange(2 * n, device=vectors.device).roll(n),
    )


LOSSES: dict[str, LossFunction] = {
    "infonce": infonce,
    "ntxent": ntxent,
    MULTI_SIMILARITY: multi_similarity,
    "in-batch": in_batch,
}


@hookimpl
def register_losses(register: Register) -> None:
    """Register the losses of this module."""
    register("infonce", infonce, "InfoNCE as Eq. 1 of Mirror-BERT and MirrorWiC")
    register("ntxent", ntxent, "NT-Xent as in the papers' released code")
    register(MULTI_SIMILARITY, multi_similarity, "The multi-similarity loss")
    register("in-batch", in_batch, "Cross-entropy over in-batch negatives, in one direction")
