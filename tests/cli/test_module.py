"""``python -m mirrorbench``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_working_directory_modules_are_not_imported(tmp_path: Path) -> None:
    """Neither a plugin whose entry point lies there, nor a module with the name of a package that is needed."""
    told = tmp_path / "imported"
    module = f"open({str(told)!r}, 'a').write(__name__)\n"
    folder = tmp_path / "downloads"
    metadata = folder / "stranger-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mirrorbench]\nstranger = stranger\n")
    for name in ("stranger", "msgspec", "typer"):
        (folder / f"{name}.py").write_text(module)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    for safe in ({}, {"PYTHONSAFEPATH": "1"}):
        command = [sys.executable, "-m", "mirrorbench", "list", "plugins"]
        done = subprocess.run(
            command, cwd=folder, env=environment | safe, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "stranger" not in done.stdout + done.stderr
        assert not told.exists(), told.read_text()
