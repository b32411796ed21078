"""Methods: what can be done to a backbone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mirrorbench.training.pairs import PairFunction, identical_pairs
from mirrorbench.training.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Method:
    """A registered method.

    Attributes:
        name: as written after ``+`` in a spec.
        preset: ``(level, architecture, protocol) -> Recipe`` with the values of the paper; ``architecture`` is the
            ``model_type`` of the backbone's configuration.
        tunes: whether the weights change. A method that does not tune reads only pooling and layers from its recipe.
        label: how the row is called, with ``{backbone}``.
        pairs: ``(texts, maker) -> Pairs``, how it makes an epoch's pairs from the corpus; each string with itself
            unless the method says otherwise.
        levels: where the method reads the recipe and the corpus of another level than that of the task: Mirror
            encodes the whole sentence for words in context.
    """

    name: str
    preset: Callable[[str, str, str], Recipe]
    tunes: bool = True
    label: str = "{backbone} + {method}"
    pairs: PairFunction = identical_pairs
    levels: Mapping[str, str] = field(default_factory=dict)
