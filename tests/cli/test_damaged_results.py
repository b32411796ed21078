"""A damaged result ends a table by name, and a run computes it again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BEFORE = Path(__file__).parents[1] / "runs" / "stored_before"
ONE = Path("results", "tiny+mirror", "quick-sts", "seed-0.json")


@pytest.fixture
def result(folder: Path) -> dict[str, Any]:
    """The document of ``ONE``, as an earlier version wrote it."""
    shutil.copytree(BEFORE, folder / "results")
    found: dict[str, Any] = json.loads(ONE.read_text())
    return found


def test_a_damaged_one_ends_a_table_and_a_run_computes_it_again(mirrorbench: Callable, result: dict[str, Any]) -> None:
    mirrorbench("leaderboard", "results").assert_works()
    result["cell"]["corpus"]["n"] = "x"
    ONE.write_text(json.dumps(result))
    mirrorbench("leaderboard", "results").assert_fails(1, str(ONE), out="")
    compare = "compare tiny+mirror tiny+base:pooling=mean -r results"
    mirrorbench(*compare.split()).assert_fails(1, str(ONE), out="")
    run = "run -e tiny+mirror -t quick-sts --seeds 1 --dry-run --offline --device cpu -o results"
    mirrorbench(*run.split()).assert_works("to do")
