"""Paths, the executor under test, and fixtures for its tests."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

PLUGIN = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PLUGIN), str(PLUGIN.parents[1] / "tests")]

import mirrorbench_slurm
from helpers.executor_bench import bench, interrupted
from helpers.plugin_fixtures import command, own_folders, plugins, said

__all__ = ["bench", "command", "interrupted", "own_folders", "plugins", "said"]


@pytest.fixture
def plugin() -> ModuleType:
    return mirrorbench_slurm
