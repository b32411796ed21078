"""Titles of leaderboards without one."""

from __future__ import annotations

from dataclasses import replace

from helpers.toy_tables import BOARD, EMPTY

from mirrorbench.reports.renderers.titles import title_of


def test_title_names_compared_encoders_and_tasks() -> None:
    board = replace(BOARD, title="")
    assert title_of(BOARD) == "English and French"
    assert title_of(board) == "5 encoders on 5 tasks"
    rows = tuple(replace(row, scores=row.scores[:2]) for row in board.rows[:2])
    two = replace(board, rows=rows, columns=board.columns[:2])
    assert title_of(two) == "BERT-CLS and BERT-mp on STS12 and STS-b"
    suite = tuple(replace(board.columns[0], name=f"t{n}") for n in range(4))
    assert title_of(replace(two, columns=suite)) == "BERT-CLS and BERT-mp on 4 tasks of sts"
    assert title_of(replace(two, banner="Smoke run")).startswith("Smoke run. BERT-CLS")
    assert title_of(EMPTY) == "Leaderboard"
