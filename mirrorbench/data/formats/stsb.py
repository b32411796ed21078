"""The STS benchmark: tab-separated despite its names ``sts-dev.csv`` and so on; no header, no quoting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import Pair
from mirrorbench.data.textfiles import Ids, parse_number, read_lines

SCALE = (0.0, 5.0)
_COLUMNS = (7, 9)  # genre, file, year, number, score, two sentences; in some rows two licence notes


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse files of the STS benchmark.

    A reader that interprets quotes loses rows (1,119 of 1,379 are left in the test split): quotes here are
    text.

    Args:
        files: ``sts-train.csv``, ``sts-dev.csv``, ``sts-test.csv``, or some of them.
        options: none are used.

    Returns:
        all rows; the id is ``sts-test/<line>`` (from 1).

    Raises:
        DataFormatError: a wrong number of columns, an empty sentence, a score that is none or off the scale.
    """
    pairs = []
    ids = Ids()
    for name, path in files.items():
        stem = PurePosixPath(name).stem
        for line, row in enumerate(read_lines(path), start=1):
            fields = row.split("\t")
            if len(fields) not in _COLUMNS:
                raise DataFormatError(f"{path}, line {line}: {len(fields)} columns instead of 7 or 9.")
            left, right = fields[5:7]
            if not left.strip() or not right.strip():
                raise DataFormatError(f"{path}, line {line}: an empty sentence.")
            gold = parse_number(fields[4], path, line, *SCALE)
            pairs.append(Pair(ids.add(f"{stem}/{line}", path, line), left, right, gold))
    return pairs
