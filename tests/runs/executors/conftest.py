"""The executor ``local`` is tested as those of plugins are."""

from __future__ import annotations

from types import ModuleType

import pytest
from harness.executors import bench
from harness.fixtures import plugins

from mirrorbench.runs.executors import local

__all__ = ["bench", "plugins"]


@pytest.fixture
def plugin() -> ModuleType:
    return local
