"""Excel files, as pandas and openpyxl write them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest

from mirrorbench.core.errors import DataFormatError, MirrorbenchError, UsageError
from mirrorbench.data.readers import spreadsheets
from mirrorbench.data.readers.inputs import read_inputs
from mirrorbench.data.readers.rows import read_rows
from mirrorbench.data.readers.spreadsheets import sheet_header


def save(path: Path, *rows: list[Any], **more_sheets: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for title, row in more_sheets.items():
        book.create_sheet(title).append(row)
    book.save(path)
    return path


def test_values_are_those_of_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a, b\nc", "é", "x"], "label": [1, 0, 1], "score": [1.5, 2, 3]})
    path = tmp_path / "a.xlsx"
    frame.to_excel(path, index=False)
    expected = pd.read_excel(path)
    read = list(read_rows(str(path), ["score", "text", "label"]))
    assert [number for number, _ in read] == [2, 3, 4]
    assert [values for _, values in read] == [
        (row.score, row.text, row.label) for row in expected.itertuples()
    ]
    assert sheet_header(path) == ["text", "label", "score"]
    assert [text for _, (text,) in read_rows(str(path))] == list(expected.text)


def test_other_sheets_and_surrounding_rows_are_skipped(tmp_path: Path) -> None:
    rows = [[], ["text", None, "label"], ["a", 5, "x"], ["b", None, None, "aside"], [" ", "", None]]
    path = save(tmp_path / "a.xlsx", *rows, [" "], Notes=["y"])
    book = openpyxl.load_workbook(path)
    book.active.row_dimensions[9].height = 30
    book.save(path)
    notes: list[str] = []
    assert list(read_rows(str(path), ["text", "label"], notes.append)) == [
        (3, ("a", "x")),
        (4, ("b", None)),
    ]
    assert notes == [
        f"{path}: only the first of 2 sheets is read, 'Sheet'",
        f"{path}: empty rows at the end, left out: 5",
    ]


def test_stated_sheet_size_is_ignored(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xlsx", ["text", "label"], ["a", "x"])
    other = tmp_path / "b.xlsx"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            content = source.read(name).replace(b'dimension ref="A1:B2"', b'dimension ref="A1"')
            target.writestr(name, content)
    assert b'ref="A1"' in zipfile.ZipFile(other).read("xl/worksheets/sheet1.xml")
    assert list(read_rows(str(other), ["label"])) == [(2, ("x",))]


def test_control_characters_of_texts_are_read(tmp_path: Path) -> None:
    """Shared texts hold them as ``_x000D_``, and a text of these letters as ``_x005F_x000D_``."""
    path = save(tmp_path / "a.xlsx", ["text"], ["a_x000D_\nb"], ["_x005F_x000D_"])
    assert [text for _, (text,) in read_rows(str(path))] == ["a\r\nb", "_x000D_"]


def test_empty_cell_is_a_blank_text(tmp_path: Path) -> None:
    path = save(tmp_path / "a.xlsx", ["text", "id"], ["a", 1], [None, 2], ["b", 3])
    assert [line.input.text for line in read_inputs(str(path), "text")] == ["a", "", "b"]


@pytest.mark.parametrize(
    ("rows", "columns", "error", "message"),
    [
        ([["text"], ["#N/A"]], ["text"], DataFormatError, "row 2: a formula with the error #N/A"),
        (
            [["text"], ["a"], ["=A2"]],
            ["text"],
            DataFormatError,
            "row 3: a formula without a stored",
        ),
        ([["text", "text"], ["a", "b"]], ["text"], DataFormatError, "several columns 'text'"),
        ([["a", "b"]], ["c"], DataFormatError, "no column 'c'"),
        ([["a", "b"]], [], UsageError, "several columns"),
        ([], ["a"], DataFormatError, "no column 'a'"),
    ],
)
def test_unfit_sheet_is_rejected(
    tmp_path: Path, rows: Any, columns: list[str], error: type[MirrorbenchError], message: str
) -> None:
    path = save(tmp_path / "a.xlsx", *rows)
    with pytest.raises(error, match=message):
        list(read_rows(str(path), columns))


def test_damaged_and_enormous_files_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"PK no archive")
    with pytest.raises(DataFormatError, match="not an Excel workbook, perhaps an older one"):
        sheet_header(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(DataFormatError, match="cannot be read as an Excel file"):
        sheet_header(path)
    save(path, ["text"])
    monkeypatch.setattr(spreadsheets, "MEMBER_LIMIT", 100)
    with pytest.raises(DataFormatError, match="once it is unpacked"):
        sheet_header(path)
