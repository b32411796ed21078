"""The command line, called in the process of the tests."""

from __future__ import annotations

from helpers.analysis_command import analyze
from helpers.shell import folder, mirrorbench

__all__ = ["analyze", "folder", "mirrorbench"]
