"""Installed plugins."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes an installed distribution ``<name>-dist 1.2`` with the entry point ``<name>``, as a wheel would."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, source: str) -> None:
        monkeypatch.delitem(sys.modules, f"toyplugin_{name}", raising=False)
        (tmp_path / f"toyplugin_{name}.py").write_text(source)
        info = tmp_path / f"toyplugin_{name}_dist-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[mirrorbench]\n{name} = toyplugin_{name}\n")

    return make
