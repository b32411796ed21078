"""The table of faults in the documentation names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLES = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:tests|plugins)/[\w/-]+\.py::[\w:]+)`", TABLES)))


def functions_of(path: Path) -> set[str]:
    """``function`` and ``Class::method``."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{method.name}" for method in node.body if isinstance(method, ast.FunctionDef)}
    return found


def test_every_row_names_a_test_that_exists() -> None:
    named = [name.partition("::") for name in NAMED]
    there = {file: functions_of(ROOT / file) for file in {file for file, *_ in named}}
    assert [name for name in named if name[2] not in there[name[0]]] == []
    rows = [line for line in TABLES.splitlines() if line.startswith("| ")]
    faults = [row for row in rows if not row.startswith("| fault |")]
    assert len(faults) >= len(NAMED) > 40
    assert all(re.search(r"\| `(tests|plugins)/[^`]+` \|$", row) for row in faults)
