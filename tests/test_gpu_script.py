"""``benchmarks/gpu.py`` on the CPU, without the packages that a borrowed machine may lack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
MISSING = [
    "jinja2",
    "msgspec",
    "platformdirs",
    "pooch",
    "psutil",
    "rich",
    "sklearn",
    "tabulate",
    "typer",
]
SCRIPT = """
import runpy, sys
folder, *missing = sys.argv[1:]
sys.modules.update(dict.fromkeys(missing))
sys.path[0], sys.argv[:] = folder, ["gpu.py", "--mini", "--device", "cpu"]
runpy.run_path(f"{folder}/gpu.py", run_name="__main__")
"""


@pytest.mark.full
def test_gpu_script_runs_on_cpu_despite_missing_packages(tmp_path: Path) -> None:
    known = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
        "OMP_NUM_THREADS": "1"
    }
    command = [sys.executable, "-c", SCRIPT, str(FOLDER), *MISSING]
    ran = subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [
        line.strip("|").split(" | ") for line in ran.stdout.splitlines() if line.startswith("| ")
    ][1:]
    assert {len(row) for row in rows} == {4}
    assert {row[3].strip() for row in rows} == {"", "right"}  # no aim of speed is asked of a CPU
    begun = {row[0].split()[0] for row in rows}
    assert begun >= {"vectors", "dropout:", "waits", "tuning", "encoding", "searching", "4"}
