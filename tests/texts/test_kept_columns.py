"""Columns that are kept beside vectors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.data.readers.inputs import read_inputs
from mirrorbench.texts.kept_columns import KeptColumns

pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("source", "names", "error", "message"),
    [
        ("-", ["id"], UsageError, "- cannot be read twice"),
        ("a.csv", ["id", "id"], UsageError, "names the column 'id' twice"),
        ("a.csv", ["vector"], UsageError, "the output already has a column of this name"),
        ("a.csv", ["none"], DataFormatError, "has no column 'none'"),
        ("pipe.csv", ["id"], UsageError, r"pipe\.csv cannot be read twice"),
        ("a.txt", ["id"], UsageError, "plain text, which has no columns"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    names: list[str],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "a.txt"):
        Path(name).write_text("id,text\n007,x\n")
    os.mkfifo("pipe.csv")
    with pytest.raises(error, match=message):
        KeptColumns(source, names)


def test_types_fit_all_rows(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "a.jsonl"
    values: list[dict[str, object]] = [
        {"a": 1, "b": None, "c": 1, "d": {}, "e": 2**70, "f": [1]},
        {"a": 2.5, "b": "x", "c": {"k": True}, "d": {}, "e": 1, "f": None},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in values))
    kept = KeptColumns(str(file), list("abcdef"))
    table = arrow.table(kept.arrays([tuple(row.values()) for row in values]))
    assert [str(column.type) for column in table.columns] == [
        "double",
        "string",
        "string",
        "string",
        "string",
        "list<item: int64>",
    ]
    assert table["c"].to_pylist() == ["1", '{"k": true}']
    assert table["e"].to_pylist() == [str(2**70), "1"]
    columns = {
        "a": arrow.array([1, None], arrow.int8()),
        "b": arrow.array([[("x", 1)], []], arrow.map_(arrow.string(), arrow.int64())),
        "c": arrow.array(["x", "y"]).dictionary_encode(),
        "d": arrow.array([0, 1], arrow.timestamp("us")),
        "e": arrow.array([None, None], arrow.string()),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    stored = parquet.read_table(tmp_path / "a.parquet")
    kept = KeptColumns(str(tmp_path / "a.parquet"), list("abcde"))
    rows = list(zip(*(column.to_pylist() for column in stored.columns), strict=True))
    assert arrow.table(kept.arrays(rows)).equals(stored)


def test_value_of_another_type_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n')
    kept = KeptColumns(str(file), ["id"])
    with pytest.raises(DataFormatError, match="changed"):
        kept.arrays([("x",)])


def test_numeric_names_are_those_of_the_header(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1,2,text\n10,20,hello\n11,21,bye\n")
    lines = read_inputs(str(file), "text", keep=("1",))
    assert [line.kept for line in lines] == [("10",), ("11",)]
    file.write_text("id;text;2020\n5;a, b;x\n6;c, d;y\n")
    lines = read_inputs(str(file), "", keep=("2020", "id"))
    assert list(lines) == [
        (2, TextInput("a, b"), ("x", "5")),
        (3, TextInput("c, d"), ("y", "6")),
    ]
