"""The notebooks of the documentation: without outputs in the repository, and they run from top to bottom."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.documentation_pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PICTURES = {"own_csv": 2, "table_for_a_paper": 1, "encoder_as_plugin": 1}
"""How many pictures each notebook draws."""


def cells(path: Path) -> list[dict[str, Any]]:
    return [
        cell
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_no_outputs_in_the_repository(path: Path) -> None:
    assert {(cell["execution_count"], len(cell["outputs"])) for cell in cells(path)} == {(None, 0)}


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="notebooks need mirrorbench[site]")
    nbclient = pytest.importorskip("nbclient", reason="notebooks need mirrorbench[site]")
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / "cache"))
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path / "work")}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    outputs = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == PICTURES[path.stem]
    # tqdm would like a package for bars in notebooks; nothing else warns.
    warnings = [output.text for output in outputs if output.get("name") == "stderr"]
    assert not [text for text in warnings if "TqdmWarning" not in text]
