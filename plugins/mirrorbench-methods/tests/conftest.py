"""Paths, the plugin under test, and fixtures for tests of plugins."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
# The plugin, installed or not, and the fixtures of a checkout of mirrorbench.
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[2] / "tests")]

import mirrorbench_methods
from helpers.plugin_fixtures import own_folders, plugins, said

import mirrorbench
from mirrorbench.plugin import Transformer

__all__ = ["own_folders", "plugins", "said"]


@pytest.fixture
def plugin() -> ModuleType:
    return mirrorbench_methods


@pytest.fixture
def transformer() -> Transformer:
    """The embedded model."""
    transformer: Transformer = mirrorbench.load("tiny", offline=True).encoder.transformer  # type: ignore[attr-defined]
    return transformer
