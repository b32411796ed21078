"""Stored results without dates, durations and costs, in which two runs of one grid may differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_COSTS = ("created", "seconds", "cost")


def stored(folder: Path) -> dict[str, bytes]:
    """Read every finished file of a folder of results, by path: predictions as they are, results without costs."""
    found = {}
    for path in sorted(folder.rglob("seed-*")):
        content = path.read_bytes()
        if path.suffix == ".json":
            content = json.dumps(
                _without(json.loads(content)), ensure_ascii=False, indent=2
            ).encode()
        found[str(path.relative_to(folder))] = content
    return found


def _without(value: Any) -> Any:
    return (
        {k: _without(v) for k, v in value.items() if k not in _COSTS}
        if isinstance(value, dict)
        else value
    )
