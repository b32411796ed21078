"""``base``: an untuned backbone with a pooling on top."""

from __future__ import annotations

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.methods import Method
from mirrorbench.training.recipes import Recipe


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Mean pooling over the last layer (paper 1, footnote 5: better than [CLS] for untuned models).

    Only pooling and layers matter, since nothing is tuned.
    """
    pooling = "mean-padded" if protocol == "released" else "mean"
    return Recipe(temperature=1.0, epochs=1, train_max_length=64, pooling=pooling)


@hookimpl
def register_methods(register: Register) -> None:
    """The method that tunes nothing."""
    register("base", Method("base", preset, tunes=False, label="{backbone}"), "the backbone as it comes")
