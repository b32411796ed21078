"""What the store remembers of files that it has hashed, so that it need not hash them again."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from mirrorbench.core.errors import StorageError
from mirrorbench.core.files import writing

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a file was when it was hashed last.

    Attributes:
        size: in bytes.
        mtime_ns: its modification time; a file that changed has another one.
        sha256: its checksum.
        source: where it came from, for people.
    """

    size: int
    mtime_ns: int
    sha256: str
    source: str = ""


class Record:
    """The remembered files of one card, kept in one small JSON file.

    It saves time and pins files whose checksum the card does not know. Where it is missing or damaged the
    files are hashed again; where it cannot be written (a shared, read-only store) nothing is remembered.

    Args:
        path: the JSON file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Seen] = {}
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            self._entries = {name: Seen(**seen) for name, seen in raw.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            pass

    def get(self, name: str) -> Seen | None:
        """What is remembered of a file, by its path in the card."""
        return self._entries.get(name)

    def put(self, name: str, seen: Seen) -> None:
        """Remember a file."""
        self._entries[name] = seen
        self._write()

    def drop(self, name: str) -> None:
        """Forget a file."""
        if self._entries.pop(name, None) is not None:
            self._write()

    def distrust(self) -> None:
        """Have every file hashed again at the next look, without forgetting what its checksum must be."""
        self._entries = {name: Seen(old.size, -1, old.sha256, old.source) for name, old in self._entries.items()}

    def _write(self) -> None:
        content = {name: asdict(seen) for name, seen in sorted(self._entries.items())}
        try:
            with writing(self._path) as sink:
                sink.write(json.dumps(content, indent=1).encode())
        except StorageError as error:
            _logger.debug("checksums are not remembered: %s", error)
