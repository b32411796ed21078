"""The built-in cards and suites.

In a checkout the cards lie in the top-level ``tasks`` folder beside the package, in a wheel in ``mirrorbench/cards``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.cardfile import load_cards, read_suites
from mirrorbench.data.cards import Card


def cards_folder() -> Path:
    """The folder of the built-in cards: ``mirrorbench/cards`` in a wheel, ``tasks`` in a checkout.

    Raises:
        DataFormatError: neither is there, so the installation is incomplete.
    """
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
    """All built-in cards by name, in the order of their names; read once per process.

    Raises:
        DataFormatError: a card is malformed, or two cards share a name.
    """
    cards: dict[str, Card] = {}
    for path in sorted(cards_folder().glob("*/*.yaml")):
        for card in load_cards(path):
            if card.name in cards:
                raise DataFormatError(f"{path}: a second card named {card.name!r}.", hint="Rename one of the two.")
            cards[card.name] = card
    return MappingProxyType(dict(sorted(cards.items())))


@lru_cache(maxsize=1)
def builtin_suites() -> Mapping[str, tuple[str, ...]]:
    """The built-in suites: the names of their tasks, in the order in which a table shows them.

    Raises:
        DataFormatError: ``suites.yaml`` is malformed.
    """
    return MappingProxyType(read_suites(cards_folder() / "suites.yaml"))
