"""The command line, called in the process of the tests."""

from __future__ import annotations

from helpers.shell import folder, mirrorbench, process, toys

__all__ = ["folder", "mirrorbench", "process", "toys"]
