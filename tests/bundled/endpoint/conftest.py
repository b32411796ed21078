"""The package mirrorbench-endpoint, installed or not, and the server of its tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).resolve().parents[3] / "plugins" / "mirrorbench-endpoint"
sys.path[:0] = [str(_PACKAGE), str(_PACKAGE / "tests")]

pytest.importorskip("openai")
