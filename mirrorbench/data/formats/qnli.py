"""QNLI of GLUE: questions and sentences, tab-separated with a header; quotes are text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import Pair
from mirrorbench.data.textfiles import Ids, read_lines, shown

HEADER = ["index", "question", "sentence", "label"]
LABELS = {"entailment": 1.0, "not_entailment": 0.0}


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse a labelled file of QNLI (``dev.tsv``).

    A reader that interprets quotes loses rows (5,398 of 5,463 are left).

    Args:
        files: the file, or several.
        options: none are used.

    Returns:
        all rows; the id is the data set's own index, the gold 1 where the sentence answers the question, else 0.

    Raises:
        DataFormatError: another header (the test file has no labels), a wrong number of columns, an empty text, an
            unknown label, an index that stands twice.
    """
    pairs = []
    ids = Ids()
    for path in files.values():
        lines = read_lines(path)
        if not lines or lines[0].split("\t") != HEADER:
            raise DataFormatError(f"{path}: the header is not {', '.join(HEADER)}.")
        for number, line in enumerate(lines[1:], start=2):
            fields = line.split("\t")
            if len(fields) != len(HEADER):
                raise DataFormatError(f"{path}, line {number}: {len(fields)} columns instead of {len(HEADER)}.")
            identity, question, sentence, label = fields
            if label not in LABELS:
                raise DataFormatError(
                    f"{path}, line {number}: the label {shown(label)} is none of {', '.join(LABELS)}."
                )
            if not question.strip() or not sentence.strip():
                raise DataFormatError(f"{path}, line {number}: an empty text.")
            pairs.append(Pair(ids.add(identity, path, number), question, sentence, LABELS[label]))
    return pairs
