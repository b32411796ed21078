"""The package mirrorbench-ray, installed or not, and fixtures for tests of executors."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "plugins" / "mirrorbench-ray"))

import mirrorbench_ray
from helpers.executor_bench import bench
from helpers.plugin_fixtures import plugins

__all__ = ["bench", "plugins"]


@pytest.fixture
def plugin() -> ModuleType:
    return mirrorbench_ray
