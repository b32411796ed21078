"""Files that are decompressed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.readers import files
from mirrorbench.data.store import DataStore


def test_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_UNPACKED", 1 << 20)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"0" * (2 << 20)))
    with pytest.raises(DataFormatError, match="more than 1 MiB once it is decompressed"):
        read_corpus(tmp_path / "a.txt.gz", DataStore(tmp_path), {})
