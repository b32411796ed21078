"""The numbers in the specs against the papers' own text, digit by digit, in printed order, and against each other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pytest

from mirrorbench.reports.papers.measured import as_table, measured_table
from mirrorbench.reports.papers.tables import (
    SCALES,
    FactTable,
    PaperTable,
    Printed,
    Target,
    find_table,
    paper_tables,
)

FUZZ = 1e-9
"""For sums of floats that stand for decimal fractions."""
NUMBER = re.compile(r"\d*\.\d+")
TABLES = {name: table for name, table in paper_tables().items() if isinstance(table, PaperTable)}
# What the second copy of the first paper spoils: arrows and heads with every number three times.
SPOILT = ("mirror-bert/table2", "mirror-bert/table7", "mirror-bert/table8")
SECOND_READING = "CoSimLex (organisers)"
"""A column that stands in no paper: another measure beside the values of the printed column."""


@pytest.fixture(scope="session")
def paper_texts(shared_data: Path) -> dict[str, str]:
    """The papers as text, by file name; tests that need them are skipped where they are not."""
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"no papers at {folder}")
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}


def block(text: str, caption: str) -> list[str]:
    """The lines right above a caption, without heads."""
    lines = text.splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith(f"{caption}:")]
    while not lines[at - 1].strip():
        at -= 1
    found: list[str] = []
    while lines[at - 1].strip() and not lines[at - 1].startswith(("Table", "Figure", "Refer")):
        at -= 1
        found.insert(0, lines[at])
    return [line for line in found if not line.startswith("dropout rate")]


def numbers(lines: list[str]) -> list[str]:
    """Every number in reading order; of lines whose cells hold the values of several rows, row after row."""
    found = []
    for line in lines:
        cells = [NUMBER.findall(re.sub(r"</?[a-z]+>", "", cell)) for cell in line.split("\t")]
        stacked = max(map(len, cells))
        if "\t" in line and stacked > 1 and all(len(cell) in (0, stacked) for cell in cells) and "uparrow" not in line:
            found += [cell[i] for i in range(stacked) for cell in cells if cell]
        else:
            found += [number for cell in cells for number in cell]
    return found


def typed(table: PaperTable) -> list[str]:
    rows = [row for line, row in zip(table.rows, table.printed, strict=True) if not line.source]
    printed = [i for i, column in enumerate(table.columns) if column.head != SECOND_READING]
    return [row[i].text.lstrip("+-") for row in rows for i in printed if row[i].value is not None]


def test_every_number_is_the_papers(paper_texts: dict[str, str]) -> None:
    for paper, text, leave_out in (
        ("mirror-bert", "mirror-bert", ()),
        ("mirror-bert", "mirror-bert-second-copy", SPOILT),
        ("mirrorwic", "mirrorwic", ("mirrorwic/table8",)),
        ("poster", "mirror-bert-poster", ()),
    ):
        for name in (name for name in TABLES if name.startswith(f"{paper}/table") and name not in leave_out):
            want = numbers(block(paper_texts[text], f"Table {name.rpartition('table')[2]}"))
            assert typed(TABLES[name]) == want, (name, text)
            assert len(want) > 1


def test_numbers_that_stand_in_formulas(paper_texts: dict[str, str]) -> None:
    lines = block(paper_texts["mirrorwic"], "Table 8")
    off, on = re.search(r"\t([\d. ]+)\t(.*)$", lines[-1]).groups()  # type: ignore[union-attr]
    pairs = re.findall(r"(\d+\.\d+)_\{\\uparrow (\d\.\d+)\}", on)
    want = [x for first, rest in zip(NUMBER.findall(off), pairs, strict=True) for x in (first, *rest)]
    assert typed(TABLES["mirrorwic/table8"]) == want


def test_a_table_that_is_a_picture(paper_texts: dict[str, str]) -> None:
    text = paper_texts["mirror-bert-poster"]
    start = text.index("Model\tAvg.")
    assert typed(TABLES["poster/figure1"]) == NUMBER.findall(text[start : text.index("off-the-shelf BERT", start)])


def test_values_of_a_figure_that_the_text_names(paper_texts: dict[str, str]) -> None:
    for value in (".709", ".706", ".674", ".665"):
        assert value in typed(TABLES["mirror-bert/figure4"])
        assert value in paper_texts["mirror-bert"]


def test_the_examples_of_changed_cosines_are_the_papers(paper_texts: dict[str, str]) -> None:
    found = find_table("mirrorwic/table6")
    assert isinstance(found, FactTable)
    for row in found.rows:
        assert "\t".join((*row.label.split(" / "), *row.values)) in paper_texts["mirrorwic"]
    counted = ("94 instances changed their labels", "58 are MIRRORWIC correcting", "43 out of 58 cases", "36 cases",
               "29 are false positives")  # fmt: skip
    assert all(words in paper_texts["mirrorwic"] for words in counted)
    for number in re.findall(r"\d+", " ".join(counted)):
        assert number in found.notes[1]


# Mirror-BERT, abstract ("in 20–30 seconds"), section 4.4 and appendix B; MirrorWiC, appendices A.4 and A.5.
def test_values_that_stand_in_the_text(paper_texts: dict[str, str]) -> None:
    for name, stands in (
        ("mirror-bert", {"< 0.002": "standard deviation is  $< 0.002$", "< 0.005": "generally  $< 0.005$",
                         "10-20": "10-20 seconds is needed for 1 epoch", "20-30": "in 20–30 seconds"}),
        ("mirrorwic", {"≈ 0.003": "≈ 0.003 standard deviation for BERT", "≈ 30": "≈ 30 seconds"}),
    ):  # fmt: skip
        assert [p.text for p in TABLES[f"{name}/text"].printed[0]] == list(stands)
        for text, words in stands.items():
            assert words in paper_texts[name]
            assert re.findall(r"[\d.]+", text) == re.findall(r"[\d.]+", words)[: 1 + ("-" in text)]


def test_every_table_and_figure_that_a_paper_captions_is_listed(paper_texts: dict[str, str]) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "papers.md").read_text(encoding="utf-8")
    sections = page.partition("## Every table and figure")[2].split("### ")[1:4]
    for text, section in zip(("mirror-bert", "mirrorwic", "mirror-bert-poster"), sections, strict=True):
        captions = set(re.findall(r"^((?:Table|Figure) \d+)[:.]", paper_texts[text], re.MULTILINE))
        listed = set(re.findall(r"^\| \[?((?:Table|Figure) \d+)[\] ]", section, re.MULTILINE))
        assert captions == listed


# Bold in the paper: the best rate of each model, along the row.
def test_a_sweep_bolds_what_the_paper_bolds(paper_texts: dict[str, str]) -> None:
    text = paper_texts["mirror-bert"]
    for number, n_bold in ((12, 3), (13, 2)):
        lines = text[: text.index(f"Table {number}: ")].splitlines()[-4:]
        printed = [re.findall(r"(<b>)?(\.\d+)", line) for line in lines if "Mirror" in line]
        want = [[1 if bold else 0 for bold, _ in row] for row in printed]
        found = as_table(measured_table(TABLES[f"mirror-bert/table{number}"], [])).ranks()
        assert [[1 if mark == 1 else 0 for mark in row] for row in found] == want, number
        assert sum(map(sum, want)) == n_bold


Place = tuple[str, int, int]
"""Name of the table, row and column from 0."""


def inconsistencies(table: PaperTable) -> dict[tuple[int, int], float]:
    """Averages and differences that do not follow from the printed values, by row and column, and what does follow.

    A printed number stands for everything that is rounded to it; what is reported lies outside even so.
    """
    found = {}
    for r, row in enumerate(table.printed):
        for c, printed in enumerate(row):
            parts = _parts(table, r, c)
            if printed.value is None or not parts:
                continue
            value = sum(weight * part.value for weight, part in parts if part.value is not None)
            slack = sum(abs(weight) * part.unit / 2 for weight, part in parts) + printed.unit / 2
            if abs(printed.value - value) > slack + FUZZ:
                found[r, c] = value
    return found


def _parts(table: PaperTable, row: int, column: int) -> list[tuple[float, Printed]]:
    """The printed cells that a cell is computed from, with their weights; none if one of them has no number."""
    line, average, difference = table.printed[row], table.averaged(column), table.difference(column)
    parts: list[tuple[float, Printed]] = []
    if average:
        parts = [(1 / len(average), line[i]) for i in average]
    elif difference:
        first, second = difference
        if first != second:
            parts = [(1.0, line[first]), (-1.0, line[second])]
        elif (against := table.against(row)) is not None:
            parts = [(1.0, line[first]), (-1.0, table.printed[against][first])]
    return [] if any(part.value is None for _, part in parts) else parts


def disagreements(tables: Iterable[PaperTable]) -> list[tuple[Place, Place]]:
    """Pairs of cells of the same encoder on the same tasks that are printed with different values.

    Where one is printed with fewer digits, it is compared to that many.
    """
    places: dict[Target, list[tuple[Place, float, float]]] = {}
    for table in tables:
        for (row, column), target in table.targets().items():
            printed = table.printed[row][column]
            if printed.value is not None:
                places.setdefault(target, []).append(((table.name, row, column), printed.value, printed.unit))
    return [
        (first, second)
        for cells in places.values()
        for (first, a, unit_a), (second, b, unit_b) in combinations(cells, 2)
        if abs(a - b) > (0 if unit_a == unit_b else max(unit_a, unit_b) / 2) + FUZZ
    ]


def test_every_printed_average_and_difference_follows_or_is_declared() -> None:
    for name, table in TABLES.items():
        found = inconsistencies(table)
        assert set(found) == {table.place(x) for x in table.inconsistencies}, name
        for declared in table.inconsistencies:
            digits = len(declared.recomputed.partition(".")[2])
            value = found[table.place(declared)] * SCALES[table.scale]
            assert f"{value:.{digits}f}".lstrip("0") == declared.recomputed, name
    assert sum(len(table.inconsistencies) for table in TABLES.values()) > 0


def test_every_value_printed_twice_agrees_or_is_declared() -> None:
    declared = {(t.name, *t.place(d)): d.where for t in TABLES.values() for d in t.disagreements}
    twice = disagreements(TABLES.values())
    assert not [pair for pair in twice if declared.keys().isdisjoint(pair)]
    others = {(place, other[0]) for pair in twice for place, other in (pair, pair[::-1])}
    assert declared.items() <= others
