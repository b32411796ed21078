"""Rows of a user's file, as ``tune``, ``encode`` and ``run --corpus`` read them."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.data.readers.rows import read_rows

TEXTS = ["a cat", "", "two\u2028lines", 'a "quoted" word', "null"]


def test_plain_and_compressed_text_lines_are_read(tmp_path: Path) -> None:
    data = "\ufeff" + "\r\n".join(TEXTS)
    for name, content in (("a.txt", data.encode()), ("a.txt.gz", gzip.compress(data.encode()))):
        (tmp_path / name).write_bytes(content)
        assert list(read_rows(str(tmp_path / name))) == [
            (n, (text,)) for n, text in enumerate(TEXTS, 1)
        ]


def test_rows_are_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    assert [value for _, (value,) in read_rows("-")] == ["one", "two"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"x": "one"}\n')))
    assert [value for _, (value,) in read_rows("-", ["x"])] == ["one"]


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "parquet", "csv", "tsv"])
def test_columns_are_selected_by_name(tmp_path: Path, suffix: str) -> None:
    texts = [text for text in TEXTS if text]
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        parquet.write_table(
            pyarrow.table({"text": texts, "n": range(len(texts)), "other": texts[::-1]}), path
        )
    else:
        rows = [(text, n, texts[-1 - n]) for n, text in enumerate(texts)]
        made = {
            "jsonl": "".join(
                json.dumps(dict(zip(("text", "n", "other"), row, strict=True))) + "\n"
                for row in rows
            ),
            "tsv": "text\tn\tother\n"
            + "".join(f"{text}\t{n}\t{other}\n" for text, n, other in rows),
            "csv": "text,n,other\n"
            + "".join(
                ",".join(f'"{str(v).replace(chr(34), chr(34) * 2)}"' for v in row) + "\n"
                for row in rows
            ),
        }[suffix.removesuffix(".gz")].encode()
        path.write_bytes(gzip.compress(made) if suffix.endswith("gz") else made)
    assert [
        value for _, (value,) in read_rows(str(path))
    ] == texts  # the column "text" is taken unasked
    assert [values for _, values in read_rows(str(path), ["other", "text"])] == list(
        zip(texts[::-1], texts, strict=True)
    )
    with pytest.raises(DataFormatError, match="'nothing'"):
        list(read_rows(str(path), ["nothing"]))


@pytest.mark.parametrize(
    ("name", "content", "columns", "error", "message"),
    [
        ("a.txt", b"a", ("text",), UsageError, "plain text"),
        ("a.jsonl", b'{"text": "a"}\n{', (), DataFormatError, "line 2: not JSON"),
        ("a.jsonl", b'{"x": "a", "y": "b"}', (), UsageError, "several columns"),
        ("a.csv", b'text\n"open', (), DataFormatError, "line"),
        ("a.csv", b"text;id\nhello there;1;\n", (), DataFormatError, "only column is 'text;id'"),
        (
            "a.csv",
            b"nr\ttext\n1\thello\t\n",
            (),
            DataFormatError,
            "3 columns, where the first line has 2",
        ),
        (
            "a.csv",
            b"text\nhello, there\n",
            (),
            DataFormatError,
            "line 2: 2 columns, where the first line has 1",
        ),
        ("a.csv", b'text,id\n"one\ntwo",1\nthree\n', (), DataFormatError, "line 4: 1 columns"),
        ("a.tsv", b"id\ttext\n1\ta\tb\n", (), DataFormatError, "line 2: 3 columns"),
        ("a.csv", b"text,id,text\na,1,b\n", ("text",), DataFormatError, "several columns 'text'"),
        ("a.parquet", b"PAR1 nonsense", (), DataFormatError, "Parquet"),
        ("a.parquet.gz", b"", (), UsageError, "not by gzip"),
        ("b.txt", None, (), UsageError, "no file"),
        ("b" * 300, None, (), UsageError, "no file"),
        ("", None, (), UsageError, "a folder"),
    ],
)
def test_unreadable_file_or_column_is_rejected(
    tmp_path: Path, name, content, columns, error, message
) -> None:
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        list(read_rows(str(tmp_path / name), columns))


def test_rows_are_read_lazily(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"first\n" * 100_000 + b"\xff\n")
    stream = read_rows(str(tmp_path / "a.txt"))
    assert next(stream) == (1, ("first",))  # the broken line at the end is not met
    (tmp_path / "a.csv").write_bytes(b"text\n" + b"first\n" * 100_000 + b"\xff\n")
    assert next(read_rows(str(tmp_path / "a.csv"))) == (2, ("first",))
