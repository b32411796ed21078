"""The leaderboards in the repository are what their values render to."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from mirrorbench.reports.table import read_table

FOLDER = Path(__file__).resolve().parents[2] / "leaderboards"
VALUES = sorted((FOLDER / "rendered").glob("*.json"))


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_a_rendered_leaderboard_is_up_to_date(values: Path) -> None:
    table = read_table(values)
    for suffix, text in runpy.run_path(str(FOLDER / "render.py"))["texts"](table).items():
        kept = values.with_suffix(suffix).read_text(encoding="utf-8")
        assert kept == text, "renew it: python leaderboards/render.py --no-run"
    assert any(score for row in table.rows for score in row.scores)


def test_there_is_one() -> None:
    assert "embedded" in [path.stem for path in VALUES]
