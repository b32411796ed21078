"""The SemEval STS tasks, 2012 to 2017: a file of sentence pairs and a file of gold scores, line by line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.cards import whole_number
from mirrorbench.data.items import Pair
from mirrorbench.data.textfiles import parse_number, read_lines

_NAME = re.compile(r"(?P<prefix>.+)\.(?P<role>input|gs)\.(?P<subset>.+)\.txt\Z")
SCALE = (0.0, 5.0)


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse the input and gold files of one year.

    ``STS.input.X.txt`` holds the two sentences, separated by a tab (STS16: and two source notes); the same
    line of
    ``STS.gs.X.txt`` holds the score from 0 to 5. A blank gold line (STS15, STS16) means that the pair was not
    scored: it is left out, and only such pairs are.

    Args:
        files: pairs of input and gold files, recognised by their names.
        options: ``columns``: columns of the input files, 2 by default, 4 in STS16.

    Returns:
        the scored pairs; the id is ``X/<line>`` (from 1), the subset ``X``.

    Raises:
        DataFormatError: a wrong number of columns, a line without counterpart, a score that is none or off
            the scale.
    """
    columns = whole_number(options, "columns", 2, least=2)
    inputs: dict[str, Path] = {}
    golds: dict[str, Path] = {}
    for name, path in files.items():
        match = _NAME.match(PurePosixPath(name).name)
        if match is None:
            raise DataFormatError(f"{path}: the name follows neither STS.input.X.txt nor STS.gs.X.txt.")
        role = inputs if match["role"] == "input" else golds
        if match["subset"] in role:
            raise DataFormatError(f"{path}: a second {match['role']} file of {match['subset']}.")
        role[match["subset"]] = path
    if inputs.keys() != golds.keys():
        lone = ", ".join(sorted(inputs.keys() ^ golds.keys()))
        raise DataFormatError(f"Input and gold files do not go together; without counterpart: {lone}.")
    return [pair for subset, path in inputs.items() for pair in _subset(subset, path, golds[subset], columns)]


def _subset(subset: str, input_path: Path, gold_path: Path, columns: int) -> list[Pair]:
    rows = read_lines(input_path)
    golds = read_lines(gold_path)
    if len(rows) != len(golds):
        raise DataFormatError(f"{input_path} has {len(rows)} lines, {gold_path} has {len(golds)}.")
    pairs = []
    for line, (row, gold) in enumerate(zip(rows, golds, strict=True), start=1):
        fields = row.split("\t")
        if len(fields) != columns:
            raise DataFormatError(f"{input_path}, line {line}: {len(fields)} columns instead of {columns}.")
        if not gold.strip():
            continue
        if not fields[0].strip() or not fields[1].strip():
            raise DataFormatError(f"{input_path}, line {line}: a scored pair with an empty sentence.")
        score = parse_number(gold.strip(), gold_path, line, *SCALE)
        pairs.append(Pair(f"{subset}/{line}", fields[0], fields[1], score, subset))
    return pairs
