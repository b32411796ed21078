"""Scores and p-values as text."""

from __future__ import annotations

from mirrorbench.reports.renderers.numbers import MISSING, number, p_words, with_deviation
from mirrorbench.reports.table import Score


def test_numbers_are_printed_as_in_papers() -> None:
    for value, text in {
        0.743: ".743",
        0.7435: ".744",
        -0.012: "-.012",
        1.0: "1.000",
        0.9996: "1.000",
        0.0: ".000",
        -0.0001: ".000",
        -1.5: "-1.500",
        10.05: "10.050",
    }.items():
        assert number(value) == text
    assert with_deviation(Score(0.7431, 0.0021, 3)) == ".743 ± .002"
    assert with_deviation(Score(-0.5, None, 1)) == "-.500"
    assert with_deviation(None) == MISSING


def test_p_values_have_two_digits() -> None:
    said = {
        0: "< .001",
        0.00099: "< .001",
        0.001: "= .0010",
        0.0087: "= .0087",
        0.0996: "= .10",
        1: "= 1.0",
    }
    assert {value: p_words(value) for value in said} == said
