"""Columns that are kept beside vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.texts.kept_columns import KeptColumns

pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("source", "names", "error", "message"),
    [
        ("-", ["id"], UsageError, "columns of standard input are not kept"),
        ("a.csv", ["id", "id"], UsageError, "names the column 'id' twice"),
        ("a.csv", ["vector"], UsageError, "the output has a column of its own of this name"),
        ("a.csv", ["none"], DataFormatError, "has no column 'none'"),
        ("a.txt", ["id"], UsageError, "plain text, which has no columns"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused_before_anything_is_encoded(
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
    with pytest.raises(error, match=message):
        KeptColumns(source, names)


def test_values_are_those_of_the_named_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,text\n007,x\n\n008,y\n009,z\n")
    kept = KeptColumns(str(file), ["id"])
    assert kept.take([2])["id"].to_pylist() == ["007"]
    assert kept.take([4, 5])["id"].to_pylist() == ["008", "009"]


def test_change_of_the_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1}\n')
    kept = KeptColumns(str(file), ["id"])
    file.write_text('{"id": "x"}\n')
    with pytest.raises(DataFormatError, match="changed"):
        kept.take([1])
