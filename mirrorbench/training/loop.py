"""The tuning loop: two views of each string, one loss (paper 1, section 2; paper 2, section 3).

All randomness comes from the tuning's seed. A NumPy generator draws the order of the strings and text augmentations;
dropout is seeded for each micro-batch of each step, so that a micro-batch may be computed twice and in any order. On
one machine a CPU run repeats bit for bit, with or without an interruption.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mirrorbench.core.devices import device_type, gpu_memory, on_gpu, out_of_memory, release_memory
from mirrorbench.core.errors import DeviceMemoryError, TuningError
from mirrorbench.models.gradient_checkpointing import checkpointed
from mirrorbench.models.transformer import Transformer
from mirrorbench.models.transformer_encoder import TEXTS_PER_CHUNK
from mirrorbench.training.augmentations import Augmentation, in_use
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
HELD_BYTES = {"cpu": 8 << 30, "mps": 4 << 30, "cuda": 16 << 30}
"""Memory for activations by device type; on a GPU for those of a micro-batch: see ``limits``."""
_TOKEN_BYTES = 105
"""Bytes of float32 activations for each token, layer and hidden dimension: 79 to 104 in BERT of several sizes (dropout
on, 20 to 64 tokens a text, a feed-forward width of four times the hidden one), up to 129 at 128 tokens; fewer in bf16.
"""
_INPUT_BYTES = 8
"""Bytes of a layer's input, which gradient checkpointing keeps: 4.5 in ModernBERT, 5.4 in T5."""

