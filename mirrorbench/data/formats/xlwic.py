"""XL-WiC: words in context in twelve languages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import ContextPair
from mirrorbench.data.textfiles import parse_index, read_lines, shown

LABELS = {"1": 1, "0": 0}
# What the files of the two official archives are called, less the language in front: split, and whether it is labels.
ROLES = {
    "valid": ("dev", False),
    "test": ("test", False),
    "test_data": ("test", False),
    "test_gold": ("test", True),
}


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse XL-WiC.

    Each line holds target, part of speech, start and end of the target in both contexts, in characters, and the two
    contexts, tab-separated, followed by 1 or 0 where labels are public. Labels of the test split lie in a file of
    their own (``zh_test_gold.txt``), line by line.

    Args:
        files: ``valid.txt`` and ``test.txt``, or ``zh_valid.txt`` and ``zh_test_data.txt``; ``zh_test_gold.txt`` if it
            is here.
        options: none are used but those of the task.

    Returns:
        all items; the id is ``dev/<line>`` (from 1).

    Raises:
        DataFormatError: a file of another name, a wrong number of columns, a span that is not in its context, a label
            that is none, labels and items of different number.
    """
    items: dict[str, Path] = {}
    labels: dict[str, Path] = {}
    for name, path in files.items():
        stem = PurePosixPath(name).stem
        role = stem if stem in ROLES else stem.partition("_")[2]
        if role not in ROLES:
            raise DataFormatError(f"{path}: the name says no part of XL-WiC ({', '.join(ROLES)}).")
        split, is_gold = ROLES[role]
        parts = labels if is_gold else items
        if split in parts:
            raise DataFormatError(f"{path}: a second file of the split {split}.")
        parts[split] = path
    if lone := labels.keys() - items.keys():
        raise DataFormatError(f"{labels[min(lone)]}: labels without the items that they belong to.")
    return [pair for split, path in items.items() for pair in _pairs(split, path, labels.get(split))]


def _pairs(split: str, path: Path, gold: Path | None) -> list[ContextPair]:
    rows = [line.split("\t") for line in read_lines(path)]
    apart = read_lines(gold) if gold else None
    if apart is not None and len(apart) != len(rows):
        raise DataFormatError(f"{gold}: {len(apart)} labels for {len(rows)} items.")
    pairs = []
    for line, row in enumerate(rows, start=1):
        if len(row) not in (8, 9):
            raise DataFormatError(f"{path}, line {line}: {len(row)} columns instead of 8, or 9 with a label.")
        label = apart[line - 1].strip() if apart else (row[8] if len(row) == 9 else None)
        if label is not None and label not in LABELS:
            raise DataFormatError(f"{gold or path}, line {line}: {shown(label)} is neither 1 nor 0.")
        left, right = _target(row[6], row[2:4], path, line), _target(row[7], row[4:6], path, line)
        pairs.append(ContextPair(f"{split}/{line}", left, right, None if label is None else LABELS[label], split))
    return pairs


def _target(text: str, bounds: list[str], path: Path, line: int) -> TextInput:
    start, end = map(parse_index, bounds)
    if not 0 <= start < end <= len(text):
        raise DataFormatError(
            f"{path}, line {line}: there is no target from {shown('-'.join(bounds))} in {shown(text)}."
        )
    return TextInput(text, ((start, end),))
