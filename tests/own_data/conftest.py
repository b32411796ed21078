"""The command line, called in the process of the tests, and a user's own files."""

from __future__ import annotations

from helpers.own_data_files import write
from helpers.shell import folder, mirrorbench

__all__ = ["folder", "mirrorbench", "write"]
