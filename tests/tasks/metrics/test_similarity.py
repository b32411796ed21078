from __future__ import annotations

import math

import numpy as np
import pytest

from mirrorbench.tasks.metrics.similarity import cosine, unit


def test_cosine_equals_a_loop_and_knows_zero_vectors() -> None:
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(2, 5, 3)).astype(np.float32)
    left[2] = 0
    for row, value in enumerate(cosine(left, right)):
        norms = math.sqrt(sum(float(v) ** 2 for v in left[row])) * math.sqrt(sum(float(v) ** 2 for v in right[row]))
        dot = sum(float(a) * float(b) for a, b in zip(left[row], right[row], strict=True))
        assert value == pytest.approx(dot / norms if norms else 0.0)
    huge = np.full((1, 4), 1e38, dtype=np.float32)
    assert cosine(huge, huge) == pytest.approx(1)


def test_unit_rows_are_those_of_a_loop_in_float64() -> None:
    rows = np.array([[3, 4], [0, 0], [-1e-20, 0], [1e30, 1e30]], dtype=np.float32)
    found = unit(rows)
    assert found.dtype == np.float64
    for row, scaled in zip(rows.astype(np.float64).tolist(), found.tolist(), strict=True):
        length = math.hypot(*row)
        assert scaled == pytest.approx([x / length for x in row] if length else [0.0, 0.0], abs=0, rel=1e-12)
    assert rows[0, 0] == 3  # what was given is not changed
