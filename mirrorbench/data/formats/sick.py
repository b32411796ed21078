"""SICK relatedness, in both of its releases: three files (SemEval 2014) or one file with a split column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import Pair
from mirrorbench.data.textfiles import Ids, parse_number, read_lines, shown

SCALE = (1.0, 5.0)
_NEEDED = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score")
_SET_COLUMN = "SemEval_set"
_SETS = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse SICK: tab-separated with a header, columns found by name.

    Args:
        files: ``SICK_train.txt``, ``SICK_trial.txt``, ``SICK_test_annotated.txt``, or the single
            ``SICK.txt``.
        options: ``semeval_set``: ``train``, ``dev`` or ``test``; needed for ``SICK.txt``, whose rows of the
            other splits are left out. The files of the three-file release are taken whole.

    Returns:
        the pairs; the id is SICK's own pair number.

    Raises:
        DataFormatError: an unknown header, a wrong number of columns, an unknown split, an empty sentence, a
            score that is none or off the scale from 1 to 5, a pair number that stands twice.
    """
    ids = Ids()
    return [pair for path in files.values() for pair in _file(path, options.get("semeval_set"), ids)]


def _file(path: Path, wanted: Any, ids: Ids) -> list[Pair]:
    rows = read_lines(path)
    header = rows[0].split("\t") if rows else []
    absent = [name for name in _NEEDED if header.count(name) != 1]
    if absent:
        raise DataFormatError(f"{path}, line 1: the header lacks {', '.join(absent)}.")
    number, left, right, score = (header.index(name) for name in _NEEDED)
    split = header.index(_SET_COLUMN) if _SET_COLUMN in header else None
    if split is not None and wanted not in list(_SETS):
        raise DataFormatError(f"{path} holds all splits; the option semeval_set must be one of {', '.join(_SETS)}.")
    pairs = []
    for line, row in enumerate(rows[1:], start=2):
        fields = row.split("\t")
        if len(fields) != len(header):
            raise DataFormatError(f"{path}, line {line}: {len(fields)} columns instead of {len(header)}.")
        if split is not None:
            if fields[split] not in _SETS.values():
                raise DataFormatError(f"{path}, line {line}: {shown(fields[split])} is no {_SET_COLUMN}.")
            if fields[split] != _SETS[str(wanted)]:
                continue
        if not all(fields[column].strip() for column in (number, left, right)):
            raise DataFormatError(f"{path}, line {line}: an empty column.")
        gold = parse_number(fields[score], path, line, *SCALE)
        pairs.append(Pair(ids.add(fields[number], path, line), fields[left], fields[right], gold))
    return pairs
