from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError, UnknownNameError
from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.papers.tables import PaperTable, find_table, paper_tables, read_paper_table

SCORES = """
title: A table
where: A paper, Table 1
kind: scores
scale: percent
metric: spearman
defaults: {dropout: 0.1}
columns:
  - {group: STS, head: "12", task: sts12}
  - {group: STS, head: "13", task: sts13, set: {dropout: 0.1}}
  - {group: STS, head: "14", task: sts13, set: {dropout: 0.3}}
  - {head: change, difference: STS 13, minus: STS 12}
rows:
  - {label: A, encoder: roberta+mirror, values: [57.10, 58.0, null, +0.9]}
  - {label: B, encoder: null, note: unknown, values: ["-", -1.00, 0.05, "-"]}
notes:
  - one
    two
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "table1.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_printed_numbers_keep_their_digits_and_are_converted(tmp_path: Path) -> None:
    table = read_paper_table(write(tmp_path, SCORES))
    assert isinstance(table, PaperTable)
    first, second = table.printed
    assert [p.text for p in first] == ["57.10", "58.0", "", "+0.9"]
    assert [p.value for p in first] == pytest.approx([0.571, 0.58, None, 0.009])
    assert [p.unit for p in first[:2]] == pytest.approx([0.0001, 0.001])
    assert second[0].absent
    assert not first[2].absent
    assert second[1].value == pytest.approx(-0.01)
    assert table.rows[1].spec is None
    assert table.notes == ("one two",)


def test_a_column_changes_the_encoder_and_the_papers_own_value_is_left_out(tmp_path: Path) -> None:
    table = read_paper_table(write(tmp_path, SCORES))
    assert isinstance(table, PaperTable)
    assert {place: str(t.spec) for place, t in table.targets().items()} == {
        (0, 0): "roberta+mirror",
        (0, 1): "roberta+mirror",
        (0, 2): "roberta+mirror:dropout=0.3",
    }
    assert [str(t.spec) for t in table.targets(parse_spec("tiny")).values()] == [
        "tiny+mirror:dropout=0.1",
        "tiny+mirror:dropout=0.1",
        "tiny+mirror:dropout=0.3",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: A table", "titel: A table", "line 2: unknown key 'titel'; did you mean 'title'?"),
        ("kind: scores", "kind: score", "did you mean 'scores'?"),
        ("scale: percent", "scale: per-cent", "line 5: scale: 'per-cent'"),
        ("metric: spearman", "notes: []", "twice"),
        ("metric: spearman\n", "", "tasks, but no metric"),
        ("task: sts12}", "task: sts12, suite: sts}", "must have one of the keys"),
        ("57.10, 58.0", "57.10", "3 values for 4 columns"),
        ("57.10", "57,10", "5 values for 4 columns"),
        ("57.10", "571", "'571' is no number with a point"),
        ("57.10", "n/a", "'n/a' is no number"),
        ("minus: STS 12", "minus: STS", "0 columns are headed 'STS'"),
        ("encoder: roberta+mirror,", "encoder: roberta+mirror:x,", "cannot read the encoder spec"),
        ("encoder: roberta+mirror, ", "", "'encoder' is missing"),
        ("label: A,", "label: A, against: 7,", "there is no row 7"),
        ("label: A,", "label: A, against: first,", "'first' is not the number of a row"),
        ("notes:", "disagreements: [{row: 3, column: STS 12, with: x, note: y}]\nnotes:", "there is no row 3"),
        ("notes:", "inconsistencies: [{row: 1, column: STS 12, note: y}]\nnotes:", "'recomputed' is missing"),
        ("columns:", "columns: [", "not valid YAML"),
        ("rows:", "lines:", "unknown key 'lines'"),
        ("{dropout: 0.3}", "{dropout: }", "is not KEY=VALUE"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert SCORES.count(old) >= 1
    with pytest.raises(DataFormatError, match=r"table1\.yaml") as caught:
        read_paper_table(write(tmp_path, SCORES.replace(old, new, 1)))
    assert message in str(caught.value)


def test_a_file_that_is_not_there_or_not_a_spec(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="cannot be read"):
        read_paper_table(tmp_path / "none.yaml")
    with pytest.raises(DataFormatError, match="must be of type mapping"):
        read_paper_table(write(tmp_path, "- a\n- b\n"))


def test_a_table_that_is_not_there_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_table("mirror-bert/tabel3")
    assert "mirror-bert/table3" in caught.value.hint


def test_tables_come_in_printed_order() -> None:
    names = [name for name in paper_tables() if name.startswith("mirror-bert/")]
    assert names[:3] == ["mirror-bert/table1", "mirror-bert/table2", "mirror-bert/table3"]
    assert names.index("mirror-bert/table9") + 1 == names.index("mirror-bert/table10")
    assert names[-1] == "mirror-bert/figure8"
