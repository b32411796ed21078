"""What stands on a page of the documentation: its commands, and the files that it shows."""

from __future__ import annotations

import re
from pathlib import Path

_COMMAND = re.compile(r"^\$ (.*)$", re.M)
# A block of code is a file where the text before it ends in the file's name: `pets.yaml`:
_FILE = re.compile(r"`([\w.-]+)`:\n\n```\w+\n(.*?)^```$", re.M | re.S)


def commands(page: Path) -> list[str]:
    """The commands, in their order."""
    return _COMMAND.findall(page.read_text(encoding="utf-8"))


def files(page: Path) -> dict[str, str]:
    """The files, by name."""
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))
