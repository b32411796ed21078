"""Parquet files of users."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
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


def test_categories_are_texts(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": pd.Categorical(["b", "a", "b"]), "n": pd.Categorical([1, 2, 1])})
    frame.to_parquet(tmp_path / "a.parquet")
    rows = read_rows(str(tmp_path / "a.parquet"))
    assert list(rows) == [(1, ("b",)), (2, ("a",)), (3, ("b",))]
