"""Parsers, which turn the files of a card (by path) and its options into ``mirrorbench.data.items``.

``lines`` and ``table`` parse any file of their kind; the modules of ``datasets`` parse the formats of published data
sets. No row is dropped silently: an irregular one is a ``DataFormatError`` with file and line. Texts are returned
exactly as in the file unless a parser says otherwise; white space around columns stays (some STS files have it).
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.plugins import Entry, Registry, call

Parser = Callable[[Mapping[str, Path], Mapping[str, Any]], list[Any]]

_MODULES = {
    "sts": "datasets.pairs",
    "stsb": "datasets.pairs",
    "sick": "datasets.pairs",
    "qnli": "datasets.pairs",
    "qqp": "datasets.pairs",
    "qqp-duplicates": "datasets.pairs",
    "multisimlex": "datasets.pairs",
    "multisimlex-concepticon": "datasets.pairs",
    "wic": "datasets.contexts",
    "wic-tsv": "datasets.contexts",
    "xlwic": "datasets.contexts",
    "am2ico": "datasets.contexts",
    "usim": "datasets.contexts",
    "cosimlex": "datasets.contexts",
    "lines": "lines",
    "table": "table",
    "biosyn": "datasets.entity_linking",
    "askapatient": "datasets.entity_linking",
    "cometa": "datasets.entity_linking",
    "rescnn": "datasets.entity_linking",
    "xling-eval": "datasets.lexicons",
    "wsd": "datasets.word_senses",
}
"""The module of each parser, by the name that cards use."""


@hookimpl
def register_parsers(register: Register) -> None:
    """Register the parsers of this folder, each imported when it is first used."""
    for name in _MODULES:
        register(name, partial(_parse, name))


def _parse(name: str, files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Any]:
    module = import_module(f"mirrorbench.data.parsers.{_MODULES[name]}")
    parser: Parser = getattr(module, f"parse_{name.replace('-', '_')}")
    return parser(files, options)


@cache
def builtin_parsers() -> Registry[Parser]:
    """Return the parsers of this folder by name."""
    registry: Registry[Parser] = Registry("parser")
    register_parsers(lambda name, parser: registry.add(name, parser, "built in"))
    return registry


def parse(
    parser: Entry[Parser], files: Mapping[str, Path], options: Mapping[str, Any]
) -> list[Any]:
    """Parse files to items, in file order; an invalid or empty file, or one without items, is a ``DataFormatError``."""
    for path in files.values():
        if _is_empty(path):
            raise DataFormatError(f"{path} is empty.")
    items: list[Any] = call(parser, list, parser.value, files, options)
    if not items:
        raise DataFormatError(f"{', '.join(map(str, files.values()))}: no items were read.")
    return items


def _is_empty(path: Path) -> bool:
    """Return whether a file has no content except perhaps a byte order mark, which some editors write."""
    if not path.is_file() or path.stat().st_size > len(BOM_UTF8):
        return False
    return path.read_bytes() in (b"", BOM_UTF8)
