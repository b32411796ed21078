"""The package mirrorbench-methods, installed or not, and fixtures for tests of plugins."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "plugins" / "mirrorbench-methods"))

import mirrorbench_methods
from helpers.plugin_fixtures import plugins

__all__ = ["plugins"]


@pytest.fixture
def plugin() -> ModuleType:
    return mirrorbench_methods
