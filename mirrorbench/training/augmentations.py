"""Augmentations, which make two different views of one string (Mirror-BERT, sections 2.2 and 4.4, footnote 13).

A *text* augmentation rewrites a string, a *token* augmentation its token ids; both change one view of each pair, or
both views under ``sides=2``. A *model* augmentation makes the network noisy, so that two passes over one text differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mirrorbench.core.errors import PluginError, TuningError, UsageError
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.quoting import shown
from mirrorbench.models.families import set_rates
from mirrorbench.training.drophead import Drophead

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class AugmentationContext:
    """Random numbers, settings and special tokens for an augmentation."""

    rng: np.random.Generator
    """The tuning's generator, the only permitted source of randomness."""
    rate: float
    """The value in the recipe, above 0: a probability, or a number of characters or places."""
    mask_token: str
    """The backbone's mask token as text."""
    protocol: str
    """``paper`` or ``released``."""
    shortest: int = 30
    """Characters; under ``released``, shorter strings are not changed (Mirror-BERT's code: 30)."""
    mask_id: int = -1
    """Id of the mask token, for token augmentations."""
    special_ids: frozenset[int] = frozenset()
    """Ids of the tokenizer's special tokens, for token augmentations."""


class ModelAugmentation(Protocol):
    """The interface of an augmentation that changes the model during one tuning."""

    packs: bool
    """Whether it works on packed rows of several texts, in several threads: it must not distinguish texts by the first
    axis of a tensor, and must draw by ``torch.nn.functional.dropout`` alone. By default texts are padded, which is
    slower.
    """

    def configure(self, config: Any, rate: float) -> None:
        """Change the transformers configuration before the model is built."""

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Change or check the model, and return a function that undoes the change, or ``None`` without a change.

        No hook may remain in the model that is evaluated and saved.
        """


_INPUTS = ("text", "tokens", "model")
TextFunction = Callable[[str, AugmentationContext], str]
TokenFunction = Callable[[list[int], AugmentationContext], list[int]]


@dataclass(frozen=True, slots=True)
class Augmentation:
    """A registered augmentation."""

    name: str
    """Key of its rate in a spec."""
    function: TextFunction | TokenFunction | ModelAugmentation
    """``(text, context) -> text`` for ``on="text"``, ``(ids, context) -> ids`` for ``on="tokens"`` (of the same length
    under the pooling ``target``), a ``ModelAugmentation`` for ``on="model"``."""
    on: str = "text"
    """``text``, ``tokens`` or ``model``."""
    probability: bool = False
    """Whether the rate is a probability, which must be below 1."""

    def __post_init__(self) -> None:
        if self.on not in _INPUTS:
            raise PluginError(
                f"augmentation {self.name!r}: on={self.on!r}",
                f"It must be one of {', '.join(_INPUTS)}.",
            )

    def apply(self, value: Any, context: AugmentationContext) -> Any:
        """Return a text or token ids after the augmentation.

        Raises:
            PluginError: it returned something else.
        """
        changed = self.function(value, context)  # type: ignore[operator]
        if self.on == "text":
            wanted = "a text"
            right = isinstance(changed, str)
        else:
            wanted = "a list of token ids"
            right = isinstance(changed, list) and len(changed) > 0
            right = right and all(isinstance(number, Integral) for number in changed)
        if not right:
            named = f"the augmentation {self.name!r}{defined_at(self.function)}"
            raise PluginError(
                f"{named} returned {shown(repr(changed))}, not {wanted}",
                "Let its function return what it made.",
            )
        return changed

    def check(self, rate: float) -> None:
        """Raise a ``UsageError`` for a negative rate, or a probability of 1 or more."""
        if rate < 0 or (self.probability and rate >= 1):
            limits = "at least 0 and below 1" if self.probability else "at least 0"
            raise UsageError(f"{self.name}={rate:g} is out of range", f"It must be {limits}.")


def in_use(
    rates: Sequence[tuple[str, float]], registered: Mapping[str, Augmentation], on: str
) -> list[tuple[Any, float]]:
    """Return the functions and rates of the augmentations on one input, in the order of ``rates`` (``Recipe.augment``).

    For ``model``, functions of rate 0 are included and come first: ``dropout=0`` must not undo ``controlled_dropout``.
    """
    chosen = [(registered[name], rate) for name, rate in rates if registered[name].on == on]
    pairs = [(own.function if on == "model" else own.apply, rate) for own, rate in chosen]
    return (
        sorted(pairs, key=lambda pair: pair[1] > 0)
        if on == "model"
        else [pair for pair in pairs if pair[1] > 0]
    )


def span_mask(text: str, context: AugmentationContext) -> str:
    """Replace ``context.rate`` (k) consecutive characters by the mask token and spaces around it (Figure 2).

    Strings of at most k characters are not changed. ``paper``: every position is equally likely. ``released``: the
    literal ``[MASK]`` whatever the tokenizer, strings of fewer than ``context.shortest`` characters not changed, the
    last position never drawn, and the cut made at the first occurrence of the drawn characters.
    """
    k = int(context.rate)
    if k != context.rate:
        raise UsageError(f"span_mask={context.rate:g} is not a whole number of characters")
    if len(text) <= k:
        return text
    if context.protocol == "released":
        if len(text) < context.shortest:
            return text
        drawn = int(context.rng.integers(len(text) - k))
        start = text.index(text[drawn : drawn + k])
        token = "[MASK]"
    else:
        start = int(context.rng.integers(len(text) - k + 1))
        token = context.mask_token
    return f"{text[:start]} {token} {text[start + k :]}".strip()


def word_shuffle(text: str, context: AugmentationContext) -> str:
    """Reorder the words at random; none moves further than ``context.rate`` (k) places.

    Paper 1 (footnote 13) does not define its reordering. This is the word noise of Lample et al. (2018, "Unsupervised
    Machine Translation Using Monolingual Corpora Only", section 2.3): words, separated by spaces, are sorted by their
    position plus a number drawn uniformly from [0, k + 1).
    """
    k = int(context.rate)
    if k != context.rate:
        raise UsageError(f"word_shuffle={context.rate:g} is not a whole number of places")
    words = text.split()
    order = np.argsort(
        np.arange(len(words)) + context.rng.random(len(words)) * (k + 1), kind="stable"
    )
    return " ".join(words[index] for index in order)


def token_mask(ids: list[int], context: AugmentationContext) -> list[int]:
    """Replace each token by the mask token with probability ``context.rate``; special tokens stay (footnote 13).

    If all tokens of the text would be replaced, none is.
    """
    indices = [i for i, token in enumerate(ids) if token not in context.special_ids]
    drawn = [
        i
        for i, draw in zip(indices, context.rng.random(len(indices)), strict=True)
        if draw < context.rate
    ]
    if len(drawn) == len(indices):
        return ids
    masked = list(ids)
    for i in drawn:
        masked[i] = context.mask_id
    return masked


def word_mask(text: str, context: AugmentationContext) -> str:
    """Replace each word by one mask token with probability ``context.rate`` (footnote 13).

    Words are separated by spaces. If all words would be replaced, none is, so single words stay as they are.
    """
    words = text.split()
    drawn = context.rng.random(len(words)) < context.rate
    if drawn.all():
        return text
    return " ".join(
        context.mask_token if masked else word for word, masked in zip(words, drawn, strict=True)
    )


class Dropout:
    """One rate in every dropout of the model: embeddings, attention, hidden states (paper 1, section 2.2)."""

    packs = True

    def configure(self, config: Any, rate: float) -> None:
        """Set every dropout rate of the configuration; ModernBERT builds no dropout module for a rate of 0."""
        set_rates(config, rate)

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Set the rate of every dropout module; none, or one without a rate, raises a ``TuningError``."""
        from torch.nn.modules.dropout import _DropoutNd

        # Newer models read the rate from their configuration.
        if (
            rate
            and not any(isinstance(module, _DropoutNd) for module in model.modules())
            and not _drops(model)
        ):
            raise TuningError(
                f"{type(model).__name__} has no dropout, so dropout={rate:g} cannot be applied",
                "Write dropout=0 and another augmentation: word_shuffle=3.",
            )
        for name, module in model.named_modules():
            if isinstance(module, _DropoutNd):
                module.p = float(rate)
            # Dropout classes other than torch's (older DeBERTa) would keep their own rate; SqueezeBERT's holds torch's.
            elif "dropout" in type(module).__name__.lower() and not any(
                isinstance(part, _DropoutNd) for part in module.modules()
            ):
                raise TuningError(
                    f"{type(model).__name__} has a dropout of its own kind at {name} ({type(module).__name__}); "
                    f"its rate cannot be set to {rate:g}"
                )
        return None


def _drops(model: Any) -> bool:
    """Return whether two passes in training mode differ."""
    import torch

    if not hasattr(model, "config"):
        return False
    device = next(model.parameters()).device
    ids = torch.arange(1, 9, device=device)[None]
    halves = {weight.dtype for weight in model.parameters()} - {
        torch.float32
    }  # a frozen backbone's
    half = halves.pop() if halves else None
    with (
        torch.no_grad(),
        torch.random.fork_rng(),
        torch.autocast(device.type, half, enabled=half is not None),
    ):
        model.train()
        first, second = (model(input_ids=ids).last_hidden_state for _ in range(2))
    return not torch.equal(first, second)


class ControlledDropout(Dropout):
    """Dropout with the same masks for both views of a pair (paper 1, section 4.4, Table 8 and Figure 6).

    It keeps dropout's regularisation without its augmentation: for identical strings f(x) = f(x-bar), in training mode.
    Masks are drawn for the first views, the first half of a micro-batch, and used again for the second half. Replaced
    functions of torch make it work for layers, functions and fused attention of all architectures.
    """

    packs = False

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Set the rates, and share the masks in this thread until it is undone."""
        if not rate:
            return None
        from torch.nn import functional as F  # noqa: N812  (torch's own convention)

        from mirrorbench.models.batching import ReplacedFunctions

        super().attach(model, rate)
        stack = ExitStack()
        stack.enter_context(
            ReplacedFunctions({F.dropout: _dropout, F.scaled_dot_product_attention: _attention})
        )
        return stack.close


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    from torch.nn import functional as F  # noqa: N812

    # States shared by all rows (DeBERTa's relative positions) have no batch axis, and one mask already.
    if not training or p == 0 or x.dim() < 3 or len(x) % 2:
        return F.dropout(x, p, training, inplace)
    mask = F.dropout(x.new_ones(len(x) // 2, *x.shape[1:]), p)
    return x * mask.repeat(2, *[1] * (x.dim() - 1))


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **options: Any,
) -> Tensor:
    from torch.nn import functional as F  # noqa: N812

    from mirrorbench.training.cpu_functions import plain_attention

    if dropout_p == 0:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, 0.0, is_causal, scale=scale, **options
        )
    if is_causal or options.get("enable_gqa"):
        raise TuningError(
            "controlled_dropout knows the attention of encoders only, and this model's is causal or grouped",
            "Take it out of the encoder spec.",
        )
    return plain_attention(
        query, key, value, attn_mask, scale, lambda weights: _dropout(weights, dropout_p)
    )


@hookimpl
def register_augmentations(register: Register) -> None:
    """Register the augmentations of this module, under their spec keys."""
    register(
        "span_mask",
        span_mask,
        on="text",
        description="k consecutive characters become the mask token",
    )
    register("word_shuffle", word_shuffle, on="text", description="words move by at most k places")
    shared = "dropout with the same masks for both views of a pair; takes the place of dropout"
    for name, augmentation, description in (
        ("dropout", Dropout(), "rate of every dropout layer of the model"),
        ("controlled_dropout", ControlledDropout(), shared),
    ):
        register(name, augmentation, on="model", probability=True, description=description)
    for name, function, on, description in (
        ("token_mask", token_mask, "tokens", "probability that a token is masked"),
        ("word_mask", word_mask, "text", "probability that a word is masked"),
        ("drophead", Drophead(), "model", "probability that an attention head is zeroed"),
    ):
        register(name, function, on=on, probability=True, description=description)
