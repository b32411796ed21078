"""Methods: what can be done to a backbone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mirrorbench.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Method:
    """A registered method.

    Attributes:
        name: as written after ``+`` in a spec.
        preset: ``(level, architecture, protocol) -> Recipe`` with the values of the paper; ``architecture`` is the
            ``model_type`` of the backbone's configuration.
        tunes: whether the weights change. A method that does not tune reads only pooling and layers from its recipe.
        label: how the row is called, with ``{backbone}``.
    """

    name: str
    preset: Callable[[str, str, str], Recipe]
    tunes: bool = True
    label: str = "{backbone} + {method}"
