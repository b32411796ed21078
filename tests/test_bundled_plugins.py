"""The packages in plugins/: each is installed on its own, found by its entry point, and passes its own tests."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PLUGINS = sorted((Path(__file__).resolve().parents[1] / "plugins").glob("*/pyproject.toml"))
# plugin -> (what it needs besides mirrorbench, the hooks that it uses)
EXPECTED = {
    "mirrorbench-mteb": ("mteb", ["register_commands", "register_tasks"]),
    "mirrorbench-ray": ("ray", ["register_executors"]),
    "mirrorbench-simcse": ("mirrorbench", ["register_augmentations", "register_methods"]),
    "mirrorbench-slurm": ("submitit", ["register_executors"]),
}


@pytest.mark.real
@pytest.mark.parametrize("project", PLUGINS, ids=lambda path: path.parent.name)
def test_installs_is_found_and_passes_its_tests(project: Path, tmp_path: Path) -> None:
    needed, hooks = EXPECTED[project.parent.name]
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"the package {needed} is not installed")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", str(tmp_path / "site"), str(project.parent)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1"}
    (name,) = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]["mirrorbench"]
    listing = subprocess.run(
        [sys.executable, "-m", "mirrorbench", "plugins", "--json"], env=environment, capture_output=True, check=True
    )
    assert [p["hooks"] for p in json.loads(listing.stdout) if p["name"] == name] == [hooks]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project.parent / "tests")]
    done = subprocess.run(tests, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
