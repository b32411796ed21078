from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from toy_tables import BOARD, EMPTY, HOSTILE, NO_ROWS

from mirrorbench.core.errors import DataFormatError
from mirrorbench.reports.renderers import as_json, comma_separated, markdown, number
from mirrorbench.reports.renderers.text import MISSING, escape_markdown, with_deviation, with_legend
from mirrorbench.reports.table import Column, Row, Score, Table, read_table


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


def cells(text: str) -> list[list[str]]:
    return [[c.strip() for c in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")]


def test_a_github_table_with_marks() -> None:
    table = cells(markdown(BOARD))
    # A title that occurs twice is preceded by its suite.
    assert table[0] == ["encoder", "STS12", "STS-b", "sts avg.", "EN", "FR", "simlex avg.", "WiC", "avg."]
    assert table[2] == [
        "BERT-CLS", ".215 [.195, .225]", ".203 [.183, .213]", ".209 [.189, .219]", "-.042 [-.062, -.032]",
        ".562 [.542, .573]", ".260 [.240, .270]", "–", "–",
    ]  # fmt: skip
    assert [text.partition(" [")[0] for text in table[4]] == [
        "BERT + Mirror", "**.670 ± .010**", "<u>.760 ± .010</u>", "**.715 ± .010**", "**.510 ± .010**",
        "<u>.610 ± .010</u>", "<u>.560 ± .009</u>", "<u>.560 ± .010</u>", "<u>.622 ± .003</u>",
    ]  # fmt: skip
    assert table[4][2] == "<u>.760 ± .010</u> [.740, .770]†"
    lines = markdown(BOARD).splitlines()
    assert lines[0] == "**English and French**"
    assert lines[-3:] == ["† Tied: by some test.", "", "missing: roberta+base on wic"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a | b", r"a \| b"),
        ("<b> & &lt; R&D", r"\<b> & \&lt; R\&D"),
        ("*a* `b` $c$", r"\*a\* \`b\` \$c\$"),
        ("[x](y) toy [paper]", r"[x\](y) toy [paper]"),
        ("drop_head _x_", r"drop_head \_x\_"),
        ("~/model ~~x~~", r"~/model \~~x\~~"),
        ("two\nlines  here", "two lines here"),
        ("# head", r"\# head"),
        ("a\\b", r"a\\b"),
    ],
)
def test_labels_are_no_markup(text: str, escaped: str) -> None:
    assert escape_markdown(text) == escaped


def test_hostile_labels_stay_in_their_cells() -> None:
    text = markdown(HOSTILE)
    assert [len(line) for line in cells(text)] == [3, 1, 3, 3]  # the second is the rule
    assert "\\<img" in text
    assert " <img" not in text


def test_csv_keeps_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(BOARD))))
    assert [row["spec"] for row in rows] == [row.spec for row in BOARD.rows]
    assert float(rows[0]["multisimlex-en"]) == -0.0421
    assert (rows[2]["stsb seeds"], float(rows[2]["stsb sd"])) == ("3", BOARD.rows[2].scores[1].sd)  # type: ignore[union-attr]
    assert (float(rows[0]["sts12 low"]), float(rows[0]["sts12 high"])) == BOARD.rows[0].scores[0].interval  # type: ignore[union-attr]
    assert {rows[0][f"wic{part}"] for part in ("", " sd", " seeds", " low", " high")} == {""}


def test_csv_has_columns_for_intervals_only_where_there_are_some() -> None:
    table = Table("", (Column("a", "A"),), (Row("x", "x", (Score(0.1, None, 1),)),))
    assert comma_separated(table) == "encoder,spec,a,a sd,a seeds\nx,x,0.1,,1\n"


def test_csv_of_hostile_labels_can_be_read() -> None:
    rows = list(csv.reader(io.StringIO(comma_separated(HOSTILE))))
    assert rows[1][0] == HOSTILE.rows[0].label
    assert {len(row) for row in rows} == {12}


def test_json_holds_the_values() -> None:
    data = json.loads(as_json(BOARD))
    assert data["title"] == "English and French"
    assert data["columns"][1] == {
        "name": "stsb", "title": "STS-b", "suite": "sts", "level": "sentence", "languages": ["en"],
        "metric": "spearman", "average_of": [],
    }  # fmt: skip
    mirror = data["rows"][2]
    assert (mirror["encoder"], mirror["backbone"], mirror["method"]) == ("BERT + Mirror", "bert", "mirror")
    assert mirror["scores"]["wic"]["seeds"] == [[0, 0.55], [1, 0.56], [2, 0.57]]
    assert mirror["scores"]["stsb"]["tied"]
    assert data["rows"][0]["scores"]["wic"] is None
    assert data["notes"] == list(BOARD.notes)


@pytest.mark.parametrize("render", [markdown, comma_separated, as_json])
@pytest.mark.parametrize("table", [EMPTY, NO_ROWS, replace(BOARD, notes=())])
def test_any_table_can_be_rendered(render, table) -> None:
    assert render(table)


@pytest.mark.parametrize("table", [BOARD, EMPTY, HOSTILE, NO_ROWS])
def test_a_table_comes_back_as_it_was(tmp_path: Path, table) -> None:
    file = tmp_path / "table.json"
    file.write_text(as_json(table), encoding="utf-8")
    assert read_table(file) == table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no table"),
        ("[]", "is no table"),
        ("{}", "is no table"),
        ('{"cell_id": "a", "schema": 1}', "is a single result"),
        ('{"schema": 9}', "schema 9"),
        (json.dumps({**json.loads(as_json(BOARD)), "rows": [{"encoder": "x"}]}), "is no table"),
        (as_json(BOARD).replace('"mean": 0.215', '"mean": "high"'), "is no table"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(content)
    with pytest.raises(DataFormatError, match=message):
        read_table(file)
