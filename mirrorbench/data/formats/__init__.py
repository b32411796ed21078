"""Parsers of the original file formats: files in, items out; a row is never dropped silently.

A parser is a function of the files (by their path in the card, in the card's order) and of the card's
options. What it returns is what the card's kind of task works on: mostly ``Pair``, for entity linking ``Linking``,
for lexicon induction ``Lexicon``, for words in context ``ContextPair``. Texts come out exactly as they stand in the
file, unless a parser says otherwise: only the line end goes, and spaces at either end of a column stay (some STS files
have them; a model's tokenizer may or may not care).
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import DataFormatError, UnknownNameError

if TYPE_CHECKING:
    from mirrorbench.data.store import ResolvedData

Parser = Callable[[Mapping[str, Path], Mapping[str, Any]], list[Any]]


def _lazy(module: str, function: str = "parse") -> Parser:
    def call(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Any]:
        parser: Parser = getattr(import_module(f"mirrorbench.data.formats.{module}"), function)
        return parser(files, options)

    return call


PARSERS: dict[str, Parser] = {
    **{
        name: _lazy(name)
        for name in ("sts", "stsb", "sick", "table", "qnli", "usim", "cosimlex", "am2ico", "xlwic", "wsd")
    },
    **{name: _lazy("entity_linking", f"parse_{name}") for name in ("biosyn", "askapatient", "cometa", "rescnn")},
    "xling-eval": _lazy("lexicon"),
    "wic": _lazy("wic", "parse_wic"),
    "wic-tsv": _lazy("wic", "parse_tsv"),
    "multisimlex": _lazy("wordsim", "parse_official"),
    "multisimlex-concepticon": _lazy("wordsim", "parse_concepticon"),
}
"""The parsers by the name that a card gives."""


def parse(data: ResolvedData) -> list[Any]:
    """Parse what the store resolved.

    Args:
        data: from ``DataStore.resolve``.

    Returns:
        the items in file order; the parsers make their ids from line numbers or take the data set's own.

    Raises:
        UnknownNameError: the card names a parser that does not exist.
        DataFormatError: a file does not follow its format, or is empty.
    """
    if data.parser not in PARSERS:
        raise UnknownNameError(
            f"A card names the parser {data.parser!r}, which does not exist.",
            f"Parsers: {', '.join(PARSERS)}",
        )
    for path in data.files.values():
        if path.is_file() and _is_empty(path):
            raise DataFormatError(f"{path} is empty.")
    items = PARSERS[data.parser](data.files, data.options)
    if not items:
        raise DataFormatError(f"{', '.join(map(str, data.files.values()))}: no items in it.")
    return items


def _is_empty(path: Path) -> bool:
    """Whether a file holds nothing, or nothing but the byte order mark that some editors put there."""
    size = path.stat().st_size
    return not size or (size == len(BOM_UTF8) and path.read_bytes() == BOM_UTF8)
