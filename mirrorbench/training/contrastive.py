"""The tuning loop: two views of each string, one contrastive loss (paper 1, section 2; paper 2, section 3).

Determinism: everything random comes from two generators seeded with the recipe's seed, NumPy's for the order of the
strings and the text augmentations, torch's for dropout. On one machine a CPU run repeats bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.augmentations import Augmentation, ModelAugmentation, TextFunction, TextView
from mirrorbench.encoding.batching import TOKEN_BUDGET, by_length
from mirrorbench.encoding.readout import Readout
from mirrorbench.encoding.transformer import Transformer, autocast
from mirrorbench.errors import TuningError
from mirrorbench.recipes import Recipe
from mirrorbench.training.losses import LOSSES
from mirrorbench.training.tokenized import TokenizedPairs, tokenized
from mirrorbench.training.views import PairMaker, Views, mirrored

CHECK_EVERY = 10
"""Steps between two looks at the loss: each look waits for the device."""


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What a tuning did.

    Attributes:
        steps: optimiser steps.
        strings: strings seen, each counted once per epoch (two views each).
        tokens: tokens of both views, without padding.
        padding: share of the positions computed that were padding, 0 to 1.
        seconds: wall-clock time of the loop, loading excluded.
        losses: mean loss of each ``CHECK_EVERY`` steps.
    """

    steps: int
    strings: int
    tokens: int
    padding: float
    seconds: float
    losses: tuple[float, ...]


