"""The executor under test, and the fixtures for tests of executors."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
# The plugin, installed or not, and the fixtures of a checkout of mirrorbench.
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "tests")]

import mirrorbench_slurm
from harness.executors import bench, interrupted
from harness.fixtures import command, own_folders, plugins, said

__all__ = ["bench", "command", "interrupted", "own_folders", "plugins", "said"]


@pytest.fixture
def plugin() -> ModuleType:
    return mirrorbench_slurm
