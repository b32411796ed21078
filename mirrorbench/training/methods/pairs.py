"""``pairs``: supervised tuning on pairs of texts that mean the same, with Mirror-BERT's loss and recipe.

A corpus line holds both texts, ``text1<TAB>text2`` or ``text1||text2``. They are the two views, so no text is masked;
the dropout stays, as in supervised SimCSE (Gao et al., EMNLP 2021, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirrorbench.core.errors import TuningError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.methods import Method
from mirrorbench.training.methods.mirror import mirror_preset
from mirrorbench.training.pairs import PairMaker, Pairs
from mirrorbench.training.recipes import Recipe

SEPARATORS = ("\t", "||")


def pairs_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Mirror-BERT's recipe of the level without its span mask."""
    recipe = mirror_preset(level, architecture, protocol)
    return replace(recipe, augment=(("dropout", recipe.rate("dropout")), ("span_mask", 0.0)))


def text_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """The two texts of each line; pairs that share a text are of one group. A line without two is a ``TuningError``."""
    left, right = zip(*map(_split, texts), strict=True)
    return maker.pairs(left, right, _groups(left, right))


def _split(text: str) -> tuple[str, str]:
    separator = next((s for s in SEPARATORS if s in text), "")
    fields = [field.strip() for field in text.split(separator)] if separator else []
    if len(fields) != 2 or not all(fields):
        raise TuningError(
            f"the corpus line {text[:80]!r} is no pair of texts", "pairs tunes on lines like text1||text2."
        )
    return fields[0], fields[1]


def _groups(left: Sequence[str], right: Sequence[str]) -> list[int]:
    """A number for each pair, the same for pairs connected through shared texts (union-find)."""
    parent = list(range(len(left)))

    def root(pair: int) -> int:
        while parent[pair] != pair:
            parent[pair] = parent[parent[pair]]
            pair = parent[pair]
        return pair

    first: dict[str, int] = {}
    for pair, both in enumerate(zip(left, right, strict=True)):
        for text in both:
            parent[root(pair)] = root(first.setdefault(text, pair))
    return [root(pair) for pair in range(len(left))]


@hookimpl
def register_methods(register: Register) -> None:
    """Tuning on pairs of texts."""
    method = Method("pairs", pairs_preset, label="{backbone} + pairs", pairs=text_pairs, levels={"wic": "sentence"})
    register("pairs", method, "supervised: the two texts of each corpus line are the two views")
