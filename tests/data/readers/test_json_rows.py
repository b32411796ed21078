"""Columns of JSON lines; documents: ``test_json_documents``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.json_rows import json_values
from mirrorbench.data.readers.rows import silent


def test_blank_json_lines_are_skipped_but_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n\n  \n{"n": 1, "text": "b"}\n')
    assert list(json_values(str(tmp_path / "a.jsonl"), (), silent)) == [(1, ("a",)), (4, ("b",))]


def test_json_line_without_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n["b"]\n')
    with pytest.raises(DataFormatError, match=r"a\.jsonl, line 2: not a JSON object") as caught:
        list(json_values(str(tmp_path / "a.jsonl"), ("text",), silent))
    assert "Each line is an object" in caught.value.hint
