"""Completion in the shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer._completion_classes import BashComplete
from typer.main import get_command

from mirrorbench.cli import app

GRIDS = Path(__file__).parents[2] / "leaderboards" / "grids"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("run --tasks sts,xlwic-f", {"sts,xlwic-fa", "sts,xlwic-fr"}),
        ("run -t wordle", set()),
        ("data fetch am2ico-k", {"am2ico-ka", "am2ico-kk", "am2ico-ko"}),
        ("run --encoder rob", {"roberta"}),
        ("run -e roberta+mirrorw", {"roberta+mirrorwic"}),
        ("run --corpus sts-sent", {"sts-sentences"}),
        ("run mirrorwic-", {file.stem for file in GRIDS.glob("mirrorwic-*.yaml")}),
        ("run --device cu", {"cuda", "cuda:0"}),
        ("paper mirrorwic/table3", {"mirrorwic/table3"}),
        ("leaderboard --format ma", {"markdown"}),
        ("list tasks --suite xl", {"xlwic"}),
        ("list encod", {"encoders"}),
    ],
)
def test_completion_offers_names(typed: str, offered: set[str]) -> None:
    command = get_command(app)
    *words, incomplete = typed.split()
    with command.make_context("mirrorbench", words, resilient_parsing=True):
        completion = BashComplete(command, {}, "mirrorbench", "_X")
        items = completion.get_completions(words, incomplete)
    assert {item.value for item in items} == offered
