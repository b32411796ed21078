"""The executor ``local`` is tested as those of plugins are."""

from __future__ import annotations

from types import ModuleType

import pytest

from mirrorbench.executors import local
from mirrorbench.testing.executors import bench
from mirrorbench.testing.fixtures import plugins

__all__ = ["bench", "plugins"]


@pytest.fixture
def plugin() -> ModuleType:
    return local
