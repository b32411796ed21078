"""Usim: how similar are two uses of the same word?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.formats.wic import word_of
from mirrorbench.data.items import RatedContexts
from mirrorbench.data.textfiles import Ids, parse_number, read_lines

SCALE = (1, 5)


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[RatedContexts]:
    """Parse Usim in the form that MirrorWiC's authors use.

    Each line holds a context, whose words are set apart by one space each, the number of the target's word, the mean
    rating from 1 to 5, and the word's lemma with the number of the sentence (``bright.a 1``), tab-separated. Two
    lines that follow one another are a pair and repeat its rating.

    Args:
        files: one file.
        options: none are used but those of the task.

    Returns:
        all pairs; the id names lemma and sentences: ``bright.a/1-2``.

    Raises:
        DataFormatError: a wrong number of columns or lines, an index beyond the context, a rating off the scale, a
            pair whose lines differ in rating or lemma, or that stands twice.
    """
    pairs = []
    ids = Ids()
    for path in files.values():
        rows = [line.split("\t") for line in read_lines(path)]
        for line, row in enumerate(rows, start=1):
            if len(row) != 4:
                raise DataFormatError(f"{path}, line {line}: {len(row)} columns instead of 4.")
            if not all(row[3].rpartition(" ")):
                raise DataFormatError(f"{path}, line {line}: not a lemma, a space and a number in the last column.")
        if len(rows) % 2:
            raise DataFormatError(f"{path}: an odd number of lines ({len(rows)}); the last one has no partner.")
        for line in range(1, len(rows), 2):
            first, second = rows[line - 1], rows[line]
            (lemma, one), (other, two) = first[3].rsplit(" ", 1), second[3].rsplit(" ", 1)
            if first[2] != second[2] or lemma != other:
                raise DataFormatError(f"{path}, lines {line} and {line + 1}: they are no pair.")
            pairs.append(
                RatedContexts(
                    ids.add(f"{lemma}/{one}-{two}", path, line),
                    word_of(first[0], first[1], path, line),
                    word_of(second[0], second[1], path, line + 1),
                    parse_number(first[2], path, line, *SCALE),
                )
            )
    return pairs
