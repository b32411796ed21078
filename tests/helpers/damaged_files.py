"""What bad disks, copies and crashes do to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def flip(path: Path, at: int = -1) -> None:
    """Damage one byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "lost": Path.unlink,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-10]),
    "empty": lambda path: path.write_bytes(b""),
}
