"""``mirrorbench doctor``: the printed report, which ``runs.installation`` makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import mirrorbench as package
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.runs import installation


def test_doctor_prints_all_sections_and_variables(
    mirrorbench: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = mirrorbench(
        "doctor", "--offline", "--data-dir", str(tmp_path / "elsewhere")
    ).assert_works()
    parts = (
        "Versions",
        "Folders",
        "Hub",
        "Data",
        "Environment",
        str(tmp_path / "elsewhere"),
        "complete",
    )
    assert [part for part in (*parts, *installation.VARIABLES) if part not in printed.out] == []
    sources = "".join(
        file.read_text(encoding="utf-8") for file in Path(package.__file__).parent.rglob("*.py")
    )
    read = set(re.findall(r"\"(MIRRORBENCH_[A-Z_]+)\"", sources))  # by the code
    assert set() < read <= set(installation.VARIABLES)
    suites = len(builtin_suites())
    assert printed.out.endswith("mirrorbench data import DIR.\n")
    assert (
        f"Data of {suites - 1} of {suites} suites are not available yet" in printed.out
    )  # quick is inside the package
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "CANNOT BE WRITTEN" in mirrorbench("doctor", "--offline").assert_fails(1).out
