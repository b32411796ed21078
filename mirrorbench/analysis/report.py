"""The result of an analysis, and its files."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.analysis import figures
from mirrorbench.analysis.figures import TableRows
from mirrorbench.core.files import writing
from mirrorbench.runs.cells import Failure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Analysis:
    """The result of one analysis.

    Attributes:
        name: of its files, without a suffix.
        rows: the numbers; all rows have the same keys.
        document: further contents of the JSON file: encoders, task, seed ...
        draw: makes the figure, inside ``figures.style()``; ``None`` where no encoder could be analysed.
        table: a shorter table for the screen; ``None``: show ``rows``.
        summary: a line above the table.
        failures: encoders that failed, and why.
    """

    name: str
    rows: TableRows
    document: Mapping[str, Any]
    draw: Callable[[], Figure] | None
    table: TableRows | None = None
    summary: str = ""
    failures: Sequence[Failure] = field(default=())

    def write(self, folder: str | Path, formats: Sequence[str] = ()) -> list[Path]:
        """Write ``<name>.csv``, ``<name>.json`` and the figure in each format into a folder.

        Args:
            folder: created if missing.
            formats: keys of ``figures.FIGURE_FORMATS``.

        Returns:
            The paths of the files; none where no encoder could be analysed.

        Raises:
            StorageError: the folder cannot be written.
        """
        from mirrorbench import __version__

        if self.draw is None:
            return []
        table = io.StringIO()
        writer = csv.DictWriter(table, list(self.rows[0]) if self.rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(plain(row) for row in self.rows)  # None becomes an empty field
        stem = Path(folder) / re.sub(r"[^\w.=,-]", "_", self.name)  # a task's name may contain a colon
        made = {"version": __version__, "created": datetime.now(UTC).isoformat(timespec="seconds")}
        document = plain({"analysis": stem.name, **self.document, **made, "rows": self.rows})
        contents = {"csv": table.getvalue(), "json": json.dumps(document, indent=2, ensure_ascii=False)}
        files = [stem.with_name(f"{stem.name}.{suffix}") for suffix in contents]
        for path, content in zip(files, contents.values(), strict=True):
            with writing(path) as sink:
                sink.write(content.encode())
        if formats:
            with figures.style():
                files += figures.save(self.draw(), stem, formats)
        return files


def plain(value: Any) -> Any:
    """A value for JSON: arrays become lists, NaN null, infinity a string."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
