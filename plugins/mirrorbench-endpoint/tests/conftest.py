"""Paths, the plugin, and fixtures for its tests."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
# The plugin, installed or not, and the fixtures of a checkout of mirrorbench.
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[2] / "tests")]

pytest.importorskip("openai")
import mirrorbench_endpoint
from helpers.plugin_fixtures import own_folders, plugins, said

__all__ = ["own_folders", "plugins", "said"]


@pytest.fixture
def plugin() -> ModuleType:
    return mirrorbench_endpoint


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a few milliseconds where the client would wait for seconds."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.02)
