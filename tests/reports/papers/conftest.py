from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def paper_texts(shared_data: Path) -> dict[str, str]:
    """The papers as text, by file name; tests that need them are skipped where they are not."""
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"no papers at {folder}")
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}
