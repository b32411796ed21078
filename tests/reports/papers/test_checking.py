from __future__ import annotations

from pathlib import Path

import pytest
from checking import disagreements, inconsistencies

from mirrorbench.reports.papers.tables import PaperTable, read_paper_table

SPEC = """
title: t
where: w
kind: scores
scale: fraction
metric: spearman
columns:
  - {head: a, task: sts12}
  - {head: b, task: sts13}
  - {head: avg., average: all}
  - {head: change, difference: avg.}
rows:
  - {label: A, encoder: roberta+mirror, values: [%s, "-"]}
  - {label: B, encoder: bert+mirror, against: 1, values: [%s]}
"""


def table(folder: Path, name: str, first: str, second: str = "null, null, null, null") -> PaperTable:
    path = folder / f"{name}.yaml"
    path.write_text(SPEC % (first, second), encoding="utf-8")
    found = read_paper_table(path)
    assert isinstance(found, PaperTable)
    return found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (".100, .200, .150", []),
        (".100, .201, .151", []),  # .1505, rounded up
        (".100, .201, .150", []),  # rounded down: the printed values may have been rounded up themselves
        (".100, .201, .149", [(0, 2)]),
        (".100, .200, .152", [(0, 2)]),
        (".1, .2, .20", []),  # a printed .1 is anything from .05 to .15
        (".1, .2, .21", [(0, 2)]),
        (".100, null, .900", []),
    ],
)
def test_averages(tmp_path: Path, values: str, found: list[tuple[int, int]]) -> None:
    assert [(x.row, x.column) for x in inconsistencies(table(tmp_path, "t", values))] == found


@pytest.mark.parametrize(("change", "found"), [("+.100", []), ("+.101", []), ("+.102", [(1, 3)]), ("-.100", [(1, 3)])])
def test_differences(tmp_path: Path, change: str, found: list[tuple[int, int]]) -> None:
    checked = table(tmp_path, "t", ".100, .200, .150", f".200, .300, .250, {change}")
    assert [(x.row, x.column) for x in inconsistencies(checked)] == found


def test_values_printed_twice(tmp_path: Path) -> None:
    one = table(tmp_path, "one", ".100, .200, .150", ".300, .400, .350, +.200")
    two = table(tmp_path, "two", ".101, .20, .15", "null, .400, .350, +.200")
    (pair,) = disagreements([one, two])
    assert {pair.first[1:], pair.second[1:]} == {(0, 0)}
    assert {pair.first[0].rpartition("/")[2], pair.second[0].rpartition("/")[2]} == {"one", "two"}
    assert disagreements([one]) == []
