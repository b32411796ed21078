"""JSON lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import is_text
from mirrorbench.data.readers.columns import line_error
from mirrorbench.data.readers.text import stream_lines


def parse_json(text: str, where: str) -> Any:
    """Parse a JSON text.

    Raises:
        DataFormatError: it is not JSON, or has a key twice in an object or half of a surrogate pair. ``where`` is its
            place, for the message.
    """

    def with_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError("a key occurs twice in one object")
        return members

    try:
        value = json.loads(text, object_pairs_hook=with_distinct_keys)
        # json.loads accepts \ud800 without its second half.
        if "\\ud" in text.lower() and not is_text(json.dumps(value, ensure_ascii=False)):
            raise ValueError("half of a surrogate pair")
        return value
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{where}: not JSON ({error}).") from None


def objects_of_lines(path: Path, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSON lines, with line numbers from 1; ``source`` is the name of the file for messages."""
    for number, line in enumerate(stream_lines(path), start=1):
        if not line.strip():
            continue
        row = parse_json(line, f"{source}, line {number}")
        if not isinstance(row, dict):
            raise line_error(
                source, number, "not a JSON object", 'Each line is an object, like {"text": "..."}.'
            )
        yield number, row
