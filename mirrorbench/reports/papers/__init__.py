"""The papers' tables: where their specs are, what they say, and what was measured."""

from __future__ import annotations

from pathlib import Path

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.hooks import Register, hookimpl

PAPERS = ("mirror-bert", "mirrorwic", "poster")
"""The folders of the built-in specs, in the order of lists."""


def specs_folder() -> Path:
    """The folder of the built-in specs: ``mirrorbench/reports/papers/specs`` in a wheel, ``leaderboards`` elsewhere."""
    here = Path(__file__).resolve().parent
    candidates = (here / "specs", here.parents[2] / "leaderboards")
    for folder in candidates:
        if (folder / PAPERS[0]).is_dir():
            return folder
    raise DataFormatError(
        f"The papers' tables are in neither {candidates[0]} nor {candidates[1]}.", "Install mirrorbench again."
    )


@hookimpl
def register_papers(register: Register) -> None:
    """The papers of the methods that are built in."""
    for paper in PAPERS:
        register(paper, specs_folder() / paper)
