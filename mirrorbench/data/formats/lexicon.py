"""The bilingual dictionaries of Glavaš et al. (2019), xling-eval: a word and its translation a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import Lexicon, WordPair
from mirrorbench.data.textfiles import read_lines

_NAME = re.compile(r"yacle\.(?P<part>test|train)\.freq\.(?P<size>\w+)\.(?P<pair>[a-z]+-[a-z]+)\.tsv\Z")


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Lexicon]:
    """Parse the dictionaries of one pair of languages.

    Args:
        files: ``yacle.test.freq.2k.<pair>.tsv`` and training dictionaries ``yacle.train.freq.<size>.<pair>.tsv``.
        options: ``train``: the size of the one to learn from (``1k``, ``3k``, ``5k``).

    Returns:
        one ``Lexicon`` without further words.

    Raises:
        DataFormatError: another file name, no test or no training dictionary of that size, files of two pairs, a line
            that is not two words.
    """
    found: dict[str, Path] = {}
    pairs = set()
    for name, path in files.items():
        match = _NAME.match(PurePosixPath(name).name)
        if match is None:
            raise DataFormatError(f"{path}: the name is not yacle.<part>.freq.<size>.<pair>.tsv.")
        pairs.add(match["pair"])
        part = "test" if match["part"] == "test" else match["size"]
        if part in found:
            raise DataFormatError(f"{path}: a second dictionary of {part}.")
        found[part] = path
    size = str(options.get("train"))
    if len(pairs) != 1 or "test" not in found or size not in found:
        raise DataFormatError(f"Bilingual dictionaries: no test, or no training dictionary {size!r}, of one pair.")
    return [Lexicon(train=_pairs(found[size]), test=_pairs(found["test"]))]


def _pairs(path: Path) -> tuple[WordPair, ...]:
    pairs = []
    for line, text in enumerate(read_lines(path), start=1):
        fields = text.split("\t")
        if len(fields) != 2 or not all(field.strip() for field in fields):
            raise DataFormatError(f"{path}, line {line}: not a word, a tab and a word.")
        pairs.append((fields[0], fields[1]))
    if not pairs:
        raise DataFormatError(f"{path} holds no pair of words.")
    return tuple(pairs)
