"""The tuning loop: two views of each string, one contrastive loss (paper 1, section 2; paper 2, section 3).

Determinism: everything random comes from two generators seeded with the recipe's seed, NumPy's for the order of the
strings and the text augmentations, torch's for dropout. On one machine a CPU run repeats bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.augmentations import Augmentation, TextView
from mirrorbench.encoding.batching import TOKEN_BUDGET, by_length
from mirrorbench.encoding.readout import Readout
from mirrorbench.encoding.transformer import Transformer, autocast
from mirrorbench.errors import TuningError
from mirrorbench.recipes import Recipe
from mirrorbench.registry import unknown_name
from mirrorbench.training.losses import LOSSES

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
        yield from np.array_split(order, -(-n // size))


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
            result = [augmentation.function(text, context) for text in result]  # type: ignore[operator]
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
        advance: called with the number of strings done after each step.

    Raises:
        TuningError: fewer than two strings, or a loss that is not finite.
    """
    if len(texts) < 2:
        raise TuningError(f"a corpus of {len(texts)} distinct strings cannot be tuned on", "It needs at least two.")
    if recipe.loss not in LOSSES:
        raise unknown_name("loss", recipe.loss, list(LOSSES))
    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    tokenizer = transformer.tokenizer
    view = {"mask_token": tokenizer.mask_token or "", "protocol": protocol}
    if recipe.rate("span_mask") and not view["mask_token"]:
        raise TuningError(
            f"{transformer.path.name}'s tokenizer has no mask token, so span_mask cannot be applied",
            "Add span_mask=0 to the encoder spec.",
        )
    cuda = [transformer.device] if transformer.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed)
        loop = _Loop(transformer, recipe, precision)
        left = transformer.tokenize(texts, recipe.train_max_length)
        for _ in range(recipe.epochs):
            changed = augment_texts(texts, recipe, augmentations, view, rng)
            right = transformer.tokenize(changed, recipe.train_max_length)
            for rows in batches(len(texts), recipe.batch_size, recipe.drop_last, rng):
                loop.step([left[i] for i in rows], [right[i] for i in rows])
                advance(len(rows))
        loop.check()
    transformer.model.eval()
    return loop.report(time.perf_counter() - started)


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

    def step(self, left: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> None:
        """One optimiser step on the token ids of both views."""
        n = len(left)
        vectors = self.embed([*left, *right])
        loss = self.loss(vectors[:n], vectors[n:], self.recipe.temperature)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.pending.append(loss.detach())
        self.steps += 1
        self.strings += n
        if len(self.pending) == CHECK_EVERY:
            self.check()

    def embed(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """Vectors of token ids in their order, shape (len(ids), dimensions), computed in batches of similar length.

        The loss sees all of them at once, so the batches change the speed and nothing else.
        """
        fixed = self.recipe.train_max_length if self.recipe.pooling == "mean-padded" else 0
        order: list[int] = []
        parts: list[torch.Tensor] = []
        budget = TOKEN_BUDGET[self.transformer.device.type]
        for rows in by_length([len(i) for i in ids], budget, fixed):
            batch = [ids[row] for row in rows]
            with autocast(self.transformer.device, self.precision):
                parts += self.transformer.forward(batch, [self.readout], pad_to=fixed)
            order += rows
            self.tokens += sum(map(len, batch))
            self.positions += len(batch) * max(fixed, max(map(len, batch)))
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[back.to(self.transformer.device)]

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
