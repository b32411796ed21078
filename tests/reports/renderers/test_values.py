from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from toy_tables import BOARD, EMPTY, HOSTILE, NO_ROWS

from mirrorbench.reports.renderers import as_json, comma_separated
from mirrorbench.reports.table import Column, Row, Score, Table


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


@pytest.mark.parametrize("render", [comma_separated, as_json])
@pytest.mark.parametrize("table", [EMPTY, NO_ROWS, replace(BOARD, notes=())])
def test_any_table_can_be_rendered(render, table) -> None:
    assert render(table)
