from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from mirrorbench.analysis.isotropy import measure_isotropy
from mirrorbench.analysis.report import cell_text, plain, write_numbers


def test_numbers_are_read_back(tmp_path: Path) -> None:
    rows = [
        {"encoder": "a, b", "score": 0.1234567890123, "n": np.int64(3), "sd": None},
        {"encoder": "ü", "score": np.float32(0.5), "n": 4, "sd": float("nan")},
    ]
    table, document = write_numbers(tmp_path / "new" / "kind-task:x", rows, {"points": np.array([1.0, np.inf])})
    assert table.name == "kind-task:x.csv"
    with table.open(encoding="utf-8", newline="") as stream:
        read = list(csv.DictReader(stream))
    assert read[0] == {"encoder": "a, b", "score": "0.1234567890123", "n": "3", "sd": ""}
    assert read[1] == {"encoder": "ü", "score": "0.5", "n": "4", "sd": ""}
    content = json.loads(document.read_text(encoding="utf-8"))
    assert content["points"] == [1.0, "inf"]
    assert content["rows"][0]["score"] == 0.1234567890123
    assert content["rows"][1]["sd"] is None


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    table, document = write_numbers(tmp_path / "none", [], {"changed": 0})
    assert table.read_text() == "\n"
    assert json.loads(document.read_text()) == {"changed": 0, "rows": []}


def test_values_of_results_are_plain() -> None:
    assert plain(measure_isotropy(np.eye(2)))["n"] == 2
    assert plain({"a": (np.bool_(True), [np.float64("-inf")])}) == {"a": [True, ["-inf"]]}
    assert [cell_text(v) for v in (None, 0.5, 0.00012345, 12345.6, 3, "x", float("nan"), 0.0)] == [
        "–", "0.5000", "0.0001234", "1.235e+04", "3", "x", "–", "0.0000",
    ]  # fmt: skip
