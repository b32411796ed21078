"""CSV and TSV files of users."""

from __future__ import annotations

import csv
import io
import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.csv_tables import has_header, quotes_are_marks, table_header
from mirrorbench.data.readers.rows import read_rows


def read(path: Path, *columns: str) -> tuple[list[tuple[str, ...]], list[str]]:
    """The values of columns of a file, and the remarks on it."""
    notes: list[str] = []
    return [values for _, values in read_rows(str(path), columns, notes.append)], notes


@pytest.mark.parametrize("content", ['text\na\n""\nb\n\n', '\ntext\na\n\n""\nb\n'])
def test_empty_table_lines_are_not_rows(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert read(tmp_path / "a.csv") == ([("a",), ("",), ("b",)], [])


def test_headerless_table_columns_are_selected_by_number(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("1\tone\n2\ttwo\n")
    assert read(tmp_path / "a.tsv", "1") == ([("one",), ("two",)], [])
    with pytest.raises(DataFormatError, match="line 1: there is no column 2"):
        read(tmp_path / "a.tsv", "2")


@pytest.mark.parametrize(
    ("columns", "rows", "named"),
    [
        (["0"], [["0"], ["a text"]], True),
        (["0"], [["id", "0", "1"], ["7", "a", "b"]], True),
        (["0", "2"], [["0", "1", "2"], ["1", "b", "3"]], True),
        (["1"], [["id", "1", "2"], ["7", "a", "b"]], True),
        (["2", "1"], [["id", "2", "1"], ["7", "a", "4"]], True),  # a text and its span
        (["1"], [["1", "one"], ["2", "two"]], False),
        (["1"], [["1", "great film"], ["0", "bad film"]], False),
        (["2"], [["1", "2", "some text"], ["3.5", "4", "other"]], False),
        (["1"], [["1", "great film"]], False),
        (["1"], [["7", "seven"], ["9", "nine"]], False),
        (["0", "1"], [["text", "1"], ["other", "0"]], False),
        (["text", "1"], [["text", "1"], ["other", "0"]], True),
        ([], [["0", "1"], ["a", "b"]], True),
    ],
)
def test_name_in_the_header_wins_over_a_number(
    columns: Sequence[str], rows: Sequence[Sequence[str]], named: bool
) -> None:
    assert has_header(columns, rows) == named


def test_number_read_as_a_name_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("0\na text\nanother\n")
    assert read(path, "0") == (
        [("a text",), ("another",)],
        [f"{path}: the first line holds 0, so these are names, not numbers"],
    )


def test_empty_rows_at_the_end_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,id\na,1\n,\nb,2\n,\n , \n")
    values, notes = read(path, "text", "id")
    assert values == [("a", "1"), ("", ""), ("b", "2")]
    assert notes == [f"{path}: empty rows at the end, left out: 2"]


PANDAS = ['He said "hello" to me.', "plain", 'a "b', "a\ttab", "two\nlines", "", '"', "'x'"]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_quoted_tabs_equal_what_pandas_wrote(tmp_path: Path, quoting: int) -> None:
    frame = pd.DataFrame({"id": range(len(PANDAS)), 'a "text"': PANDAS})
    path = tmp_path / "a.tsv"
    frame.to_csv(path, sep="\t", index=False, quoting=quoting)
    values, notes = read(path, 'a "text"')
    assert [value for (value,) in values] == PANDAS
    assert table_header(path, "tsv") == ["id", 'a "text"']
    assert notes == [f"{path}: quotation marks around fields are read as in CSV (RFC 4180)"]


@pytest.mark.parametrize(
    "lines",
    [
        ["text\tid", '"Hello" she said\t1'],
        ["text\tid", 'a 5" nail\t1', '"quoted ""so"""\t2'],
        ["text\tid", '"open\t1', "b\t2"],
        ["text\tid", 'a 5" pipe\t1', *[f"text {n}\t{n}" for n in range(30_000)]],
        # Marks that begin one text and end a later one would make one field of the rows between them.
        ["text\tid", '"Hello\t1', "b\t2", 'bye"\t3'],
        ["text\tid", '"a\tb"\t1', "c\t2\t3", "d\t4"],
    ],
)
def test_quotes_against_the_rules_are_text(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(lines) + "\n")
    assert quotes_are_marks(path) is False
    same_width = len({line.count("\t") for line in lines}) == 1
    if same_width:
        values, notes = read(path, "text", "id")
        assert values == [tuple(line.split("\t")) for line in lines[1:]]
        assert notes == [
            f"{path}: quotation marks are read as text, not as marks around fields (RFC 4180)"
        ]


def test_quoted_names_make_lines_of_a_field_certain(tmp_path: Path) -> None:
    """Each line has one tab, whether the marks are read or not."""
    path = tmp_path / "a.tsv"
    path.write_text('"text"\t"n"\n"first\t\nsecond"\t"y"\n"three"\t"z"\n')
    assert read(path, "text")[0] == [("first\t\nsecond",), ("three",)]
    path.write_text(path.read_text().replace('"text"\t"n"', "text\tn"))
    assert read(path, "n")[0] == [("",), ('"y"',), ('"z"',)]


def test_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("text\tid\na\t1\n",))
    writer.start()
    assert read(path, "text") == ([("a",)], [])
    writer.join()


def test_pipe_separated_by_semicolons_is_refused_at_once(tmp_path: Path) -> None:
    """It is not opened again to explain the error: without a writer, that would wait forever."""
    path = tmp_path / "a.csv"
    os.mkfifo(path)
    errors = []

    def read_pipe() -> None:
        with pytest.raises(DataFormatError, match="only column is 'text;score'") as caught:
            read(path, "text")
        errors.append(caught.value)

    threads = [
        threading.Thread(target=path.write_text, args=("text;score\na;1\n",), daemon=True),
        threading.Thread(target=read_pipe, daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (
        errors[0].hint
        == "A .csv pipe is always read with commas; write its content to a file first."
    )


def test_stated_comma_is_not_a_row_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sep=,\ntext;score\na;1\nb;2;3\n")
    with pytest.raises(DataFormatError, match="only column is") as caught:
        read(path, "text")
    assert caught.value.hint.endswith("all rows must have 2 columns; line 4 has 3.")


def test_tabs_without_quotes_need_no_rule(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tid\n'a'\t1\n\nb\t2\n")
    assert quotes_are_marks(path) is None
    assert read(path, "text") == ([("'a'",), ("b",)], [])


def test_random_tables_are_read_as_pandas_reads_them(tmp_path: Path) -> None:
    rng = random.Random(0)
    for number in range(150):
        rows = [
            ["".join(rng.choices('ab "\t\n', k=rng.randrange(1, 6))) for _ in range(3)]
            for _ in range(rng.randrange(1, 6))
        ]
        rows = [[cell if cell.strip() else "x" for cell in row] for row in rows]
        path = tmp_path / f"{number}.tsv"
        pd.DataFrame(rows, columns=list("xyz")).to_csv(path, sep="\t", index=False)
        text = path.read_text()
        if '"' not in text:
            assert quotes_are_marks(path) is None
            continue
        expected = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True))
        if not any('"' in cell for row in rows for cell in row):
            continue  # fields of several lines might be rows, which nothing tells
        values, _ = read(path, "x", "y", "z")
        assert [list(row) for row in values] == expected[1:]


@pytest.mark.parametrize("mark", [";", "|"])
def test_separator_may_be_stated_in_the_first_line(tmp_path: Path, mark: str) -> None:
    """As Excel writes and reads it; lines keep their numbers."""
    path = tmp_path / "a.csv"
    for padding in ("", " ", mark * 2):
        lines = [f"sep={mark}{padding}", f"text{mark}score", f"a, b{mark}1", f'"sep={mark}"{mark}2']
        path.write_text("".join(line + "\r\n" for line in lines), newline="")
        assert list(read_rows(str(path), ["text", "score"])) == [
            (3, ("a, b", "1")),
            (4, (f"sep={mark}", "2")),
        ]
    assert table_header(path, "csv") == ["text", "score"]


def test_tabs_in_all_lines_separate_columns_of_csv(tmp_path: Path) -> None:
    """Without a header rows may have more columns behind those that are read, which is said."""
    path = tmp_path / "a.csv"
    path.write_text('x\ta, "b"\nx\t"c\tmore\n')
    values, notes = read(path, "1")
    assert values == [('a, "b"',), ('"c',)]
    assert notes == [
        f"{path}: its columns are separated by tabs",
        f"{path}: quotation marks are read as text, not as marks around fields (RFC 4180)",
        f"{path}: rows of 2 to 3 columns, read by their numbers",
    ]
    path.write_text("x\ta\nx\n")
    assert read(path, "0") == ([("x\ta",), ("x",)], [])  # not in all lines


def test_semicolons_without_column_names_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;a\ny;b\n")
    values, (note,) = read(path, "0")
    assert values == [("x;a",), ("y;b",)]
    assert note.startswith(f"{path}: its semicolons are read as text. If semicolons separate")
    with pytest.raises(DataFormatError, match="there is no column 1") as caught:
        read(path, "1")
    assert caught.value.hint.endswith("say so in a line above the first: sep=;")
    path.write_text("sep=;\nx;a\ny;b\n")
    assert read(path, "1")[0] == [("a",), ("b",)]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_separator_of_spreadsheets_is_read_and_said(tmp_path: Path, mark: str) -> None:
    """Where the whole file has as many columns by it; else the comma is missed."""
    frame = pd.DataFrame({"text": ["a, b", 'c "d"; e', "f\ng"], "score": [1.5, 2.0, 3.0]})
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False, sep=mark, decimal=",")
    expected = [("a, b", "1,5"), ('c "d"; e', "2,0"), ("f\ng", "3,0")]
    name = {";": "semicolons", "\t": "tabs"}[mark]
    values, (note, *_) = read(path, "text", "score")
    assert (values, note) == (expected, f"{path}: its columns are separated by {name}")
    path.write_text(f"text{mark}score\na{mark}1\n\nb{mark}2{mark}3\n")
    if mark == "\t":
        with pytest.raises(DataFormatError, match="line 4: 3 columns, where the first line has 2"):
            read(path, "text")
        return
    with pytest.raises(DataFormatError, match="only column is") as caught:
        read(path, "text")
    assert caught.value.hint == (
        f"To be read as separated by {name}, all rows must have 2 columns; line 4 has 3."
    )
    with pytest.raises(DataFormatError, match="only column is"):
        table_header(path, "csv")
