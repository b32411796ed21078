"""A user's own files, and files of results that somebody else wrote."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.readers import files
from mirrorbench.data.store import DataStore
from mirrorbench.runs.results import read_result

RESULT: dict[str, Any] = {
    "cell": {
        "spec": "bert+base",
        "task": "cats",
        "seed": 0,
        "protocol": "paper",
        "precision": {"encoding": "fp32"},
    },
    "cell_id": "0" * 64,
    "metrics": {"spearman": 0.5},
    "main_metric": "spearman",
    "main_score": 0.5,
    "n_items": 3,
    "coverage": 1.0,
    "seconds": {},
    "data": {},
    "encoder": {},
    "environment": {},
    "created": "2026-01-01",
    "schema": 1,
}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "holds no text"),
        ("a.txt", b"good\nba\0d\n", "line 2: a NUL byte"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\0\0", "NUL|not valid"),
        ("a.txt", b"good\n\xff\n", "line 2: byte 0xff is not valid UTF-8"),
        ("a.txt", "a\nb\n".encode("utf-16"), "is UTF-16"),
        ("a.txt", b"one\rtwo\rthree\r", "carriage return alone"),
        ("a.txt.gz", b"not gzip\n", "gzip stream is damaged"),
        ("a.txt.gz", gzip.compress(b"one\n" * 1000, mtime=0)[:-9], "gzip stream is damaged"),
    ],
)
def test_corpus_file_without_valid_text_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFormatError, match=message) as caught:
        read_corpus(tmp_path / name, DataStore(tmp_path / "data"), {})
    assert str(tmp_path / name) in caught.value.message


def test_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_UNPACKED", 1 << 20)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"0" * (2 << 20)))
    with pytest.raises(DataFormatError, match="more than 1 MiB once it is decompressed"):
        read_corpus(tmp_path / "a.txt.gz", DataStore(tmp_path), {})


def spoilt(**changes: Any) -> str:
    return json.dumps(
        {key: value for key, value in (RESULT | changes).items() if value != "absent"}
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"schema": 2}',
        spoilt()[:-40],
        spoilt(cell=RESULT["cell"] | {"precision": {}}),
        spoilt(cell=RESULT["cell"] | {"spec": "+:="}),
        spoilt(cell_id=5),
        spoilt(main_score=float("nan")),
        spoilt(main_score=17.3),
        spoilt(main_score=None),
        spoilt(main_metric="pearson"),
        spoilt(created="absent"),
    ],
)
def test_invalid_result_error_names_its_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "seed-0.json"
    path.write_text(spoilt())
    assert read_result(path).main_score == 0.5
    path.write_text(content)
    with pytest.raises(DataFormatError) as caught:
        read_result(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
