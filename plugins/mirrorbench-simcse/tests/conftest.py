"""The plugin under test, and the fixtures for the tests of one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the plugin, installed or not

import mirrorbench_simcse

from mirrorbench.testing.fixtures import command, own_folders, plugins

__all__ = ["command", "own_folders", "plugins"]


@pytest.fixture
def plugin() -> ModuleType:
    return mirrorbench_simcse
