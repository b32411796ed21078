from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_tables import BOARD, EMPTY, HOSTILE, NO_ROWS

from mirrorbench.core.errors import DataFormatError
from mirrorbench.reports.renderers import as_json
from mirrorbench.reports.table import read_table


@pytest.mark.parametrize("table", [BOARD, EMPTY, HOSTILE, NO_ROWS])
def test_a_table_comes_back_as_it_was(tmp_path: Path, table) -> None:
    file = tmp_path / "table.json"
    file.write_text(as_json(table), encoding="utf-8")
    assert read_table(file) == table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no table"),
        ("[]", "is no table"),
        ("{}", "is no table"),
        ('{"cell_id": "a", "schema": 1}', "is a single result"),
        ('{"schema": 9}', "schema 9"),
        (json.dumps({**json.loads(as_json(BOARD)), "rows": [{"encoder": "x"}]}), "is no table"),
        (as_json(BOARD).replace('"mean": 0.215', '"mean": "high"'), "is no table"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(content)
    with pytest.raises(DataFormatError, match=message):
        read_table(file)
