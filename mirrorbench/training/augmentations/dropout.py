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
        """Set every dropout rate of the configuration, so that the model is built with it.

        Some architectures (ModernBERT) build no dropout module where the rate is 0, and read the attention's rate
        from a plain attribute: after the model is built it would be too late.
        """
        for key, value in vars(config).items():
            if "dropout" in key and isinstance(value, int | float) and not isinstance(value, bool):
                setattr(config, key, float(rate))

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Check that the model has dropout modules and give each the rate: or the views differ in another way."""
        import torch

        modules = {name: m for name, m in model.named_modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd)}
        if rate and not modules:
            raise TuningError(f"{type(model).__name__} has no dropout layers, so dropout={rate:g} cannot be applied")
        for module in modules.values():
            module.p = float(rate)
        # Modules that look like dropout but are none of torch's (older DeBERTa) would keep their own rate.
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
