"""The tuning loop: two views of each string, one loss (paper 1, section 2; paper 2, section 3).

All randomness comes from the tuning's seed. A NumPy generator draws the order of the strings and text augmentations;
dropout is seeded for each micro-batch of each step, so that a micro-batch may be computed twice and in any order. On
one machine a CPU run repeats bit for bit, also one that went on from a checkpoint.
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
from mirrorbench.models.checkpointing import checkpointed
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.augmentations import Augmentation, in_use
from mirrorbench.training.checkpoints import Checkpoint
from mirrorbench.training.cpu_functions import fast_cpu_functions
from mirrorbench.training.methods import PairFunction, PairMaker, identical_pairs
from mirrorbench.training.microbatch import MicroBatchReader, PairTokenizer, in_order
from mirrorbench.training.objective import LOSSES, LossFunction, Objective, TokenizedPairs, objective_of
from mirrorbench.training.recipes import Recipe

CHECK_EVERY = 10
"""Steps between two checks of the loss, each of which waits for the device."""
HELD_BYTES = {"cpu": 8 << 30, "mps": 4 << 30, "cuda": 16 << 30}
"""Memory for activations by device type, on a GPU for those of a micro-batch; ``limits`` has the rest."""
_TOKEN_BYTES = 105
"""Bytes of float32 activations for each token, layer and hidden dimension: 79 to 104 in BERT of several sizes (dropout
on, 20 to 64 tokens a text, a feed-forward width of four times the hidden one), up to 129 at 128 tokens; fewer in bf16.
"""
_INPUT_BYTES = 8
"""Likewise of what gradient checkpointing keeps, apart from the layer that is computed again: 4.5 in ModernBERT, 5.4 in
T5."""

ROSE = 0.5
"""Rise of the loss, in nats or as a share of it, above which a tuning did harm."""
_KEPT = ("epoch", "done", "pairs", "draws", "steps", "strings", "tokens", "positions", "pending", "losses", "most",
         "first_loss")  # fmt: skip
"""Attributes of the loop that a checkpoint keeps as they are."""


@dataclass(frozen=True, slots=True)
class TuningReport:
    """Counts, times and losses of a tuning.

    Attributes:
        strings: strings seen, each counted once per epoch (two views each).
        tokens: tokens of both views, without padding.
        padding: share of the computed positions that were padding, 0 to 1.
        seconds: wall-clock time of the loop, without loading, and without what was lost by an interruption.
        losses: mean loss of each ``CHECK_EVERY`` steps.
        first_loss: of the first step, with the weights as they came.
    """

    steps: int
    strings: int
    tokens: int
    padding: float
    seconds: float
    losses: tuple[float, ...]
    first_loss: float

    @property
    def rose(self) -> bool:
        """Whether the loss ended above that of the untuned weights by more than batches differ."""
        return self.losses[-1] > self.first_loss + ROSE * max(1.0, abs(self.first_loss))

    @property
    def cost(self) -> dict[str, float]:
        """The costs that results store: counts, the share of padding, and speeds per second."""
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
    """One epoch's batches of the indices of n strings, at least 2, in random order.

    With ``drop_last`` an incomplete last batch is skipped; otherwise the strings are spread evenly over the batches, so
    that no batch has hardly any negatives. ``together``: so many indices in a row come into the same batch.
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
    transformer: Transformer, texts: Sequence[str], recipe: Recipe, seed: int, augmentations: dict[str, Augmentation],
    protocol: str = "paper", precision: str = "fp32", advance: Callable[[int], None] = lambda n: None,
    pairs: PairFunction = identical_pairs, losses: Mapping[str, LossFunction | type[Objective]] = LOSSES,
    checkpoint: Checkpoint | None = None, saved: Mapping[str, Any] | None = None,
) -> TuningReport:  # fmt: skip
    """Tune a backbone, built with the recipe's model augmentations, in place.

    ``advance`` gets the number of strings done since its last call; where pairs are not strings, the corresponding
    share. ``saved`` is what a ``checkpoint`` of the same tuning holds: the tuning goes on from there. Fewer than two
    strings or pairs, an augmentation that cannot be applied and a loss that is not finite are a ``TuningError``.
    """
    if len(texts) < 2:
        raise TuningError(f"a corpus of {len(texts)} distinct strings cannot be tuned on", "It needs at least two.")
    masking = [name for name, rate in recipe.augment if "mask" in name and rate]
    if masking and not transformer.tokenizer.mask_token:
        raise TuningError(
            f"{transformer.path.name}'s tokenizer has no mask token, so {masking[0]} cannot be applied",
            f"Add {masking[0]}=0 to the encoder spec.",
        )
    started = time.perf_counter()
    rng, device = np.random.default_rng(seed), transformer.device
    maker = PairMaker(recipe, rng, transformer.tokenizer.mask_token or "", protocol, augmentations)
    tokenizer = PairTokenizer(transformer, maker, augmentations)
    packable = transformer.traits.packs  # tried before augmentations and the objective change the model
    with torch.random.fork_rng(devices=[device] if on_gpu(device) else []), ExitStack() as attached:
        torch.manual_seed(seed)
        if device.type == "cpu":
            attached.enter_context(fast_cpu_functions())
        on_the_model = in_use(recipe.augment, augmentations, "model")
        for augmentation, rate in on_the_model:
            if detach := augmentation.attach(transformer.model, rate):
                attached.callback(detach)
        packs = packable and all(getattr(augmentation, "packs", False) for augmentation, rate in on_the_model if rate)
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
            # All draws of an epoch are made before its first step, so skipped steps leave out none.
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


