"""CoSimLex (SemEval-2020 task 3): two words, both in each of two contexts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import ContextChange, RatedContexts
from mirrorbench.data.textfiles import Ids, parse_number, read_lines, shown, unmark

HEADER = [
    "word1",
    "word2",
    "context1",
    "context2",
    "sim1",
    "sim2",
    "stdev1",
    "stdev2",
    "pvalue",
    "word1_context1",
    "word2_context1",
    "word1_context2",
    "word2_context2",
]
SCALE = (0, 10)


def parse(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextChange]:
    """Parse CoSimLex: tab-separated despite its name, with a header.

    The two words are marked with ``<strong>`` in both contexts, in whatever order they stand there; the columns
    ``word1_context1`` ... give them in the form that occurs. The marks are taken out.

    Args:
        files: one file.
        options: none are used but those of the task.

    Returns:
        all pairs; the id is the number of the line (from 1, the header not counted).

    Raises:
        DataFormatError: another header, a wrong number of columns, a context that does not mark the two words, a
            rating off the scale (0 to 10).
    """
    changes = []
    ids = Ids()
    for path in files.values():
        rows = [line.split("\t") for line in read_lines(path)]
        if not rows or rows[0] != HEADER:
            raise DataFormatError(f"{path}: the header is not {', '.join(HEADER)}.")
        for line, row in enumerate(rows[1:], start=2):
            if len(row) != len(HEADER):
                raise DataFormatError(f"{path}, line {line}: {len(row)} columns instead of {len(HEADER)}.")
            fields = dict(zip(HEADER, row, strict=True))
            first, second = (_in_context(fields, number, path, line) for number in "12")
            changes.append(ContextChange(ids.add(str(line - 1), path, line), first, second))
    return changes


def _in_context(fields: Mapping[str, str], number: str, path: Path, line: int) -> RatedContexts:
    text, spans = unmark(fields[f"context{number}"], "strong")
    wanted = [fields[f"word{word}_context{number}"] for word in "12"]
    marked = [text[start:end] for start, end in spans]
    if marked not in (wanted, wanted[::-1]):
        raise DataFormatError(
            f"{path}, line {line}: context {number} does not mark {' and '.join(map(shown, wanted))}."
        )
    order = spans if marked == wanted else spans[::-1]
    left, right = (TextInput(text, (span,)) for span in order)
    rating = parse_number(fields[f"sim{number}"], path, line, *SCALE)
    return RatedContexts(f"{line - 1}/{number}", left, right, rating)
