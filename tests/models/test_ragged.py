from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.models.ragged import Ragged


@given(
    st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=8),
    st.integers(0, 3),
    st.data(),
)
def test_ragged_arrays_equal_nested_lists(
    rows: list[list[int]], extra: int, data: st.DataObject
) -> None:
    ragged = Ragged.of(rows)
    assert [row.tolist() for row in ragged] == rows
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert (len(ragged), ragged.values.dtype) == (len(rows), np.int32)
    indices = []
    if rows:
        indices = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10))
    assert [row.tolist() for row in ragged.take(indices)] == [rows[i] for i in indices]
    width = max(map(len, rows), default=0) + extra
    padded = []
    mask = []
    for row in rows:
        n_padding = width - len(row)
        padded.append(row + [-1] * n_padding)
        mask.append([True] * len(row) + [False] * n_padding)
    assert ragged.padded(width, -1).tolist() == padded
    assert ragged.mask(width).tolist() == mask


@given(st.lists(st.lists(st.just(7), min_size=1, max_size=9), max_size=8), st.integers(0, 40))
def test_portions_hold_all_rows_in_order(rows: list[list[int]], most: int) -> None:
    ragged = Ragged.of(rows)
    portions = [portion.tolist() for portion in ragged.portions(most)]
    assert [row for portion in portions for row in portion] == list(range(len(rows)))
    widest = max(map(len, rows), default=0)
    for portion in portions:
        # A portion of one more row would have more than ``most`` values with padding.
        assert len(portion) == 1 or (len(portion) - 1) * widest < max(1, most)
