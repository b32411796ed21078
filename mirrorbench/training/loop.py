"""The tuning loop: two views of each string, one loss (paper 1, section 2; paper 2, section 3).

All randomness comes from the tuning's seed. A NumPy generator draws the order of the strings and text augmentations;
dropout is seeded for each micro-batch of each step, so that micro-batches may be computed twice and in any order. A CPU
run repeats bit for bit on one machine, whether or not it was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mirrorbench.core.devices import device_type, gpu_memory, on_gpu, out_of_memory, release_memory
from mirrorbench.core.errors import DeviceMemoryError, TuningError
from mirrorbench.models.gradient_checkpointing import checkpointed
from mirrorbench.models.transformer import Transformer
from mirrorbench.models.transformer_encoder import TEXTS_PER_CHUNK
from mirrorbench.training.augmentations import Augmentation, functions_and_rates
from mirrorbench.training.checkpoints import Checkpoint
from mirrorbench.training.cpu_functions import fast_cpu_functions
from mirrorbench.training.losses import (
    LOSSES,
    LossFunction,
    Objective,
    TokenizedPairs,
    objective_of,
)
from mirrorbench.training.methods import PairFunction, PairMaker, identical_pairs
from mirrorbench.training.microbatch import MicroBatchReader, PairTokenizer, in_order
from mirrorbench.training.recipes import Recipe

CHECK_EVERY = 10
"""Steps between two checks of the loss, each of which waits for the device."""
MICRO_BATCH_BYTES = {"cpu": 8 << 30, "mps": 4 << 30, "cuda": 16 << 30}
"""Memory for the activations of a micro-batch by device type; without a GPU, for all that are kept: see ``limits``."""
_TOKEN_BYTES = 105
"""Bytes of float32 activations per token, layer and hidden dimension.

Measured: 79 to 104 in BERT of several sizes (with dropout, 20 to 64 tokens a text, a feed-forward width of four times
the hidden one), up to 129 at 128 tokens; fewer in bf16.
"""
_INPUT_BYTES = 8
"""Bytes of a layer's input per token and hidden dimension, which gradient checkpointing keeps.

