"""Methods: how an encoder is made of a backbone. One module each."""

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
        label: the row's name in tables, with ``{backbone}`` and ``{method}``.
        pairs: ``(texts, maker) -> Pairs`` makes an epoch's pairs from the corpus; by default each string with itself.
        levels: levels of tasks for which the recipe and corpus of another level are used: ``{"wic": "sentence"}`` for
            Mirror, which encodes the whole sentence for words in context.
    """

    name: str
    preset: Callable[[str, str, str], Recipe]
    tunes: bool = True
    label: str = "{backbone} + {method}"
    pairs: PairFunction = identical_pairs
    levels: Mapping[str, str] = field(default_factory=dict)
