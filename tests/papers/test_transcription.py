"""The numbers in the specs against the papers' own text, digit by digit, in printed order, and against each other."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from mirrorbench.papers import PAPERS
from mirrorbench.papers.table_files import SCALES, PaperTable, Printed, paper_tables
from mirrorbench.papers.targets import Target

FUZZ = 1e-9
"""Tolerance for sums of floats that stand for decimal fractions."""
OURS = {name: table for name, table in paper_tables().items() if name.partition("/")[0] in PAPERS}
TABLES = {name: table for name, table in OURS.items() if isinstance(table, PaperTable)}
SECOND_READING = "CoSimLex (organisers)"
"""Heading of a column that is in no paper: another measure of the printed column."""


def test_paper_tables_equal_verified_checksum() -> None:
    """A checksum holds all tables, and the figures, formulas and sentences that no test can read."""
    typed = {}
    for name, table in OURS.items():
        typed[name] = [(row.label, getattr(row, "encoder", ""), row.values) for row in table.rows]
    checksum = hashlib.sha256(json.dumps(typed, sort_keys=True).encode()).hexdigest()
    assert checksum[:16] == "d5ced30496ccfb2d", (
        "compare what you changed with the paper, then renew this checksum"
    )


def test_table_numbers_equal_text_of_papers(shared_data: Path) -> None:
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"no papers at {folder}")
    texts = {"mirror-bert": "mirror-bert", "mirrorwic": "mirrorwic", "poster": "mirror-bert-poster"}
    for name, table in TABLES.items():
        paper, category, number = re.split(r"/(\D+)", name)
        if category != "table" or name == "mirrorwic/table8":  # whose differences stand in formulas
            continue
        paper_text = (folder / f"{texts[paper]}.txt").read_text(encoding="utf-8")
        text = re.sub(r"</?[a-z]+>", "", paper_text)
        above = re.split(rf"^Table {number}:", text, maxsplit=1, flags=re.M)[0].rstrip()
        body = re.split(r"^(?:|(?:Table|Figure|Refer|dropout rate).*)\n", above, flags=re.M)[-1]
        want = re.findall(r"\d*\.\d+", body)
        printed = [i for i, column in enumerate(table.columns) if column.head != SECOND_READING]
        rows = [row for line, row in zip(table.rows, table.printed, strict=True) if not line.source]
        typed = [
            row[i].text.lstrip("+-") for row in rows for i in printed if row[i].value is not None
        ]
        # A cell of these tables' text holds the values of two rows.
        if name in ("mirrorwic/table4", "mirrorwic/table5"):
            typed.sort()
            want.sort()
        assert len(want) > 1
        assert typed == want, name


def recomputed(table: PaperTable, row: int, column: int) -> tuple[float, float]:
    """An average or a difference of printed values (or NaN), and the most that rounding may move it."""
    cells = table.printed[row]
    averaged = table.averaged(column)
    if averaged:
        parts = [cells[i] for i in averaged]
        weights = np.full(len(averaged), 1 / len(averaged))
    else:
        first, second = table.difference(column) or (0, 0)
        against = row if first != second else table.against(row)
        subtracted = Printed("") if against is None else table.printed[against][second]
        parts = [cells[first], subtracted]
        weights = np.array([1.0, -1.0])
    values = np.array([part.value for part in parts], float)
    rounding = [part.unit / 2 for part in parts]
    return float(weights @ values), float(abs(weights) @ rounding)


def test_inconsistent_averages_and_differences_are_declared() -> None:
    """Declared inconsistencies are beyond what rounding explains."""
    for name, table in TABLES.items():
        inconsistent = {}
        computed = [
            i for i, column in enumerate(table.columns) if column.average or column.difference
        ]
        for row, column in product(range(len(table.rows)), computed):
            printed = table.printed[row][column]
            if printed.value is None:
                continue
            value, slack = recomputed(table, row, column)
            if abs(printed.value - value) > slack + printed.unit / 2 + FUZZ:
                inconsistent[row, column] = value * SCALES[table.scale]
        declared = {table.cell_of(remark): remark.recomputed for remark in table.inconsistencies}
        digits = {cell: len(text.partition(".")[2]) for cell, text in declared.items()}
        texts = {
            cell: f"{value:.{digits.get(cell, 3)}f}".lstrip("0")
            for cell, value in inconsistent.items()
        }
        assert texts == declared, name
    assert any(table.inconsistencies for table in TABLES.values())


def test_disagreements_between_paper_tables_are_declared() -> None:
    """Values of the same encoder on the same tasks are compared to the fewest digits of the two."""
    cells: dict[Target, list[tuple[tuple[str, int, int], Printed]]] = {}
    for name, table in TABLES.items():
        for (row, column), target in table.targets().items():
            printed = table.printed[row][column]
            if printed.value is not None:
                cells.setdefault(target, []).append(((name, row, column), printed))
    disagreements = []
    for same_target in cells.values():
        for (first_cell, first), (second_cell, second) in combinations(same_target, 2):
            rounding = 0.0 if first.unit == second.unit else max(first.unit, second.unit) / 2
            if abs((first.value or 0) - (second.value or 0)) > rounding + FUZZ:
                disagreements.append((first_cell, second_cell))
    declared = {}
    for name, table in TABLES.items():
        for remark in table.disagreements:
            declared[name, *table.cell_of(remark)] = remark.where
    assert not [pair for pair in disagreements if declared.keys().isdisjoint(pair)]
    found = set()
    for first_cell, second_cell in disagreements:
        found.add((first_cell, second_cell[0]))
        found.add((second_cell, first_cell[0]))
    assert declared.items() <= found
