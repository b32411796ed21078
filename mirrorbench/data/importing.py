"""Importing original files from a user's folder, whatever their names and places in it.

A file is recognised by size, then SHA-256; archives are searched as well. A file without a known checksum is
recognised by its full path in the card.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from mirrorbench.core.errors import DataFormatError, DataIntegrityError, UsageError
from mirrorbench.core.files import writing
from mirrorbench.data.archives import MEMBER_LIMIT, open_archive
from mirrorbench.data.cards import ArchiveSource, Card, DataFile
from mirrorbench.data.store import DataStore
from mirrorbench.data.textfiles import pieces, sha256_of

ARCHIVE_LIMIT = 256 << 20
"""Largest archive in bytes that is searched, unless a card knows its checksum."""


@dataclass(frozen=True, slots=True)
class CardImport:
    """What the store holds of one card after an import; ``absent`` if none of its files.

    ``missing`` omits optional files; ``altered`` files have other content in the store and were not changed.
    """

    name: str
    state: Literal["complete", "incomplete", "absent"]
    imported: tuple[str, ...]
    missing: tuple[str, ...]
    altered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The outcome of ``import_folder``, by card.

    ``n_files`` were examined; ``n_recognised`` of them are, or contain, a file of a card. ``problems`` lists archives
    that could not be read.
    """

    folder: Path
    cards: dict[str, CardImport]
    n_files: int
    n_recognised: int
    problems: tuple[str, ...]

    @property
    def n_imported(self) -> int:
        """Number of files that were added to the store."""
        return sum(len(card.imported) for card in self.cards.values())


def import_folder(folder: Path, store: DataStore, cards: Mapping[str, Card]) -> ImportReport:
    """Copy the original files of cards, found anywhere under a folder, into the store.

    The folder is not changed and nothing in the store is replaced: a file that the store has with other content is
    reported as altered. Symbolic links to folders are not followed.
    """
    if not folder.is_dir():
        raise UsageError(f"Cannot import from {folder}: there is no such folder.")
    importer = _Importer(store, cards.values())
    folder = folder.resolve()  # so that its name is known when paths are compared
    n_files = n_recognised = 0
    for path in _walk(folder, store.root):
        n_files += 1
        relative, size = path.relative_to(folder.parent).as_posix(), path.stat().st_size
        found = importer.take(relative, size, str(path), lambda limit, path=path: pieces(path))  # type: ignore[misc]
        if path.name.lower().endswith((".zip", ".tar", ".tgz", ".tar.gz")):
            found = importer.look_into(path) or found
        n_recognised += found
    outcome = {name: importer.outcome(card) for name, card in cards.items()}
    return ImportReport(folder, outcome, n_files, n_recognised, tuple(importer.problems))


class _Importer:
    """Indexes the files of the cards by size, by checksum, and by path if the checksum is unknown."""

    def __init__(self, store: DataStore, cards: Iterable[Card]) -> None:
        self._store = store
        self._imported: dict[str, list[str]] = {}
        self.problems: list[str] = []
        files = [(card, file) for card in cards for file in card.files]
        self._by_path = [(card, file) for card, file in files if file.size is None]
        self._sizes = {file.size for _, file in files}
        self._archives = {s.sha256 for _, file in files for s in file.sources if isinstance(s, ArchiveSource)}
        self._by_sha256: dict[str, list[tuple[Card, DataFile]]] = {}
        for card, file in files:
            self._by_sha256.setdefault(file.sha256, []).append((card, file))

    def take(self, name: str, size: int, origin: str, read: Callable[[int], Iterable[bytes]]) -> bool:
        """Copy a file to all its places in the store; whether it is a file of a card.

        ``name`` is its path in the folder or archive with forward slashes, ``size`` in bytes, ``origin`` its source in
        messages; ``read`` returns the content in pieces, up to a limit.
        """
        named = [(card, file) for card, file in self._by_path if f"/{name}".endswith(f"/{file.path}")]
        if not named and size not in self._sizes:
            return False
        limit = MEMBER_LIMIT if named else size
        digest = hashlib.sha256()
        for piece in read(limit):
            digest.update(piece)
        # A known checksum decides, whatever the file's name.
        wanted = self._by_sha256.get(digest.hexdigest()) or named
        for card, file in wanted:
            if self._store.state(card, file) == "missing":
                with writing(self._store.root / card.folder / file.path) as sink:
                    sink.writelines(read(limit))
                self._store.adopt(card, file, digest.hexdigest(), origin)
                self._imported.setdefault(card.name, []).append(file.path)
        return bool(wanted)

    def look_into(self, path: Path) -> bool:
        """Import the members of an archive; whether one of them is a file of a card."""
        if path.stat().st_size > ARCHIVE_LIMIT and sha256_of(path) not in self._archives:
            self.problems.append(f"{path}: not looked into, it is larger than {ARCHIVE_LIMIT >> 20} MiB")
            return False
        try:
            with open_archive(path) as archive:
                members = archive.sizes.items()
                return any([self.take(name, n, f"{path}: {name}", partial(archive.read, name)) for name, n in members])
        except (DataFormatError, DataIntegrityError) as error:
            self.problems.append(error.message)
            return False

    def outcome(self, card: Card) -> CardImport:
        """What the store now holds of a card."""
        states = self._store.status(card)
        optional = {file.path for file in card.files if file.optional}
        missing = tuple(path for path, state in states.items() if state == "missing" and path not in optional)
        altered = tuple(path for path, state in states.items() if state == "altered")
        state: Literal["complete", "incomplete", "absent"] = "incomplete" if missing or altered else "complete"
        if set(states.values()) == {"missing"}:
            state = "absent"
        return CardImport(card.name, state, tuple(self._imported.get(card.name, ())), missing, altered)


def _walk(folder: Path, store_root: Path) -> Iterator[Path]:
    """The regular files under a folder in a fixed order, except those of the store."""
    root = store_root.resolve()
    for place, subfolders, names in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if Path(place, name).resolve() != root)
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield path
