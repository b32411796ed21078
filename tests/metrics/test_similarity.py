from __future__ import annotations

import math

import numpy as np
import pytest

from mirrorbench.metrics.similarity import cosine


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
