"""The command line, called in the process of the tests."""

from __future__ import annotations

from helpers.shell import folder, mirrorbench, toys

__all__ = ["folder", "mirrorbench", "toys"]
