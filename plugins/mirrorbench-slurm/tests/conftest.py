"""A grid of a toy and a tuned model, computed by the executor under test and in this process."""

from __future__ import annotations

import sys
from pathlib import Path

from mirrorbench.testing.executors import bench, command, interrupted

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the plugin, installed or not

__all__ = ["bench", "command", "interrupted"]
