"""Tables in files, shards and archives."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from helpers.own_data_files import Write

from mirrorbench.core.errors import UsageError
from mirrorbench.own_data.tables import OwnTable, tables_in


def test_shards_are_one_table_with_continuous_line_numbers(write: Write, tmp_path: Path) -> None:
    for shard, texts in enumerate((["a", "b"], ["c"], ["d"])):
        write(f"data/test-{shard:05}-of-00003.parquet", {"text": texts})
    write("data/train-00000-of-00001-0123456789abcdef.parquet", {"text": ["x"]})
    tables = tables_in(tmp_path)
    assert list(tables) == ["test", "train"]
    rows = tables["test"].rows(["text"], print, named=True)
    assert list(rows) == [(1, ("a",)), (2, ("b",)), (3, ("c",)), (4, ("d",))]
    first = tmp_path / "data" / "test-00000-of-00003.parquet"
    assert (str(tables["test"]), tables["test"].columns()) == (f"{first} (and 2 more)", ["text"])
    (tmp_path / "data" / "test-00001-of-00003.parquet").unlink()
    with pytest.raises(UsageError, match=r"does not hold each shard of test\.parquet once"):
        tables_in(tmp_path)


def test_text_with_tabs_is_a_table_if_alone(write: Write, tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_bytes(b"caf\xe9\tnote\n")
    assert list(tables_in(tmp_path)) == ["README"]
    write("mine.csv", {"text": ["a"]})
    assert list(tables_in(tmp_path)) == ["mine"]


def test_table_in_two_formats_is_refused(write: Write, tmp_path: Path) -> None:
    for ending in ("csv", "jsonl"):
        write(f"test.{ending}", {"text": ["a"]})
    with pytest.raises(UsageError, match=r"test\.csv and test\.jsonl are both the table 'test'"):
        tables_in(tmp_path)
    assert tables_in(tmp_path, exclude="test") == {}


def test_parquet_files_in_archives_are_not_tables(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for ending in ("csv", "parquet"):
            file = write(f"{ending}.{ending}", {"text": ["a"]})
            archive.write(file, f"{ending}.{ending}")
    assert tables_in(path) == {"csv": OwnTable((path / "csv.csv",))}
