"""AM2iCo: words in context across languages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.cards import text_option
from mirrorbench.data.formats.wic import LABELS, SPLITS
from mirrorbench.data.items import ContextPair
from mirrorbench.data.textfiles import read_lines, shown, unmark

HEADER = ["context1", "context2", "label"]


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse AM2iCo: a header, then a context in the other language, one in English, and T or F, tab-separated.

    The target is marked as ``<word>...</word>`` in both contexts; the marks are taken out.

    Args:
        files: one for each split, named after it (``dev.tsv``), in whatever folder.
        options: ``language``: the code of the language that is not English.

    Returns:
        all items; the id is ``dev/<line>`` (from 1, the header not counted).

    Raises:
        DataFormatError: no language, another name or header, a wrong number of columns, a context without exactly one
            target, a label that is none.
    """
    language = text_option(options, "language")
    pairs = []
    splits: set[str] = set()
    for name, path in files.items():
        split = PurePosixPath(name).stem
        if split in splits:
            raise DataFormatError(f"{path}: a second file of the split {split}.")
        splits.add(split)
        rows = [line.split("\t") for line in read_lines(path)]
        if split not in SPLITS or not rows or rows[0] != HEADER:
            raise DataFormatError(f"{path}: not named after a split, or the header is not {', '.join(HEADER)}.")
        for line, row in enumerate(rows[1:], start=2):
            if len(row) != 3 or row[2] not in LABELS:
                raise DataFormatError(f"{path}, line {line}: not two contexts and T or F.")
            left = _target(row[0], language, path, line)
            right = _target(row[1], "en", path, line)
            pairs.append(ContextPair(f"{split}/{line - 1}", left, right, LABELS[row[2]], split))
    return pairs


def _target(marked: str, language: str, path: Path, line: int) -> TextInput:
    text, spans = unmark(marked, "word")
    if len(spans) != 1 or not text[slice(*spans[0])].strip():
        raise DataFormatError(f"{path}, line {line}: {len(spans)} targets instead of one in {shown(marked)}.")
    return TextInput(text, spans, language)