class _Loop:
    """Optimiser, loss and counters of one tuning; between two checks of the loss nothing waits for the device."""

    def __init__(self, reader: MicroBatchReader, seed: int, started: float = 0.0) -> None:
        self.reader, self.objective, self.seed = reader, reader.objective, seed
        self.device = reader.transformer.device
        self.objective.train()
        self.optimizer = self.objective.optimizer()
        # fp16 alone has gradients too small for it (released code: the same scaler); otherwise it does nothing.
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
        """An epoch begins, or the one of a checkpoint goes on: it draws the same."""
        if self.resumed:
            rng.bit_generator.state, self.resumed = self.draws, False
        else:
            self.epoch, self.done, self.pairs, self.draws = epoch, 0, 0, dict(rng.bit_generator.state)

    def state_dict(self) -> dict[str, Any] | None:
        """All that later steps depend on, for a checkpoint; ``None`` if the objective has a state that is unknown."""
        if (own := self.objective.state_dict()) is None:
            return None
        parts = {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict(), "objective": own}
        learned = [value.detach() for value in self.learned]
        seconds = time.perf_counter() - self.started
        return {**parts, **{name: getattr(self, name) for name in _KEPT}, "learned": learned, "seconds": seconds}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        with torch.no_grad():
            for value, saved in zip(self.learned, state["learned"], strict=True):
                value.copy_(saved)
        for name, part in (("optimizer", self.optimizer), ("scaler", self.scaler), ("objective", self.objective)):
            part.load_state_dict(state[name])
        for name in _KEPT:
            setattr(self, name, state[name])
        self.pending = [loss.to(self.device) for loss in self.pending]
        self.started, self.resumed = time.perf_counter() - state["seconds"], True

    def step(self, pairs: TokenizedPairs) -> None:
        """One optimiser step on a batch of pairs."""
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
        """``differentiate``, repeated while the device runs out of memory.

        At first less is kept at once, which changes no number; once a micro-batch alone is too much, smaller ones draw
        other dropout.
        """
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
            if self.most < tried <= self.held:  # several micro-batches, all kept
                self.held = tried // 2
            else:
                self.most = min(self.most, tried) // 2
                self.held = min(self.held, self.most)
            if self.most < 2 * longest:
                more = "" if self.objective.recipe.gradient_checkpointing else "gradient_checkpointing=true or "
                raise DeviceMemoryError(
                    f"no memory left on {self.device} for one pair of strings",
                    f"Add {more}a smaller train_max_length to the encoder spec, or use --device cpu.",
                )
            release_memory(self.device)
            self.tokens, self.positions = counts

    def differentiate(self, pairs: TokenizedPairs) -> Tensor:
        """The loss of a batch of pairs; its gradients are added to those of the weights.

        A batch whose activations take too much memory is computed twice: first for its vectors alone, then for the
        gradients of the weights, one micro-batch at a time (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch
        Size under Memory Limited Setup"). Both times draw the same dropout, so the loss and its gradients stay the
        same.
        """
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
        """Record the losses since the last check; ``TuningError`` if one is not finite."""
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
        """The report of the tuning."""
        padding, seconds = 1 - self.tokens / max(1, self.positions), time.perf_counter() - self.started
        losses = tuple(self.losses)
        return TuningReport(self.steps, self.strings, self.tokens, padding, seconds, losses, self.first_loss)


def limits(objective: Objective) -> tuple[int, int]:
    """Tokens of a micro-batch, and tokens whose activations are kept for back-propagation at once, each at least 2.

    How a batch is cut decides what dropout draws: on a GPU that follows from the size of the model and, if it is small,
    of the memory, so that a run repeats. What is kept, which changes no number, follows from the memory that is free.
    """
    transformer, device = objective.transformer, objective.transformer.device
    room = (HELD_BYTES[device_type(device)],) * 2
    if on_gpu(device):
        total, free = gpu_memory(device)
        weights = sum(weight.numel() * weight.element_size() for weight in objective.weights)
        # The total holds frozen weights, and weights, gradients and two averages of the others; of these the gradients
        # are not allocated yet. The rest of each is for what torch does not count, and what its blocks leave over.
        frozen = sum(w.numel() * w.element_size() for w in transformer.model.parameters() if not w.requires_grad)
        room = (min(room[0], (total - frozen - 4 * weights) // 2), (free - weights) * 3 // 4)
    layer, layers = _TOKEN_BYTES * transformer.dimensions, transformer.layers
    kept = layer * layers
    if objective.recipe.gradient_checkpointing:
        kept = layer + _INPUT_BYTES * transformer.dimensions * layers
    return max(2, room[0] // (layer * layers)), max(2, room[1] // kept)
