"""Dropout as an augmentation (paper 1, section 2.2): two passes over one text differ by their dropout masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrorbench.core.errors import TuningError
from mirrorbench.core.hooks import Register, hookimpl


class Dropout:
    """Sets one rate in every dropout of the model: embeddings, attention probabilities, hidden states."""

    packs = True

    def configure(self, config: Any, rate: float) -> None:
        """Set every dropout rate of the configuration before the model is built.

        Some architectures (ModernBERT) build no dropout module for a rate of 0, and read the attention's rate from a
        plain attribute.
        """
        for key, value in vars(config).items():
            if "dropout" in key and isinstance(value, int | float) and not isinstance(value, bool):
                setattr(config, key, float(rate))

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Set the rate of every dropout module; it is an error if there are none, or some whose rate cannot be set."""
        import torch

        modules = {name: m for name, m in model.named_modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd)}
        if rate and not modules:
            raise TuningError(f"{type(model).__name__} has no dropout layers, so dropout={rate:g} cannot be applied")
        for module in modules.values():
            module.p = float(rate)
        # Dropout classes that are none of torch's (older DeBERTa) would keep their own rate.
        for name, module in model.named_modules():
            if "dropout" in type(module).__name__.lower() and name not in modules:
                raise TuningError(
                    f"{type(model).__name__} has a dropout of its own kind at {name} ({type(module).__name__}); "
                    f"its rate cannot be set to {rate:g}"
                )
        return None


@hookimpl
def register_augmentations(register: Register) -> None:
    """Dropout, under its spec key."""
    register("dropout", Dropout(), on="model", probability=True, description="rate of every dropout layer of the model")