Measured: 4.5 in ModernBERT, 5.4 in T5.
"""

ROSE = 0.5
"""Rise of the loss above which a tuning did harm: in nats, or relative to a first loss above 1."""
_SAVED_ATTRIBUTES = (
    "epoch",
    "done",
    "pairs",
    "draws",
    "steps",
    "strings",
    "tokens",
    "positions",
    "pending",
    "losses",
    "most",
    "first_loss",
)
"""Attributes of ``_Loop`` that a checkpoint holds under these names."""


@dataclass(frozen=True, slots=True)
class TuningReport:
    """Counts, times and losses of a tuning."""

    steps: int
    """Steps of the optimiser."""
    strings: int
    """Strings, each counted once per epoch (two views each)."""
    tokens: int
    """Tokens of both views, without padding."""
    padding: float
    """Share of padding in the computed positions, 0 to 1."""
    seconds: float
    """Wall-clock time of the loop, without loading and without work lost by an interruption."""
    losses: tuple[float, ...]
    """Mean loss of each ``CHECK_EVERY`` steps."""
    first_loss: float
    """Loss of the first step, with the untuned weights."""

    @property
    def rose(self) -> bool:
        """Whether the loss ended above that of the untuned weights by more than ``ROSE``."""
        allowed_rise = ROSE * max(1.0, abs(self.first_loss))
        return self.losses[-1] > self.first_loss + allowed_rise

    @property
    def cost(self) -> dict[str, float]:
        """Costs as results store them: counts, share of padding, speeds per second."""
        seconds = max(self.seconds, 1e-9)
        return {
            "steps": self.steps,
            "strings": self.strings,
            "tokens": self.tokens,
            "padding": round(self.padding, 4),
            "strings_per_second": round(self.strings / seconds, 1),
            "tokens_per_second": round(self.tokens / seconds, 1),
        }


def batches(
    n: int, size: int, drop_last: bool, rng: np.random.Generator, together: int = 1
) -> Iterator[NDArray[np.int64]]:
    """Yield one epoch's batches of the indices of n strings, at least 2, in random order.

    Args:
        n: number of strings; a multiple of ``together``.
        size: strings in a batch.
        drop_last: whether an incomplete last batch is skipped. Otherwise the strings are spread evenly over the
            batches, so that no batch has few negatives.
        rng: draws the order.
        together: number of successive indices that stay in the same batch, in their order.
    """
    # Groups of ``together`` indices in random order, one a row.
    group_starts = rng.permutation(n // together)[:, None] * together
    groups = group_starts + np.arange(together)
    n_groups = len(groups)
    groups_per_batch = max(1, size // together)
    # A corpus smaller than one batch is not dropped, but makes one smaller batch below.
    if drop_last and n_groups >= groups_per_batch:
        for start in range(0, n_groups - groups_per_batch + 1, groups_per_batch):
            yield groups[start : start + groups_per_batch].ravel()
        return
    n_batches = ceil(n_groups / groups_per_batch)
    if together == 1:
        # An odd number of strings in batches of two: one batch of three, rather than a string without negatives.
        n_batches = min(n_batches, n_groups // 2)
    for batch in np.array_split(groups, n_batches):
        yield batch.ravel()


def tune_backbone(
    transformer: Transformer,
    texts: Sequence[str],
    recipe: Recipe,
    seed: int,
    augmentations: dict[str, Augmentation],
    protocol: str = "paper",
    precision: str = "fp32",
    advance: Callable[[int], None] = lambda n: None,
    pairs: PairFunction = identical_pairs,
    losses: Mapping[str, LossFunction | type[Objective]] = LOSSES,
    checkpoint: Checkpoint | None = None,
    saved: Mapping[str, Any] | None = None,
) -> TuningReport:
    """Tune a backbone in place, and return the counts, times and losses of the tuning.

    Args:
        transformer: the backbone; it must have been built with the recipe's model augmentations.
        texts: strings or corpus lines, at least two.
        recipe: the hyper-parameters.
        seed: determines all random numbers.
        augmentations: registered augmentations by name.
        protocol: ``paper`` or ``released``.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        advance: called with the number of strings done since its last call. If the method makes more or fewer pairs
            than there are strings, the number is the corresponding share of the strings.
        pairs: the method's function that makes the pairs of an epoch.
        losses: registered losses by name.
        checkpoint: written along the tuning if given.
        saved: state of the loop in a checkpoint of the same tuning, from which it resumes.

    Raises:
        TuningError: fewer than two strings or pairs, an inapplicable augmentation, or a loss that is not finite.
        DeviceMemoryError: one pair of strings, or the optimiser's averages, do not fit into memory.
    """
    _check_tunable(transformer, texts, recipe)
    started = time.perf_counter()
    device = transformer.device
    rng = np.random.default_rng(seed)
    mask_token = transformer.tokenizer.mask_token or ""
    maker = PairMaker(recipe, rng, mask_token, protocol, augmentations, transformer.can_read)
    tokenizer = PairTokenizer(transformer, maker, augmentations)
    # Measured on first use: do it before augmentations and the objective change the model.
    backbone_packs = transformer.traits.packs
    forked_devices = [device] if on_gpu(device) else []
    # All that changes the model or torch is attached here, and undone at the end.
    with torch.random.fork_rng(devices=forked_devices), ExitStack() as attached:
        torch.manual_seed(seed)
        if device.type == "cpu":
            attached.enter_context(fast_cpu_functions())
        model_augmentations = functions_and_rates(recipe.augment, augmentations, "model")
        augmentations_pack = _attach_all(model_augmentations, transformer.model, attached)
        objective = objective_of(losses[recipe.loss], transformer, recipe)
        reader = MicroBatchReader(objective, precision, augmentations_pack and backbone_packs)
        if recipe.gradient_checkpointing:
            attached.enter_context(checkpointed(transformer.model, reader.parallel))
        loop = _Loop(reader, seed, started)
        if saved:
            loop.load_state_dict(saved)
        if checkpoint:
            # The weights, and the two averages of AdamW for each.
            checkpoint_bytes = 3 * sum(value.nbytes for value in loop.learned)
            checkpoint.begin("loop", loop, checkpoint_bytes)
        for epoch in range(loop.epoch, recipe.epochs):
            # Sets ``rng`` back to the beginning of the epoch if a checkpoint holds a part of it: the epoch draws the
            # same pairs and batches again, all before its first step, and skips the batches that are done.
            loop.begin(epoch, rng)
            epoch_pairs = pairs(texts, maker)
            n_pairs = len(epoch_pairs.left)
            order = batches(n_pairs, recipe.batch_size, recipe.drop_last, rng, epoch_pairs.together)
            remaining = islice(order, loop.done, None)
            for batch in tokenizer.batches(epoch_pairs, remaining):
                # Progress is in strings, of which an epoch may make more or fewer pairs.
                strings_before = loop.pairs * len(texts) // n_pairs
                loop.step(batch)
                strings_done = loop.pairs * len(texts) // n_pairs
                advance(strings_done - strings_before)
                if checkpoint:
                    checkpoint.save_when_due()
        loop.check()  # the losses since the last check
    transformer.model.eval()
    release_memory(device)
    return loop.report()


def _check_tunable(transformer: Transformer, texts: Sequence[str], recipe: Recipe) -> None:
    """Raise a ``TuningError`` for fewer than two texts, or if a recipe masks and the backbone has no mask token."""
    if len(texts) < 2:
        raise TuningError(
            f"a corpus of {len(texts)} distinct strings cannot be tuned on",
            "It needs at least two.",
        )
    # Augmentations that insert the mask token are recognised by their names, such as ``span_mask``.
    mask_augmentations = [name for name, rate in recipe.augment if "mask" in name and rate]
    if not mask_augmentations:
        return
    tokenizer = transformer.tokenizer
    model_name = transformer.path.name
    problem = ""
    if not tokenizer.mask_token:
        problem = f"{model_name}'s tokenizer has no mask token"
    elif tokenizer.mask_token_id in transformer.missing_embeddings.names:
        problem = (
            f"{model_name} has no embedding of its tokenizer's mask token {tokenizer.mask_token}"
        )
    if problem:
        raise TuningError(
            f"{problem}, so {mask_augmentations[0]} cannot be applied",
            f"Add {mask_augmentations[0]}=0 to the encoder spec.",
        )


def check_strings(transformer: Transformer, strings: Sequence[str], max_length: int) -> None:
    """Raise an ``UnreadableTextError`` for the first string with a token that the model cannot read.

    ``strings``: texts, or pairs of texts joined by a tab. ``max_length``: tokens of a text that are read.
    """
    texts: list[str] = []
    for string in strings:
        texts.extend(string.split("\t"))
    for start in range(0, len(texts), TEXTS_PER_CHUNK):
        transformer.tokenize(texts[start : start + TEXTS_PER_CHUNK], max_length)


def _attach_all(
    augmentations: Sequence[tuple[Any, float]], model: Any, attached: ExitStack
) -> bool:
    """Attach augmentations with their rates to a model until ``attached`` is closed.

    Return whether all augmentations in use permit packed rows.
    """
    for augmentation, rate in augmentations:
        detach = augmentation.attach(model, rate)
        if detach:
            attached.callback(detach)
    return all(
        getattr(augmentation, "packs", False) for augmentation, rate in augmentations if rate
    )


class _Loop:
    """Optimiser, losses and counters of one tuning; nothing waits for the device between two checks of the loss.

    Attributes:
        most: most tokens of a micro-batch, lowered when memory runs out.
        most_kept: most tokens whose activations are kept for back-propagation, lowered when memory runs out.
        steps: steps of the optimiser so far.
        strings: strings trained on so far, each counted once per epoch.
        tokens: tokens of both views so far, without padding.
        positions: computed positions so far, padding included.
        pending: losses since the last check, on the device.
        losses: mean loss of each ``CHECK_EVERY`` steps.
        first_loss: loss of the first step.
        epoch: the current epoch.
        done: batches done in this epoch.
        pairs: pairs done in this epoch.
        draws: state of the random generator when this epoch began.
        started: when the tuning began, as ``time.perf_counter()`` counts.
        resumed: whether the next epoch is to continue that of a checkpoint.
        learned: weights and buffers that a checkpoint holds.
    """

    def __init__(self, reader: MicroBatchReader, seed: int, started: float = 0.0) -> None:
        self.reader = reader
        self.objective = reader.objective
        self.seed = seed
        self.device = reader.transformer.device
        self.objective.train()
        self.optimizer = self.objective.optimizer()
        # Gradients are too small for fp16 alone (released code: the same scaler). Disabled, it does nothing.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=reader.precision == "fp16")
        self.most, self.most_kept = limits(self.objective)
        self.steps = 0
        self.strings = 0
        self.tokens = 0
        self.positions = 0
        self.pending: list[Tensor] = []
        self.losses: list[float] = []
        self.first_loss = 0.0
        self.epoch = 0
        self.done = 0
        self.pairs = 0
        self.draws: dict[str, Any] = {}
        self.started = started
        self.resumed = False
        self.learned: list[Tensor] = [*self.reader.weights, *self.objective.buffers]

    def begin(self, epoch: int, rng: np.random.Generator) -> None:
        """Begin an epoch, or continue that of a checkpoint with the same random numbers."""
        if self.resumed:
            rng.bit_generator.state = self.draws
            self.resumed = False
            return
        self.epoch = epoch
        self.done = 0
        self.pairs = 0
        self.draws = dict(rng.bit_generator.state)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the state for a checkpoint, or ``None`` if the objective has a state that it does not return."""
        objective_state = self.objective.state_dict()
        if objective_state is None:
            return None
        state: dict[str, Any] = {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "objective": objective_state,
        }
        for name in _SAVED_ATTRIBUTES:
            state[name] = getattr(self, name)
        state["learned"] = [value.detach() for value in self.learned]
        state["seconds"] = time.perf_counter() - self.started
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a checkpoint."""
        with torch.no_grad():
            for value, saved in zip(self.learned, state["learned"], strict=True):
                value.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.objective.load_state_dict(state["objective"])
        for name in _SAVED_ATTRIBUTES:
            setattr(self, name, state[name])
        self.pending = [loss.to(self.device) for loss in self.pending]
        self.started = time.perf_counter() - state["seconds"]
        self.resumed = True

    def step(self, pairs: TokenizedPairs) -> None:
        """Make one optimiser step on a batch of pairs."""
        self.pending.append(self.within_memory(pairs))
        # The optimiser takes no sparse gradients.
        for weight in self.reader.weights:
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.to_dense()
        # The scaler skips the step if a gradient is infinite.
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.steps += 1
        self.objective.stepped(self.optimizer, self.steps)
        self.done += 1
        self.pairs += len(pairs.labels)
        self.strings += len(pairs.labels)
        if len(self.pending) == CHECK_EVERY:
            self.check()

    def within_memory(self, pairs: TokenizedPairs) -> Tensor:
        """Return the loss by ``differentiate``, called again with lower limits each time the device runs out of memory.

        Raises:
            DeviceMemoryError: a single pair does not fit into memory.
        """
        tokens_before = self.tokens
        positions_before = self.positions
        longest = max(self.reader.pad_to, int(pairs.lengths.max()))
        while True:
            self.optimizer.zero_grad()
            try:
                return self.differentiate(pairs)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
            # Here, outside the ``except`` block, the exception no longer keeps the failed pass in memory.
            self._lower_limits(tried=self.positions - positions_before)
            # The two views of one pair are the smallest micro-batch.
            if self.most < 2 * longest:
                checkpointing = "gradient_checkpointing=true or "
                if self.objective.recipe.gradient_checkpointing:
                    checkpointing = ""
                raise DeviceMemoryError(
                    f"no memory left on {self.device} for one pair of strings",
                    f"Add {checkpointing}a smaller train_max_length to the encoder spec, or use --device cpu.",
                )
            release_memory(self.device)
            # The failed try counted its tokens and positions already.
            self.tokens = tokens_before
            self.positions = positions_before

    def _lower_limits(self, tried: int) -> None:
        """Lower ``most_kept``, or ``most`` too, after a batch of ``tried`` positions did not fit into memory."""
        if self.most < tried <= self.most_kept:
            # Several micro-batches had their activations kept. Keeping fewer of them changes no number.
            self.most_kept = tried // 2
        else:
            # Smaller micro-batches draw other dropout.
            self.most = min(self.most, tried) // 2
            self.most_kept = min(self.most_kept, self.most)

    def differentiate(self, pairs: TokenizedPairs) -> Tensor:
        """Return the loss of a batch of pairs, and add its gradients to those of the weights."""
        # A step that is repeated draws the same numbers.
        rng = np.random.default_rng((self.seed, self.steps))
        micro_batches, order = self.reader.split(pairs, self.most, rng)
        positions = sum(self.reader.count_positions(micro_batch) for micro_batch in micro_batches)
        self.tokens += len(pairs.ids.values)
        self.positions += positions

        keep_activations = positions <= self.most_kept
        vectors = self.reader.read(micro_batches, keep=keep_activations)

        # First the gradients of the loss with respect to the vectors alone: copies of them, detached from the passes
        # that computed them, are the leaves of this graph.
        leaves = [vector.detach().requires_grad_() for vector in vectors]
        torch.manual_seed(int(rng.integers(1 << 32)))
        left, right = in_order(leaves, order)
        loss = self.objective.loss(left, right, pairs, self.most)
        torch.autograd.backward(self.scaler.scale(loss))
        gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]

        # Then those of the weights, through the passes.
        if keep_activations:
            self.reader.differentiate(vectors, gradients)
            return loss.detach()
        # A batch with too many activations is computed a second time with the same dropout, one micro-batch at a time
        # (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"). The loss and
        # its gradients are the same.
        for micro_batch, gradient in zip(micro_batches, gradients, strict=True):
            # The vectors get no name: it would keep their activations while the next micro-batch is computed.
            self.reader.differentiate(self.reader.read([micro_batch]), [gradient])
        return loss.detach()

    def check(self) -> None:
        """Record the losses since the last check.

        Raises:
            TuningError: a loss is not finite.
        """
        if not self.pending:
            return
        values = torch.stack(self.pending).tolist()
        if not np.isfinite(values).all():
            first_step = self.steps - len(values) + 1
            raise TuningError(
                f"the loss is not finite within steps {first_step} to {self.steps}",
                "Try a lower lr, a higher temperature, or --precision fp32.",
            )
        if not self.losses:
            self.first_loss = values[0]
        self.losses.append(float(np.mean(values)))
        self.pending.clear()

    def report(self) -> TuningReport:
        """Return counts, times and losses so far."""
        return TuningReport(
            steps=self.steps,
            strings=self.strings,
            tokens=self.tokens,
            padding=1 - self.tokens / max(1, self.positions),
            seconds=time.perf_counter() - self.started,
            losses=tuple(self.losses),
            first_loss=self.first_loss,
        )


class Limits(NamedTuple):
    """Limits on the memory of a step, in tokens."""

    most: int
    """Most tokens of a micro-batch, at least 2."""
    most_kept: int
    """Most tokens whose activations are kept for back-propagation, at least 2."""


def limits(objective: Objective) -> Limits:
    """Return how many tokens fit into a micro-batch, and for how many the activations can be kept.

    The size of micro-batches changes dropout. To keep runs on a GPU repeatable, it depends only on the model and, on a
    GPU with little memory, on its total memory; never on the free memory. How many activations are kept changes no
    number, so on a GPU it depends on the free memory.
    """
    transformer = objective.transformer
    device = transformer.device
    micro_batch_bytes = MICRO_BATCH_BYTES[device_type(device)]
    kept_bytes = micro_batch_bytes
    if on_gpu(device):
        total, free = gpu_memory(device)
        trained_bytes = sum(_bytes_of(weight) for weight in objective.weights)
        frozen_bytes = sum(
            _bytes_of(weight)
            for weight in transformer.model.parameters()
            if not weight.requires_grad
        )
        # The total memory must hold the frozen weights once, and the trained ones four times: the weights, their
        # gradients and the optimiser's two averages. A part of the rest is left for what torch does not count, and for
        # gaps between its blocks.
        rest_of_total = total - frozen_bytes - 4 * trained_bytes
        micro_batch_bytes = min(micro_batch_bytes, rest_of_total // 2)
        # Of all these only the gradients are not allocated yet, so only they are subtracted from the free memory.
        rest_of_free = free - trained_bytes
        kept_bytes = rest_of_free * 3 // 4
    bytes_per_layer = _TOKEN_BYTES * transformer.dimensions
    bytes_per_token = bytes_per_layer * transformer.layers
    kept_bytes_per_token = bytes_per_token
    if objective.recipe.gradient_checkpointing:
        # The inputs of all layers, and the activations of the layer that is being differentiated.
        inputs = _INPUT_BYTES * transformer.dimensions * transformer.layers
        kept_bytes_per_token = bytes_per_layer + inputs
    # At least one token of each view of a pair.
    return Limits(
        most=max(2, micro_batch_bytes // bytes_per_token),
        most_kept=max(2, kept_bytes // kept_bytes_per_token),
    )


def _bytes_of(weight: Tensor) -> int:
    return weight.numel() * weight.element_size()
