"""Folders that list the checksums of their files, as ``sha256sum`` does; one without its list is half of one."""

from __future__ import annotations

import hashlib
from pathlib import Path

CHECKSUMS = "SHA256SUMS"
"""The name of the list."""


def write_checksums(folder: Path) -> None:
    """Write the list; the last thing that a folder gets."""
    lines = [f"{checksum}  {name}\n" for name, checksum in _checksums(folder).items()]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def damage(folder: Path) -> str:
    """Which files of a folder are not those of its list, or that there is no list; empty if all are."""
    try:
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return f"no {CHECKSUMS}"
    expected = {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
    found = _checksums(folder)
    return ", ".join(name for name, checksum in expected.items() if found.get(name) != checksum)


def _checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder by its name, but the list itself."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != CHECKSUMS:
            with path.open("rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found
