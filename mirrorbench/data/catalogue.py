"""The built-in cards and suites, each read once per process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.cardfile import load_cards, read_suites
from mirrorbench.data.cards import Card


def cards_folder() -> Path:
    """The folder of the built-in cards: ``mirrorbench/cards`` in a wheel, ``tasks`` beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "cards", package.parent / "tasks"):
        if (folder / "suites.yaml").is_file():
            return folder
    raise DataFormatError(
        f"The built-in cards are in neither {package / 'cards'} nor {package.parent / 'tasks'}.",
        hint="Install mirrorbench again.",
    )


@lru_cache(maxsize=1)
def builtin_cards() -> Mapping[str, Card]:
    """All built-in cards by name, sorted by name."""
    cards: dict[str, Card] = {}
    for path in sorted(cards_folder().glob("*/*.yaml")):
        for card in load_cards(path):
            if card.name in cards:
                raise DataFormatError(f"{path}: a second card named {card.name!r}.", hint="Rename one of the two.")
            cards[card.name] = card
    return MappingProxyType(dict(sorted(cards.items())))


@lru_cache(maxsize=1)
def builtin_suites() -> Mapping[str, tuple[str, ...]]:
    """The built-in suites: task names in table order."""
    return MappingProxyType(read_suites(cards_folder() / "suites.yaml"))
