"""CSV and TSV files of users."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.rows import read_rows


@pytest.mark.parametrize("content", ['text\na\n""\nb\n\n', '\ntext\na\n\n""\nb\n'])
def test_empty_table_lines_are_not_rows(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert [value for _, (value,) in read_rows(str(tmp_path / "a.csv"))] == ["a", "", "b"]


def test_headerless_table_columns_are_selected_by_number(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("1\tone\n2\ttwo\n")
    assert [value for _, (value,) in read_rows(str(tmp_path / "a.tsv"), ["1"])] == ["one", "two"]
    with pytest.raises(DataFormatError, match="column 2"):
        list(read_rows(str(tmp_path / "a.tsv"), ["2"]))
