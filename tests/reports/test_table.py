"""The order of rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.toy_tables import BOARD

from mirrorbench.core.errors import UnknownNameError
from mirrorbench.reports.table import Row, Score


def test_rows_are_sorted_by_a_column() -> None:
    """Without a score, and baselines, last; there is no rule between backbones that are mixed."""
    baseline = Row("Majority", "", (Score(0.99, None, 1),) * len(BOARD.columns))
    table = replace(BOARD, rows=(baseline, *BOARD.rows))
    sts = sorted(BOARD.rows, key=lambda row: row.scores[1].mean, reverse=True)
    assert table.sorted_by("stsb").rows == (*sts, baseline)
    assert [row.label for row in table.sorted_by("wic").rows][-1] == "Majority"
    assert table.sorted_by("wic").rows[0].label == "RoBERTa + Mirror"
    assert BOARD.blocks() == [3]
    assert replace(BOARD, rows=tuple(sts)).blocks() == []
    with pytest.raises(UnknownNameError, match="unknown column 'sts'"):
        BOARD.sorted_by("sts")
