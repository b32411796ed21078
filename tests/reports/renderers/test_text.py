"""Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.toy_tables import BOARD, EMPTY, HOSTILE, NO_ROWS

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.reports.renderers import (
    as_json,
    comma_separated,
    markdown,
)
from mirrorbench.reports.renderers.text import escape_markdown
from mirrorbench.reports.table import Column, Row, Score, Table, read_table


def cells(text: str) -> list[list[str]]:
    return [
        [c.strip() for c in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_markdown_table_marks_best_scores() -> None:
    table = cells(markdown(BOARD))
    # A title that occurs twice is preceded by its suite.
    assert table[0] == [
        "encoder",
        "STS12",
        "STS-b",
        "sts avg.",
        "EN",
        "FR",
        "simlex avg.",
        "WiC",
        "avg.",
    ]
    assert table[2] == [
        "BERT-CLS",
        ".215 [.195, .225]",
        ".203 [.183, .213]",
        ".209 [.189, .219]",
        "-.042 [-.062, -.032]",
        ".562 [.542, .573]",
        ".260 [.240, .270]",
        "–",
        "–",
    ]
    assert [text.partition(" [")[0] for text in table[4]] == [
        "BERT + Mirror",
        "**.670 ± .010**",
        "*.760 ± .010*",
        "**.715 ± .010**",
        "**.510 ± .010**",
        "*.610 ± .010*",
        "*.560 ± .009*",
        "*.560 ± .010*",
        "*.622 ± .003*",
    ]
    assert table[4][2] == "*.760 ± .010* [.740, .770]†"
    lines = markdown(BOARD).splitlines()
    assert lines[0] == "**English and French**"
    assert lines[-3:] == ["† Tied: by some test.", "", "missing: roberta+base on wic"]


def test_markdown_labels_are_escaped() -> None:
    for text, escaped in {
        "a | b": r"a \| b",
        "<b> & &lt; R&D": r"\<b> & \&lt; R\&D",
        "*a* `b` $c$": r"\*a\* \`b\` \$c\$",
        "[x](y) toy [paper]": r"[x\](y) toy [paper]",
        "drop_head _x_": r"drop_head \_x\_",
        "~/model ~~x~~": r"~/model \~~x\~~",
        "two\nlines  here": "two lines here",
        "# head": r"\# head",
        "a\\b": r"a\\b",
    }.items():
        assert escape_markdown(text) == escaped
    text = markdown(HOSTILE)
    assert [len(line) for line in cells(text)] == [3, 1, 3, 3]  # the second is the rule
    assert "\\<img" in text
    assert " <img" not in text


def test_long_csv_has_a_row_for_each_score() -> None:
    wide = list(csv.DictReader(io.StringIO(comma_separated(BOARD))))
    long = list(csv.DictReader(io.StringIO(comma_separated(BOARD, long=True))))
    by_cell = {(row["encoder"], row["spec"], row["column"]): row["score"] for row in long}
    assert len(by_cell) == len(long)
    expected = {
        (row["encoder"], row["spec"], column.name): row[column.name]
        for row in wide
        for column in BOARD.columns
        if row[column.name]
    }
    assert by_cell == expected
    banner = list(
        csv.DictReader(io.StringIO(comma_separated(replace(BOARD, banner="b"), long=True)))
    )
    assert {row["banner"] for row in banner} == {"b"}
    with pytest.raises(UsageError, match="two tables"):
        comma_separated(BOARD, long=True, verdicts=True)


def test_csv_keeps_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(BOARD))))
    assert [row["spec"] for row in rows] == [row.spec for row in BOARD.rows]
    assert float(rows[0]["multisimlex-en"]) == -0.0421
    assert (rows[2]["stsb seeds"], float(rows[2]["stsb sd"])) == ("3", BOARD.rows[2].scores[1].sd)
    assert (float(rows[0]["sts12 low"]), float(rows[0]["sts12 high"])) == BOARD.rows[0].scores[
        0
    ].interval
    assert {rows[0][f"wic{part}"] for part in ("", " sd", " seeds", " low", " high")} == {""}
    table = Table("", (Column("a", "A"),), (Row("x", "x", (Score(0.1, None, 1),)),))
    assert (
        comma_separated(table) == "encoder,spec,a,a sd,a seeds\nx,x,0.1,,1\n"
    )  # no interval, no columns for it
    hostile = list(csv.reader(io.StringIO(comma_separated(HOSTILE))))
    assert hostile[1][0] == HOSTILE.rows[0].label
    assert {len(row) for row in hostile} == {12}


def test_json_table_is_read_back_unchanged(tmp_path: Path) -> None:
    data = json.loads(as_json(BOARD))
    assert data["columns"][1] == {
        "name": "stsb",
        "title": "STS-b",
        "suite": "sts",
        "level": "sentence",
        "languages": ["en"],
        "metric": "spearman",
        "average_of": [],
        "items": "items",
        "n_items": 0,
        "seen": 0.0,
        "source": None,
    }
    mirror = data["rows"][2]
    assert (mirror["encoder"], mirror["backbone"], mirror["method"]) == (
        "BERT + Mirror",
        "bert",
        "mirror",
    )
    assert mirror["scores"]["wic"]["seeds"] == [[0, 0.55], [1, 0.56], [2, 0.57]]
    assert data["rows"][0]["scores"]["wic"] is None
    file = tmp_path / "table.json"
    for table in (BOARD, EMPTY, HOSTILE, NO_ROWS):
        file.write_text(as_json(table), encoding="utf-8")
        assert read_table(file) == table
        assert all(render(table) for render in (markdown, comma_separated))
    for content, message in (
        ("[]", "is not a table"),
        ('{"cell_id": "a", "schema": 1}', "is a single result"),
        ('{"schema": 9}', "schema 9"),
        (json.dumps({**data, "rows": [{"encoder": "x"}]}), "is not a table"),
        (as_json(BOARD).replace('"mean": 0.215', '"mean": "high"'), "is not a table"),
    ):
        file.write_text(content)
        with pytest.raises(DataFormatError, match=message):
            read_table(file)
