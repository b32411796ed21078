"""Parsers of original file formats: from the files of a card (by path) and its options to ``mirrorbench.data.items``.

No row is dropped silently: what does not follow the format is a ``DataFormatError`` with file and line. Texts are
returned exactly as in the file unless a parser says otherwise; white space around columns stays (some STS files have
it).
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
"""The module of each parser, by the name that cards use."""


def parser_of(name: str) -> Parser:
    """The parser of this name; an ``UnknownNameError`` if there is none."""
    if name not in PARSERS:
        raise UnknownNameError(
            f"A card names the parser {name!r}, which does not exist.", f"Parsers: {', '.join(PARSERS)}"
        )
    module = import_module(f"mirrorbench.data.formats.{PARSERS[name]}")
    parser: Parser = getattr(module, f"parse_{name.replace('-', '_')}")
    return parser


def parse(data: ResolvedData) -> list[Any]:
    """The items of resolved data, in file order; an unknown parser, an invalid or empty file is an error."""
    parser = parser_of(data.parser)
    for path in data.files.values():
        # Empty, or only the byte order mark that some editors write.
        if path.is_file() and path.stat().st_size <= len(BOM_UTF8) and path.read_bytes() in (b"", BOM_UTF8):
            raise DataFormatError(f"{path} is empty.")
    items = parser(data.files, data.options)
    if not items:
        raise DataFormatError(f"{', '.join(map(str, data.files.values()))}: no items in it.")
    return items
