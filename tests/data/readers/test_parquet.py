"""Parquet files of users."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mirrorbench.core.errors import UsageError
from mirrorbench.data.readers.rows import read_rows


def test_missing_pyarrow_is_reported_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(UsageError, match="pyarrow") as caught:
        list(read_rows(str(tmp_path / "a.parquet")))
    assert "mirrorbench[parquet]" in caught.value.hint
