"""Parsers of the original file formats: files in, items out; a row is never dropped silently.

A parser is a function of the files (by their path in the card, in the card's order) and of the card's options. Its
items are those of ``mirrorbench.data.items`` that the card's kind of task works on. Texts come out exactly as they
stand in the file, unless a parser says otherwise: only the line end goes, and spaces at either end of a column stay
(some STS files have them; a model's tokenizer may or may not care). What does not follow a format is a
``DataFormatError`` with file and line.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import DataFormatError, UnknownNameError

if TYPE_CHECKING:
    from mirrorbench.data.formats.columns import Parser
    from mirrorbench.data.store import ResolvedData

PARSERS = {
    **dict.fromkeys(("sts", "stsb", "sick", "qnli", "table"), "pairs"),
    **dict.fromkeys(("multisimlex", "multisimlex-concepticon", "xling-eval"), "words"),
    **dict.fromkeys(("wic", "wic-tsv", "xlwic", "am2ico", "usim", "cosimlex"), "contexts"),
    **dict.fromkeys(("biosyn", "askapatient", "cometa", "rescnn"), "entity_linking"),
    "wsd": "wsd",
}
"""The parsers by the name that a card gives, and the modules where they stand."""


def parser_of(name: str) -> Parser:
    """The parser that a card names.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in PARSERS:
        raise UnknownNameError(
            f"A card names the parser {name!r}, which does not exist.", f"Parsers: {', '.join(PARSERS)}"
        )
    module = import_module(f"mirrorbench.data.formats.{PARSERS[name]}")
    parser: Parser = getattr(module, f"parse_{name.replace('-', '_')}")
    return parser


def parse(data: ResolvedData) -> list[Any]:
    """The items of what the store resolved, in file order; their ids come from line numbers or the data set itself.

    Raises:
        UnknownNameError: the card names a parser that does not exist.
        DataFormatError: a file does not follow its format, or is empty.
    """
    parser = parser_of(data.parser)
    for path in data.files.values():
        # Nothing, or nothing but the byte order mark that some editors put there.
        if path.is_file() and path.stat().st_size <= len(BOM_UTF8) and path.read_bytes() in (b"", BOM_UTF8):
            raise DataFormatError(f"{path} is empty.")
    items = parser(data.files, data.options)
    if not items:
        raise DataFormatError(f"{', '.join(map(str, data.files.values()))}: no items in it.")
    return items