ROSE = 0.5
"""Rise of the loss, in nats or relative to it, above which a tuning did harm."""
_KEPT = (
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
"""Attributes of the loop in a checkpoint."""


@dataclass(frozen=True, slots=True)
class TuningReport:
    """Counts, times and losses of a tuning."""

    steps: int
    strings: int
    """Strings, each counted once per epoch (two views each)."""
    tokens: int
    """Tokens of both views, without padding."""
    padding: float
    """Share of padding in the computed positions, 0 to 1."""
    seconds: float
    """Wall-clock time of the loop, without loading and work lost by an interruption."""
    losses: tuple[float, ...]
    """Mean loss of each ``CHECK_EVERY`` steps."""
    first_loss: float
    """Loss of the first step, with the untuned weights."""

    @property
    def rose(self) -> bool:
        """Whether the loss ended above that of the untuned weights by more than ``ROSE``."""
        return self.losses[-1] > self.first_loss + ROSE * max(1.0, abs(self.first_loss))

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

    With ``drop_last`` an incomplete last batch is skipped; otherwise the strings are spread evenly over the batches, so
    that none has few negatives. ``together``: number of successive indices in the same batch.
    """
    order = rng.permutation(n // together)[:, None] * together + np.arange(together)
    n, size = len(order), max(1, size // together)
    if drop_last and n >= size:
        for start in range(0, n - size + 1, size):
            yield order[start : start + size].ravel()
    else:
        # An odd number of strings in batches of two: one batch of three, rather than a string without negatives.
        most = n // 2 if together == 1 else n
        yield from (rows.ravel() for rows in np.array_split(order, min(-(-n // size), most)))


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
    """Tune a backbone, built with the recipe's model augmentations, in place.

    ``advance`` gets the number of strings done since its last call, or the corresponding share of pairs. ``saved``: the
    state in a ``checkpoint`` of the same tuning, from which it resumes.

    Raises:
        TuningError: fewer than two strings or pairs, an inapplicable augmentation, or a loss that is not finite.
    """
    _check_tunable(transformer, texts, recipe)
    started = time.perf_counter()
    rng, device = np.random.default_rng(seed), transformer.device
    mask = transformer.tokenizer.mask_token or ""
    maker = PairMaker(recipe, rng, mask, protocol, augmentations, transformer.can_read)
    tokenizer = PairTokenizer(transformer, maker, augmentations)
    packable = (
        transformer.traits.packs
    )  # measured before augmentations and the objective change the model
    with torch.random.fork_rng(devices=[device] if on_gpu(device) else []), ExitStack() as attached:
        torch.manual_seed(seed)
        if device.type == "cpu":
            attached.enter_context(fast_cpu_functions())
        packs = (
            _attach(in_use(recipe.augment, augmentations, "model"), transformer.model, attached)
            and packable
        )
        objective = objective_of(losses[recipe.loss], transformer, recipe)
        reader = MicroBatchReader(objective, precision, packs)
        if recipe.gradient_checkpointing:
            attached.enter_context(checkpointed(transformer.model, reader.parallel))
        loop = _Loop(reader, seed, started)
        if saved:
            loop.load_state_dict(saved)
        if checkpoint:
            checkpoint.begin("loop", loop, sum(value.nbytes for value in loop.learned) * 3)
        for epoch in range(loop.epoch, recipe.epochs):
            loop.begin(epoch, rng)
            made = pairs(texts, maker)
            n = len(made.left)
            order = batches(n, recipe.batch_size, recipe.drop_last, rng, made.together)
            # All draws of an epoch are made before its first step, so a resumed epoch makes them all.
            for batch in tokenizer.batches(made, islice(order, loop.done, None)):
                before = loop.pairs
                loop.step(batch)
                advance(loop.pairs * len(texts) // n - before * len(texts) // n)
                if checkpoint:
                    checkpoint.save_when_due()
        loop.check()
    transformer.model.eval()
    release_memory(device)
    return loop.report()


def _check_tunable(transformer: Transformer, texts: Sequence[str], recipe: Recipe) -> None:
    if len(texts) < 2:
        raise TuningError(
            f"a corpus of {len(texts)} distinct strings cannot be tuned on",
            "It needs at least two.",
        )
    masking = [name for name, rate in recipe.augment if "mask" in name and rate]
    if not masking:
        return
    tokenizer, name = transformer.tokenizer, transformer.path.name
    problem = ""
    if not tokenizer.mask_token:
        problem = f"{name}'s tokenizer has no mask token"
    elif tokenizer.mask_token_id in transformer.missing_embeddings.names:
        problem = f"{name} has no embedding of its tokenizer's mask token {tokenizer.mask_token}"
    if problem:
        raise TuningError(
            f"{problem}, so {masking[0]} cannot be applied",
            f"Add {masking[0]}=0 to the encoder spec.",
        )


def check_strings(transformer: Transformer, strings: Sequence[str], max_length: int) -> None:
    """Raise an ``UnreadableTextError`` for the first string with a token that the model cannot read.

    The texts of a pair are joined by a tab in ``strings``.
    """
    texts = [text for string in strings for text in string.split("\t")]
    for start in range(0, len(texts), TEXTS_PER_CHUNK):
        transformer.tokenize(texts[start : start + TEXTS_PER_CHUNK], max_length)


def _attach(augmentations: Sequence[tuple[Any, float]], model: Any, attached: ExitStack) -> bool:
    """Attach augmentations with their rates to a model, and return whether all in use permit packed rows."""
    for augmentation, rate in augmentations:
        if detach := augmentation.attach(model, rate):
            attached.callback(detach)
    return all(
        getattr(augmentation, "packs", False) for augmentation, rate in augmentations if rate
    )


class _Loop:
    """Optimiser, loss and counters of one tuning; nothing waits for the device between two checks of the loss."""

    def __init__(self, reader: MicroBatchReader, seed: int, started: float = 0.0) -> None:
        self.reader, self.objective, self.seed = reader, reader.objective, seed
        self.device = reader.transformer.device
        self.objective.train()
        self.optimizer = self.objective.optimizer()
        # Gradients are too small for fp16 alone (released code: the same scaler); otherwise it does nothing.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=reader.precision == "fp16")
        self.most, self.held = limits(self.objective)
        self.steps = self.strings = self.tokens = self.positions = 0
        self.pending: list[Tensor] = []
        self.losses: list[float] = []
        self.epoch = self.done = self.pairs = 0
        self.first_loss = 0.0
        self.draws: dict[str, Any] = {}  # the state of the generator when the epoch began
        self.started, self.resumed = started, False
        self.learned: list[Tensor] = [*self.reader.weights, *self.objective.buffers]

    def begin(self, epoch: int, rng: np.random.Generator) -> None:
        """Begin an epoch, or resume a checkpoint's with the same random numbers."""
        if self.resumed:
            rng.bit_generator.state, self.resumed = self.draws, False
        else:
            self.epoch, self.done, self.pairs, self.draws = (
                epoch,
                0,
                0,
                dict(rng.bit_generator.state),
            )

    def state_dict(self) -> dict[str, Any] | None:
        """Return the state for a checkpoint, or ``None`` if the objective's is unknown."""
        if (own := self.objective.state_dict()) is None:
            return None
        parts = {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "objective": own,
        }
        learned = [value.detach() for value in self.learned]
        seconds = time.perf_counter() - self.started
        return {
            **parts,
            **{name: getattr(self, name) for name in _KEPT},
            "learned": learned,
            "seconds": seconds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a checkpoint."""
        with torch.no_grad():
            for value, saved in zip(self.learned, state["learned"], strict=True):
                value.copy_(saved)
        for name, part in (
            ("optimizer", self.optimizer),
            ("scaler", self.scaler),
            ("objective", self.objective),
        ):
            part.load_state_dict(state[name])
        for name in _KEPT:
            setattr(self, name, state[name])
        self.pending = [loss.to(self.device) for loss in self.pending]
        self.started, self.resumed = time.perf_counter() - state["seconds"], True

    def step(self, pairs: TokenizedPairs) -> None:
        """Make one optimiser step on a batch of pairs."""
        self.pending.append(self.within_memory(pairs))
        for weight in self.reader.weights:
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.to_dense()
        self.scaler.step(self.optimizer)  # left out where a gradient is infinite
        self.scaler.update()
        self.steps += 1
        self.objective.stepped(self.optimizer, self.steps)
        self.done += 1
        self.pairs += len(pairs.labels)
        self.strings += len(pairs.labels)
        if len(self.pending) == CHECK_EVERY:
            self.check()

    def within_memory(self, pairs: TokenizedPairs) -> Tensor:
        """Repeat ``differentiate`` with lower limits while the device runs out of memory."""
        counts = self.tokens, self.positions
        longest = max(self.reader.fixed, int(pairs.lengths.max()))
        while True:
            self.optimizer.zero_grad()
            try:
                return self.differentiate(pairs)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
            tried = self.positions - counts[1]
            if (
                self.most < tried <= self.held
            ):  # several micro-batches, all kept: fewer kept change no number
                self.held = tried // 2
            else:  # smaller micro-batches draw other dropout
                self.most = min(self.most, tried) // 2
                self.held = min(self.held, self.most)
            if self.most < 2 * longest:
                more = (
                    ""
                    if self.objective.recipe.gradient_checkpointing
                    else "gradient_checkpointing=true or "
                )
                raise DeviceMemoryError(
                    f"no memory left on {self.device} for one pair of strings",
                    f"Add {more}a smaller train_max_length to the encoder spec, or use --device cpu.",
                )
            release_memory(self.device)
            self.tokens, self.positions = counts

    def differentiate(self, pairs: TokenizedPairs) -> Tensor:
        """Return the loss of a batch of pairs, and add its gradients to those of the weights."""
        # A batch with too many activations is computed twice with the same dropout: for its vectors and for gradients,
        # one micro-batch at a time (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
        # Setup"). The loss and its gradients are the same.
        draws = np.random.default_rng((self.seed, self.steps))  # the same when the step is repeated
        parts, order = self.reader.split(pairs, self.most, draws)
        computed = [self.reader.positions(part) for part in parts]
        self.tokens += len(pairs.ids.values)
        self.positions += sum(computed)
        whole = sum(computed) <= self.held
        vectors = self.reader.read(parts, keep=whole)
        leaves = [vector.detach().requires_grad_() for vector in vectors]
        torch.manual_seed(int(draws.integers(1 << 32)))
        loss = self.objective.loss(*in_order(leaves, order), pairs, self.most)
        torch.autograd.backward(self.scaler.scale(loss))
        gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
        if whole:
            self.reader.differentiate(vectors, gradients)
        else:
            for part, gradient in zip(parts, gradients, strict=True):
                self.reader.differentiate(self.reader.read([part]), [gradient])
        return loss.detach()

    def check(self) -> None:
        """Record the losses since the last check; one that is not finite raises a ``TuningError``."""
        if not self.pending:
            return
        values = torch.stack(self.pending).tolist()
        if not np.isfinite(values).all():
            raise TuningError(
                f"the loss is not finite within steps {self.steps - len(values) + 1} to {self.steps}",
                "Try a lower lr, a higher temperature, or --precision fp32.",
            )
        if not self.losses:
            self.first_loss = values[0]
        self.losses.append(float(np.mean(values)))
        self.pending.clear()

    def report(self) -> TuningReport:
        padding, seconds = (
            1 - self.tokens / max(1, self.positions),
            time.perf_counter() - self.started,
        )
        losses = tuple(self.losses)
        return TuningReport(
            self.steps, self.strings, self.tokens, padding, seconds, losses, self.first_loss
        )


def limits(objective: Objective) -> tuple[int, int]:
    """Return the most tokens of a micro-batch, and of all activations kept for back-propagation, each at least 2.

    The size of micro-batches changes dropout: on a GPU it depends on the model and, if that is small, on the total
    memory, so that a run repeats. The kept activations, which change no number, depend on the free memory.
    """
    transformer, device = objective.transformer, objective.transformer.device
    room = (HELD_BYTES[device_type(device)],) * 2
    if on_gpu(device):
        total, free = gpu_memory(device)
        weights = sum(weight.numel() * weight.element_size() for weight in objective.weights)
        # The total holds frozen weights, and weights, gradients and two averages of the others; gradients are not
        # allocated yet. The rest of each is for memory that torch does not count, and gaps between its blocks.
        frozen = sum(
            w.numel() * w.element_size()
            for w in transformer.model.parameters()
            if not w.requires_grad
        )
        room = (min(room[0], (total - frozen - 4 * weights) // 2), (free - weights) * 3 // 4)
    layer, layers = _TOKEN_BYTES * transformer.dimensions, transformer.layers
    kept = layer * layers
    if objective.recipe.gradient_checkpointing:
        kept = layer + _INPUT_BYTES * transformer.dimensions * layers
    return max(2, room[0] // (layer * layers)), max(2, room[1] // kept)
