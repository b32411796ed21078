"""What CONTRIBUTING.md says of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_modules_of_a_run_are_listed(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "benchmarks" / "executed.py"), "--check"]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}

    def checked(page: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*script, str(page)], capture_output=True, text=True, env=env, cwd=tmp_path, check=False
        )

    assert checked(ROOT / "CONTRIBUTING.md").returncode == 0
    page = tmp_path / "page.md"
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    page.write_text(text.replace("`runs.plan`", ""), encoding="utf-8")
    assert "does not name: runs.plan" in checked(page).stderr
