"""Whether files are those of a card whose checksums are not published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.cards import CORPUS_KIND, Card, whole_number
from mirrorbench.data.corpora import card_texts
from mirrorbench.data.formats import parser_of


def count_items(card: Card, files: Mapping[str, Path]) -> int:
    """How many items, or texts of a corpus, files hold; a ``DataFormatError`` if the card's parser does not read them.

    A corpus must have as many texts as its card takes.
    """
    if card.kind != CORPUS_KIND:
        n, wanted = len(parser_of(card.parser)(files, card.options)), 1
    else:
        n = sum(len(card_texts(path, card.options)) for path in files.values())
        wanted = whole_number(card.options, "take", 1)
    if n < wanted:
        named = ", ".join(map(str, files.values()))
        raise DataFormatError(f"{named}: {n} {'texts' if card.kind == CORPUS_KIND else 'items'}, not {wanted}.")
    return n
