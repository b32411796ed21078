"""What an analysis leaves: its numbers as CSV (a table) and JSON (all of them, with where they come from)."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mirrorbench.core.files import writing

Row = Mapping[str, Any]


def write_numbers(stem: Path, rows: Sequence[Row], document: Mapping[str, Any]) -> list[Path]:
    """Write ``<stem>.csv`` and ``<stem>.json``.

    Args:
        stem: path without a suffix; its folder is made.
        rows: the table; all rows have the same keys.
        document: what else belongs into the JSON file, beside ``rows``.

    Raises:
        StorageError: the folder cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain(row) for row in rows)  # an empty field where there is nothing
    content = plain({**document, "rows": list(rows)})
    files = [stem.with_name(f"{stem.name}.csv"), stem.with_name(f"{stem.name}.json")]
    for path, data in zip(files, (text.getvalue(), json.dumps(content, indent=2, ensure_ascii=False)), strict=True):
        with writing(path) as sink:
            sink.write(data.encode())
    return files


def plain(value: Any) -> Any:
    """A value as JSON has it: arrays are lists, NaN is null, infinity is a string."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def cell_text(value: Any) -> str:
    """A value in a table on the screen: numbers with four significant digits, nothing where there is none."""
    value = plain(value)
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.4g}"
