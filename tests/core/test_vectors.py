"""Vectors of unit length."""

from __future__ import annotations

import numpy as np

from mirrorbench.core.vectors import unit


def test_unit_normalises_rows_in_float64() -> None:
    rows = np.array([[3, 4], [0, 0], [-1e-20, 0], [1e30, 1e30]], dtype=np.float32)
    found = unit(rows)
    assert found.dtype == np.float64
    np.testing.assert_allclose(
        found, np.array([[0.6, 0.8], [0, 0], [-1, 0], [0.5**0.5, 0.5**0.5]]), rtol=1e-12
    )
    assert rows[0, 0] == 3  # what was given is not changed
