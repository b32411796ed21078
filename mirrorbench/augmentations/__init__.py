"""Augmentations: ways to make two different views of one string. Each lives in a file of its own.

Two kinds exist. A *text* augmentation rewrites one side of a pair; a *model* augmentation makes the network noisy, so
that two passes over one text differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mirrorbench.errors import PluginError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class TextView:
    """What a text augmentation may use.

    Attributes:
        rng: the tuning's own generator; the only permitted source of randomness.
        rate: the value from the recipe, above 0.
        mask_token: how the backbone's tokenizer writes its mask token.
        protocol: ``paper`` or ``released``.
    """

    rng: np.random.Generator
    rate: float
    mask_token: str
    protocol: str


class ModelAugmentation(Protocol):
    """What a model augmentation does; called once for each tuning."""

    def configure(self, config: Any, rate: float) -> None:
        """Change the transformers configuration before the model is built."""

    def attach(self, model: Any, rate: float) -> None:
        """Change, or check, the model that was built."""


@dataclass(frozen=True, slots=True)
class Augmentation:
    """A registered augmentation.

    Attributes:
        name: also the key of its rate in a spec.
        function: ``(text, view) -> text`` for ``on="text"``, a ``ModelAugmentation`` for ``on="model"``.
        on: ``text`` or ``model``.
    """

    name: str
    function: Callable[[str, TextView], str] | ModelAugmentation
    on: str = "text"

    def __post_init__(self) -> None:
        if self.on not in ("text", "model"):
            raise PluginError(f"augmentation {self.name!r}: on={self.on!r}", "It must be 'text' or 'model'.")
