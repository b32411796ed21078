"""Rows of published tables; ``parsers/test_broken_files`` has what is refused in each format."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.dataset_tables import Columns, by_name, parallel_labels


def write(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def test_header_decides_the_order_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "score\tmore\tleft\n2.5\tx\ta cat\n")
    (row,) = Columns(("left", "score"), header="order").read(path)
    assert (row.line, row.text("left"), row.number("score", (0, 5))) == (2, "a cat", 2.5)
    with pytest.raises(DataFormatError, match="the header is not left, score"):
        Columns(("left", "score"), header="exact").read(path)


def test_columns_without_names_are_numbered(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'a,"b, ""c"""\nd,e\n')
    rows = Columns((), separator=",").read(path)
    assert [(row.text(0), row.text(1)) for row in rows] == [("a", 'b, "c"'), ("d", "e")]


def test_ids_are_unique_among_all_files(tmp_path: Path) -> None:
    files = {name: write(tmp_path, name, "x\n") for name in ("a.tsv", "b.tsv")}
    first, second = Columns(("id",)).read_all(files)
    assert first.unique("x") == "x"
    with pytest.raises(DataFormatError, match=r"b\.tsv, line 1: the id 'x' .*a\.tsv, line 1"):
        second.unique("x")


def test_labels_are_unknown_without_their_file(tmp_path: Path) -> None:
    rows = Columns(("text",)).read(write(tmp_path, "a.tsv", "one\ntwo\n"))
    labels = {"F": 0, "T": 1}
    assert parallel_labels(write(tmp_path, "gold", "T\n F\n"), rows, labels) == [1, 0]
    assert parallel_labels(None, rows, labels) == [None, None]


def test_groups_have_the_order_of_their_files() -> None:
    names = ("x/dev.gold.txt", "test.txt", "x/dev.txt", "test.gold.txt")
    files = {name: Path(name) for name in names}
    pattern = r"(?P<group>dev|test)(\.(?P<part>gold))?\.txt"
    groups = by_name(files, pattern, "GROUP.PART.txt", ("data", "gold"))
    assert list(groups) == ["test", "dev"]
    assert groups["dev"] == {"data": Path("x/dev.txt"), "gold": Path("x/dev.gold.txt")}