def batches(n: int, size: int, drop_last: bool, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """One epoch's batches of indices in random order.

    Args:
        n: number of strings, at least 2.
        size: wanted batch size.
        drop_last: skip an incomplete last batch; otherwise the strings are spread evenly over the batches, so that
            none is lost and none sits in a batch with hardly any negatives.
        rng: generator for the order.
    """
    order = rng.permutation(n)
    if drop_last and n >= size:
        for start in range(0, n - size + 1, size):
            yield order[start : start + size]
    else:
        # An odd number of strings in batches of two: one batch of three, rather than a string without negatives.
        yield from np.array_split(order, min(-(-n // size), n // 2))


def augment_texts(
    texts: Sequence[str], recipe: Recipe, registered: dict[str, Augmentation], view: dict[str, str],
    rng: np.random.Generator,
) -> list[str]:  # fmt: skip
    """The second view of each string: all text augmentations of the recipe, in the order of their names.

    Args:
        texts: the strings.
        recipe: names the augmentations and their rates.
        registered: augmentations by name.
        view: ``mask_token`` and ``protocol`` of the ``TextView``.
        rng: generator.
    """
    result = list(texts)
    for name, rate in recipe.augment:
        augmentation = registered[name]
        if augmentation.on == "text" and rate > 0:
            context = TextView(rng=rng, rate=rate, **view)
            function = cast("TextFunction", augmentation.function)
            result = [function(text, context) for text in result]
    return result


def tune(
    transformer: Transformer,
    texts: Sequence[str],
    recipe: Recipe,
    seed: int,
    augmentations: dict[str, Augmentation],
    protocol: str = "paper",
    precision: str = "fp32",
    advance: Callable[[int], None] = lambda n: None,
    views: Views = mirrored,
) -> TuningReport:
    """Tune a backbone in place.

    Args:
        transformer: the backbone, built with the recipe's model augmentations.
        texts: the strings, duplicates already removed where the recipe says so.
        recipe: the hyper-parameters.
        seed: of order, text augmentation and dropout.
        augmentations: the registered ones, by name.
        protocol: which reading the text augmentations follow.
        precision: ``fp32``, or ``bf16`` for autocast with float32 weights.
        advance: called after each step with the number of strings done; where pairs are not strings, with their share.
        views: how the method makes pairs of the strings.

    Raises:
        TuningError: fewer than two strings or pairs, an augmentation that cannot be applied, or a loss that is not
            finite.
    """
    if len(texts) < 2:
        raise TuningError(f"a corpus of {len(texts)} distinct strings cannot be tuned on", "It needs at least two.")
    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    tokenizer = transformer.tokenizer
    _check_mask_token(transformer, recipe)
    view = {"mask_token": tokenizer.mask_token or "", "protocol": protocol}
    maker = PairMaker(
        recipe, rng, view["mask_token"], protocol, lambda some: augment_texts(some, recipe, augmentations, view, rng)
    )
    cuda = [transformer.device] if transformer.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), ExitStack() as attached:
        torch.manual_seed(seed)
        for augmentation, rate in on_model(recipe, augmentations):
            if detach := augmentation.attach(transformer.model, rate):
                attached.callback(detach)
        loop = _Loop(transformer, recipe, precision)
        for _ in range(recipe.epochs):
            pairs = tokenized(views(texts, maker), transformer, recipe, augmentations, protocol, rng)
            seen = told = 0
            for rows in batches(len(pairs.labels), recipe.batch_size, recipe.drop_last, rng):
                loop.step(pairs.take(rows))
                seen += len(rows)
                advance(seen * len(texts) // len(pairs.labels) - told)
                told = seen * len(texts) // len(pairs.labels)
        loop.check()
    transformer.model.eval()
    return loop.report(time.perf_counter() - started)


def on_model(recipe: Recipe, registered: dict[str, Augmentation]) -> list[tuple[ModelAugmentation, float]]:
    """The recipe's model augmentations and their rates, those that are switched off first.

    The order matters where two set the rates of the same layers: ``dropout=0`` must not undo ``controlled_dropout``.
    """
    chosen = [
        (cast("ModelAugmentation", registered[name].function), rate)
        for name, rate in recipe.augment
        if registered[name].on == "model"
    ]
    return sorted(chosen, key=lambda pair: pair[1] > 0)


def _check_mask_token(transformer: Transformer, recipe: Recipe) -> None:
    needing = [name for name, rate in recipe.augment if "mask" in name and rate]
    if needing and not transformer.tokenizer.mask_token:
        raise TuningError(
            f"{transformer.path.name}'s tokenizer has no mask token, so {needing[0]} cannot be applied",
            f"Add {needing[0]}=0 to the encoder spec.",
        )


class _Loop:
    """Optimiser, loss and counters of one tuning."""

    def __init__(self, transformer: Transformer, recipe: Recipe, precision: str) -> None:
        self.transformer = transformer
        self.recipe = recipe
        self.precision = precision
        self.readout = Readout(recipe.pooling, recipe.layers, recipe.train_max_length)
        self.optimizer = torch.optim.AdamW(
            transformer.model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay
        )
        self.loss = LOSSES[recipe.loss]
        self.steps = self.strings = self.tokens = self.positions = 0
        self.pending: list[torch.Tensor] = []
        self.losses: list[float] = []
        transformer.model.train()

    def step(self, pairs: TokenizedPairs) -> None:
        """One optimiser step on a batch of pairs."""
        left, right = self.embed(pairs)
        loss = self.loss(left, right, self.recipe.temperature, pairs.labels.to(left.device))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.pending.append(loss.detach())
        self.steps += 1
        self.strings += len(pairs.labels)
        if len(self.pending) == CHECK_EVERY:
            self.check()

    def embed(self, pairs: TokenizedPairs) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors of both views in the order of the pairs, shape (pairs, dimensions) each.

        They are computed in batches of pairs of similar length. The loss sees all of them at once, so the batches
        change the speed and nothing else. The two views of a pair are always in one batch, the first views in its
        first half and the second views in the same order in its second half: controlled dropout relies on that.
        """
        fixed = self.recipe.train_max_length if self.recipe.pooling == "mean-padded" else 0
        budget = TOKEN_BUDGET[self.transformer.device.type] // 2
        order: list[int] = []
        firsts: list[torch.Tensor] = []
        seconds: list[torch.Tensor] = []
        for rows in by_length(pairs.lengths, budget, fixed):
            ids, targets = pairs.take(rows).stacked()
            with autocast(self.transformer.device, self.precision):
                vectors = self.transformer.forward(ids, [self.readout], fixed, targets)[0]
            firsts.append(vectors[: len(rows)])
            seconds.append(vectors[len(rows) :])
            order += rows
            self.tokens += sum(map(len, ids))
            self.positions += len(ids) * max(fixed, max(map(len, ids)))
        back = torch.tensor(order).argsort().to(self.transformer.device)
        return torch.cat(firsts)[back], torch.cat(seconds)[back]

    def check(self) -> None:
        """Look at the losses since the last look.

        Raises:
            TuningError: one is not finite.
        """
        if not self.pending:
            return
        values = torch.stack(self.pending).tolist()
        if not np.isfinite(values).all():
            raise TuningError(
                f"the loss is not finite within steps {self.steps - len(values) + 1} to {self.steps}",
                "Try a lower lr, a higher temperature, or --precision fp32.",
            )
        self.losses.append(float(np.mean(values)))
        self.pending.clear()

    def report(self, seconds: float) -> TuningReport:
        """What was done."""
        padding = 1 - self.tokens / max(1, self.positions)
        return TuningReport(self.steps, self.strings, self.tokens, padding, seconds, tuple(self.losses))
