"""Augmentations: ways to make two different views of one string.

A *text* augmentation rewrites a string, a *token* augmentation its token ids; both change one view of each pair, or
both views under ``sides=2``. A *model* augmentation makes the network noisy, so that two passes over one text differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mirrorbench.core.errors import PluginError, UsageError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class AugmentationContext:
    """What a text or token augmentation may use.

    Attributes:
        rng: the tuning's own generator; the only permitted source of randomness.
        rate: the value from the recipe, above 0.
        mask_token: how the backbone's tokenizer writes its mask token.
        protocol: ``paper`` or ``released``.
        shortest: characters; under ``released``, shorter strings are left alone (Mirror-BERT's code: 30).
        mask_id: id of the mask token; for token augmentations.
        special_ids: ids of the tokenizer's special tokens, which are no part of the text; for token augmentations.
    """

    rng: np.random.Generator
    rate: float
    mask_token: str
    protocol: str
    shortest: int = 30
    mask_id: int = -1
    special_ids: frozenset[int] = frozenset()


class ModelAugmentation(Protocol):
    """A change of the model for the time of one tuning.

    Attributes:
        packs: whether it works on several texts end to end in one row, computed by several threads: it must not tell
            texts apart by the first axis of a tensor, and must draw with ``torch.nn.functional.dropout`` only. False by
            default: texts are padded, which takes longer.
    """

    packs: bool

    def configure(self, config: Any, rate: float) -> None:
        """Change the transformers configuration before the model is built."""

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Change, or check, the model that was built.

        Returns:
            A function that undoes the change after the tuning, or ``None`` where there is nothing to undo: no hook may
            stay in the model that is evaluated and saved.
        """


_INPUTS = ("text", "tokens", "model")
TextFunction = Callable[[str, AugmentationContext], str]
TokenFunction = Callable[[list[int], AugmentationContext], list[int]]


@dataclass(frozen=True, slots=True)
class Augmentation:
    """A registered augmentation.

    Attributes:
        name: also the key of its rate in a spec.
        function: ``(text, context) -> text`` for ``on="text"``, ``(ids, context) -> ids`` for ``on="tokens"`` (of the
            same length under the pooling ``target``), a ``ModelAugmentation`` for ``on="model"``.
        on: ``text``, ``tokens`` or ``model``.
        probability: whether the rate is a probability, which must be below 1.
    """

    name: str
    function: TextFunction | TokenFunction | ModelAugmentation
    on: str = "text"
    probability: bool = False

    def __post_init__(self) -> None:
        if self.on not in _INPUTS:
            raise PluginError(f"augmentation {self.name!r}: on={self.on!r}", f"It must be one of {', '.join(_INPUTS)}.")

    def check(self, rate: float) -> None:
        """Raise ``UsageError`` for a rate that is negative, or not below 1 where it is a probability."""
        if rate < 0 or (self.probability and rate >= 1):
            limits = "at least 0 and below 1" if self.probability else "at least 0"
            raise UsageError(f"{self.name}={rate:g} is out of range", f"It must be {limits}.")


def in_use(
    rates: Sequence[tuple[str, float]], registered: Mapping[str, Augmentation], on: str
) -> list[tuple[Any, float]]:
    """The functions and rates of the augmentations of one kind, in the order of ``rates`` (``Recipe.augment``).

    Those on the model include rate 0, which comes first: ``dropout=0`` must not undo ``controlled_dropout``.
    """
    found = [(registered[name].function, rate) for name, rate in rates if registered[name].on == on]
    return sorted(found, key=lambda pair: pair[1] > 0) if on == "model" else [pair for pair in found if pair[1] > 0]
