from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from parsing import run, simple

from mirrorbench.core.errors import DataFormatError

COLUMNS = {"left": 0, "right": 1, "gold": 2}


def test_quoted_csv(tmp_path: Path) -> None:
    content = 'Пёс.,x,2.5\r\n"Кот, ""да"".",y,0\r\n'
    got = run(
        "table",
        tmp_path,
        {"ru.csv": content},
        format="csv",
        columns=COLUMNS,
        scale=[0, 5],
    )
    assert simple(got) == [("ru/1", "Пёс.", "x", 2.5, ""), ("ru/2", 'Кот, "да".', "y", 0.0, "")]


def test_names_ids_and_subsets(tmp_path: Path) -> None:
    content = 'id\ta\tb\tg\tpart\nx1\tnull\t"NA\t0.5\tnoun\n'
    columns = {"left": "a", "right": "b", "gold": "g", "id": "id", "subset": "part"}
    got = run("table", tmp_path, {"t.tsv": content}, format="tsv", header=True, columns=columns, scale=[0, 1])
    assert simple(got) == [("x1", "null", '"NA', 0.5, "noun")]


def test_json_lines_compressed(tmp_path: Path) -> None:
    rows = [{"s": "a", "t": "b\n", "n": 1}, {"s": "c", "t": "d", "n": "2.5", "more": []}]
    content = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    columns = {"left": "s", "right": "t", "gold": "n"}
    got = run("table", tmp_path, {"t.jsonl.gz": content}, format="jsonl", columns=columns, scale=[0, 5])
    assert simple(got) == [("t/1", "a", "b\n", 1.0, ""), ("t/2", "c", "d", 2.5, "")]


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        ("csv", '"a,b,1\nc,d,2\n', "line 1: unexpected end of data"),
        ("csv", "a,b,1\nc,d\n", "line 2: 2 columns instead of 3"),
        ("csv", "a,b,1\n\n", "line 2: an empty line"),
        ("csv", '"a"x,b,1\n', "line 1: ',' expected"),
        ("tsv", "a\tb\t1\t9\nc\td\t2\n", "line 2: 3 columns instead of 4"),
        ("tsv", "a\tb\n", "column 2 is missing"),
        ("tsv", "a\t\t1\n", "column 1 is missing, empty"),
        ("tsv", "a\tb\t9\n", "outside the scale"),
        ("jsonl", "[1]\n", "not a JSON object"),
        ("jsonl", "{\n", "not JSON"),
        ("jsonl", '{"0": "a"}\n', "is missing"),
        ("jsonl", "[" * 100_000 + "\n", "not JSON"),
    ],
)
def test_what_breaks_the_format(tmp_path: Path, form: str, content: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        run("table", tmp_path, {"t": content}, format=form, columns=COLUMNS, scale=[0, 5])


@pytest.mark.parametrize("gold", ["NaN", "Infinity", "true", "null", "[]", '"nan"', "6"])
def test_gold_in_json_that_is_no_score(tmp_path: Path, gold: str) -> None:
    columns = {"left": "l", "right": "r", "gold": "g"}
    content = f'{{"l": "a", "r": "b", "g": {gold}}}\n'
    with pytest.raises(DataFormatError, match="line 1"):
        run("table", tmp_path, {"t": content}, format="jsonl", columns=columns, scale=[0, 5])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xls"}, "none of tsv, csv, jsonl"),
        ({"columns": {"left": 0}}, "'columns' must say"),
        ({"scale": 5}, "'scale' must be"),
        ({"seperator": ";"}, "unknown options seperator"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    given = {"format": "tsv", "columns": COLUMNS, "scale": [0, 5]} | options
    with pytest.raises(DataFormatError, match=message):
        run("table", tmp_path, {"t": ""}, **given)
