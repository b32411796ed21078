"""The encoders and the task of a study, and the files of an analysis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.score_curves import score_curves
from helpers.workspace_parts import parts

from mirrorbench.analysis import figures
from mirrorbench.analysis.study import Analysis, Study
from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace

pytest.importorskip("matplotlib", reason="figures need the extra 'figures'")


def draw_curve() -> Any:
    return figures.curves_figure(score_curves(1, None), "dropout", False)


def test_study_takes_one_task_not_a_suite(plugins: Plugins, tmp_path: Path) -> None:
    workspace = Workspace(Settings(data_dir=tmp_path, device="cpu", offline=True), plugins)
    assert "stsb" in Study(*parts(workspace), (), "stsb").title
    with pytest.raises(UsageError, match="sts is a suite, but an analysis takes one task"):
        Study(*parts(workspace), (), "sts")


def test_written_tables_and_documents_preserve_numbers(tmp_path: Path) -> None:
    rows = [
        {"encoder": "a, b", "score": 0.1234567890123, "n": np.int64(3), "sd": None},
        {"encoder": "ü", "score": np.float32(0.5), "n": 4, "sd": float("nan")},
    ]
    more = {
        "points": np.array([1.0, np.inf]),
        "flags": (np.bool_(True),),
        "series": score_curves(1, None),
    }
    analysis = Analysis("name-task:x", rows, more, draw_curve)
    table, document, figure = analysis.write(tmp_path / "new", ["svg"])
    assert (table.name, figure.name) == ("name-task_x.csv", "name-task_x.svg")
    lines = table.read_text(encoding="utf-8").splitlines()
    assert lines == ["encoder,score,n,sd", '"a, b",0.1234567890123,3,', "ü,0.5,4,"]
    content = json.loads(document.read_text(encoding="utf-8"))
    assert (content["points"], content["flags"]) == ([1.0, "inf"], [True])
    assert content["series"]["BERT-mp"]["spec"]["backbone"] == "bert"
    assert (content["rows"][0]["score"], content["rows"][1]["sd"]) == (0.1234567890123, None)


def test_empty_analysis_is_written_but_failed_is_not(tmp_path: Path) -> None:
    table, document = Analysis("none", [], {"changed": 0}, draw_curve).write(tmp_path)
    assert table.read_text() == "\n"
    content = json.loads(document.read_text())
    assert list(content) == ["analysis", "changed", "version", "created", "rows"]
    assert content["rows"] == []
    assert Analysis("x", [], {}, None).write(tmp_path / "new", ["pdf"]) == []
    assert not (tmp_path / "new").exists()
