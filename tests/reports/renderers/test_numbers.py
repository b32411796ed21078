from __future__ import annotations

from dataclasses import replace

import pytest
from toy_tables import BOARD, EMPTY

from mirrorbench.reports.renderers.numbers import MISSING, number, with_deviation, with_legend
from mirrorbench.reports.table import Score


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.743, ".743"), (0.7435, ".744"), (-0.012, "-.012"), (1.0, "1.000"), (0.9996, "1.000"), (0.0, ".000"),
     (-0.0001, ".000"), (-1.5, "-1.500"), (10.05, "10.050")],
)  # fmt: skip
def test_numbers_as_the_papers_print_them(value: float, text: str) -> None:
    assert number(value) == text


def test_a_deviation_stands_beside_its_mean() -> None:
    assert with_deviation(Score(0.7431, 0.0021, 3)) == ".743 ± .002"
    assert with_deviation(Score(-0.5, None, 1)) == "-.500"
    assert with_deviation(None) == MISSING


def test_the_dagger_is_explained_where_one_stands() -> None:
    assert with_legend(BOARD) == ["Metric: accuracy, spearman.", "† Tied: by some test.", BOARD.notes[2]]
    assert with_legend(replace(BOARD, notes=())) == ["† Not separable from the best of its column."]
    assert with_legend(EMPTY) == []
