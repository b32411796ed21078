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
    """All are but one, which the test has taken out of the page."""
    page = tmp_path / "page.md"
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    page.write_text(text.replace("`runs.plan`", ""), encoding="utf-8")
    script = ROOT / "benchmarks" / "executed.py"
    done = subprocess.run(
        [sys.executable, str(script), "--tuned", "--check", str(page)],
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        cwd=tmp_path,
        check=False,
    )
    assert done.stderr.rstrip().endswith("does not name: runs.plan"), done.stderr
