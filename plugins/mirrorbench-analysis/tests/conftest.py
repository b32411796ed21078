"""Paths and fixtures for the tests of a plugin in a checkout, installed or not."""

from __future__ import annotations

import sys
from pathlib import Path

PLUGIN = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PLUGIN), str(PLUGIN / "tests"), str(PLUGIN.parents[1] / "tests")]

from harness.fixtures import own_folders
from harness.shell import folder, mirrorbench

__all__ = ["folder", "mirrorbench", "own_folders"]
