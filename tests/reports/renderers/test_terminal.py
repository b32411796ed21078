from __future__ import annotations

import io
import re
from math import nan

import pytest
from helpers.toy_tables import BOARD, EMPTY, HOSTILE, NO_ROWS
from rich.console import Console

from mirrorbench.reports.renderers import draw, number
from mirrorbench.reports.renderers.notes import note_lines
from mirrorbench.reports.renderers.numbers import with_deviation
from mirrorbench.reports.table import Column, Row, Score, Table


def drawn(table: Table, width: int) -> str:
    stream = io.StringIO()
    draw(table, Console(file=stream, width=width, force_terminal=False))
    return stream.getvalue()


@pytest.mark.parametrize("width", [44, 51, 60, 79, 90, 114, 300])
def test_no_number_is_cut_at_any_width(width: int) -> None:
    """Every mean stands in the table as often as the table has it, at whatever width, and no line is too long."""
    text = drawn(BOARD, width).replace(" over", "")
    table = "\n".join(line for line in text.partition("\n\n")[0].splitlines())
    means = [number(score.mean) for row in BOARD.rows for score in row.scores if score]
    shown = re.findall(
        r"(?<![\[\d.,] )(?<![\[\d])-?(?:\d)?\.\d{3}(?![\d,\]])",
        re.sub(r"± \S+|\[[^]]*\]", "", table),
    )
    assert sorted(shown) == sorted(means)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_narrow_terminal_omits_deviations_then_splits_table() -> None:
    """First deviations and intervals, said above; then names wrap; then blocks of whole suites."""
    score = BOARD.rows[2].scores[0]
    wide, narrow, blocks = drawn(BOARD, 300), drawn(BOARD, 90), drawn(BOARD, 60)
    assert with_deviation(score) in wide
    assert "±" not in narrow
    assert "English and French (no room for deviations and intervals in 90 columns)" in narrow
    assert (wide.count("──\n"), narrow.count("──\n"), blocks.count("──\n")) == (1, 1, 2)
    heads = [line for line in blocks.splitlines() if "encoder" in line]
    assert ["STS12" in head for head in heads] == [True, False]
    # RoBERTa-mp has no score outside the first block, and does not stand in the second.
    assert [part.count("RoBERTa-mp") for part in blocks.split("──\n")[1:]] == [1, 0]
    for table in (EMPTY, NO_ROWS, HOSTILE):
        text = " ".join(drawn(table, 200).split())
        assert all(str(note).split()[0] in text for _, note in note_lines(table)[:1])


@pytest.mark.parametrize("width", [40, 60, 80])
def test_text_cells_are_never_cut(width: int) -> None:
    """Columns that do not fit stand in a table below."""
    texts = [f"[-.01{i}, .12{i}]" for i in range(8)]
    scores = tuple(Score(nan, None, 1, text=text) for text in texts)
    columns = tuple(Column(f"c{i}", f"c{i}") for i in range(8))
    table = drawn(Table("", columns, (Row("task", "", scores),), layout="facts"), width)
    assert all(text in table for text in texts)
    assert max(map(len, table.splitlines())) <= width
