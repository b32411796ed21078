"""A folder in place of the papers' tables, and the list of tables that ``mirrorbench paper`` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

import mirrorbench.papers as papers


def listing(out: str) -> dict[str, list[str]]:
    """The further columns of each row of a printed list, by the first one."""
    return {line.split("\t")[0]: line.split("\t")[1:] for line in out.splitlines()}


@pytest.fixture
def own_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that replaces the papers' tables."""
    own = folder / "specs" / "own"
    own.mkdir(parents=True)
    monkeypatch.setattr(papers, "PAPERS", ("own",))
    monkeypatch.setattr(papers, "specs_folder", lambda: own.parent)
    return own
