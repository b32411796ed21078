from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from mirrorbench.analysis.scores import Series
from mirrorbench.analysis.study import Analysis, plain
from mirrorbench.core.specs import parse_spec

pytest.importorskip("matplotlib", reason="figures need the extra 'figures'")

from matplotlib.figure import Figure


def test_numbers_are_read_back(tmp_path: Path) -> None:
    rows = [
        {"encoder": "a, b", "score": 0.1234567890123, "n": np.int64(3), "sd": None},
        {"encoder": "ü", "score": np.float32(0.5), "n": 4, "sd": float("nan")},
    ]
    found = Analysis("kind-task:x", rows, {"points": np.array([1.0, np.inf])}, Figure)
    table, document, figure = found.write(tmp_path / "new", ["svg"])
    assert (table.name, figure.name) == ("kind-task_x.csv", "kind-task_x.svg")
    with table.open(encoding="utf-8", newline="") as stream:
        read = list(csv.DictReader(stream))
    assert read[0] == {"encoder": "a, b", "score": "0.1234567890123", "n": "3", "sd": ""}
    assert read[1] == {"encoder": "ü", "score": "0.5", "n": "4", "sd": ""}
    content = json.loads(document.read_text(encoding="utf-8"))
    assert content["points"] == [1.0, "inf"]
    assert content["rows"][0]["score"] == 0.1234567890123
    assert content["rows"][1]["sd"] is None


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    table, document = Analysis("none", [], {"changed": 0}, Figure).write(tmp_path)
    assert table.read_text() == "\n"
    content = json.loads(document.read_text())
    assert list(content) == ["analysis", "changed", "version", "created", "rows"]
    assert content["rows"] == []


def test_values_of_results_are_plain() -> None:
    assert plain({"a": (np.bool_(True), [np.float64("-inf")])}) == {"a": [True, ["-inf"]]}
    assert plain(Series(parse_spec("b+mirror"), "t", "m", "paper", ()))["spec"]["backbone"] == "b"


def test_where_all_encoders_failed_nothing_is_written(tmp_path: Path) -> None:
    assert Analysis("x", [], {}, None).write(tmp_path / "new", ["pdf"]) == []
    assert not (tmp_path / "new").exists()
