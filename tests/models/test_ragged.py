from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.models.batching import Ragged

ROWS = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=8)


@given(ROWS)
def test_rows_come_back(rows: list[list[int]]) -> None:
    ragged = Ragged.of(rows)
    assert [row.tolist() for row in ragged] == rows
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert len(ragged) == len(rows)
    assert ragged.values.dtype == np.int32


@given(ROWS, st.data())
def test_some_rows_in_any_order(rows: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10)) if rows else []
    assert [row.tolist() for row in Ragged.of(rows).take(chosen)] == [rows[i] for i in chosen]


@given(ROWS, ROWS)
def test_joining(some: list[list[int]], more: list[list[int]]) -> None:
    assert [row.tolist() for row in Ragged.joined([Ragged.of(some), Ragged.of(more)])] == some + more


@given(ROWS, st.integers(0, 3))
def test_padding(rows: list[list[int]], extra: int) -> None:
    ragged = Ragged.of(rows)
    width = max(map(len, rows), default=0) + extra
    expected = [row + [-1] * (width - len(row)) for row in rows]
    assert ragged.padded(width, -1).tolist() == expected
    assert ragged.mask(width).tolist() == [[i < len(row) for i in range(width)] for row in rows]
