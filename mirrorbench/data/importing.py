"""Imports original files from a user's folder, under any names and paths.

A file is recognised by size and SHA-256, also in archives. If no checksum is published, it is recognised by its path:
that in its card, or its name in a folder named after the card. It is then adopted if the card's parser reads it and it
has the published number of items, where one is known.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from mirrorbench.core.errors import (
    DataFormatError,
    DataIntegrityError,
    MirrorbenchError,
    UsageError,
)
from mirrorbench.data.archives import MEMBER_LIMIT, open_archive
from mirrorbench.data.cards import ArchiveSource, Card, DataFile
from mirrorbench.data.readers.files import pieces, sha256_of
from mirrorbench.data.store import DataStore
from mirrorbench.storage.files import writing

ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2", ".deb")
"""Endings of the names of archives that are searched."""
ARCHIVE_LIMIT = 256 << 20
"""Limit in bytes on an archive that is searched, unless a card knows its checksum."""


@dataclass(frozen=True, slots=True)
class CardImport:
    """The state of one card in the store after an import.

    Attributes:
        name: the card's name.
        state: ``complete``; ``unverified``: complete, but some files have no published checksum; ``incomplete``; or
            ``absent``: none of its files.
        imported: paths of the files that were added to the store.
        missing: paths of the files that are missing in the store, without optional ones.
        altered: paths of the files in the store whose content is not the card's; they were not changed.
        unverified: paths of the files in the store that have no published checksum.
    """

    name: str
    state: Literal["complete", "unverified", "incomplete", "absent"]
    imported: tuple[str, ...]
    missing: tuple[str, ...]
    altered: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The outcome of ``import_folder``, by card.

    Attributes:
        n_files: number of files examined.
        n_imported: number of files added to the store.
        problems: unreadable archives, and files with the name of a card's file that were not adopted, with reasons.
    """

    folder: Path
    cards: dict[str, CardImport]
    n_files: int
    n_imported: int
    problems: tuple[str, ...]


def import_folder(folder: Path, store: DataStore, cards: Mapping[str, Card]) -> ImportReport:
    """Copy the original files of cards from anywhere under a folder into the store.

    Neither the folder nor a stored file is changed: a stored file with a wrong checksum is reported as altered.
    Symbolic links to folders are not followed.
    """
    if not folder.is_dir():
        raise UsageError(f"Cannot import from {folder}: there is no such folder.")
    folder = folder.resolve()  # compared paths begin with the folder's name, and "." has none
    with tempfile.TemporaryDirectory(prefix="mirrorbench-import-") as staging:
        importer = _Importer(store, cards.values(), Path(staging))
        n_files = 0
        for path in _walk(folder, store.root):
            n_files += 1
            importer.examine(path, path.relative_to(folder.parent).as_posix())
        for card in cards.values():
            importer.adopt_candidates(card)
    outcome = {name: importer.outcome(card) for name, card in cards.items()}
    return ImportReport(folder, outcome, n_files, len(importer.imported), importer.problems)


_Place = tuple[str, str]  # in the store: a folder, and a path in it


class _Candidate(NamedTuple):
    """A file that may be a card's: the path of its content, its checksum, and its name in messages."""

    path: Path
    sha256: str
    name: str


class _Importer:
    """Indexes the files of the cards by size, by checksum, and by path if the checksum is not published."""

    def __init__(self, store: DataStore, cards: Iterable[Card], staging: Path) -> None:
        self._store, self._staging = store, staging
        self.imported: set[_Place] = set()
        self._candidates: dict[
            _Place, dict[str, _Candidate]
        ] = {}  # files without a published checksum, by their own
        self._refused: dict[str, str] = {}  # by name
        self._problems: list[str] = []
        files = [(card, file) for card in cards for file in card.files]
        self._sizes = {file.size for _, file in files if file.size is not None}
        self._archives = {
            s.sha256 for _, file in files for s in file.sources if isinstance(s, ArchiveSource)
        }
        self._by_sha256: dict[str, list[tuple[Card, DataFile]]] = {}
        self._by_path: dict[str, set[_Place]] = {}
        for card, file in files:
            if file.size is not None:
                self._by_sha256.setdefault(file.sha256, []).append((card, file))
                continue
            for path in (file.path, f"{card.name}/{PurePosixPath(file.path).name}"):
                self._by_path.setdefault(path.lower(), set()).add((card.folder, file.path))

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self._problems, *self._refused.values())

    def examine(self, path: Path, name: str) -> None:
        """Take a file, and the members of an archive; ``name`` is its path from the folder's name on."""
        size = path.stat().st_size
        if size in self._sizes or self._places(name):
            self._take(path, name, str(path))
        if path.name.lower().endswith(ARCHIVES):
            if size > ARCHIVE_LIMIT and sha256_of(path) not in self._archives:
                self._problems.append(
                    f"{path}: not looked into, it is larger than {ARCHIVE_LIMIT >> 20} MiB"
                )
                return
            try:
                self._examine_members(path)
            except (DataFormatError, DataIntegrityError) as error:
                self._problems.append(error.message)

    def _examine_members(self, path: Path) -> None:
        with open_archive(path) as archive:
            for name, size in archive.sizes.items():
                if (named := self._places(name)) or size in self._sizes:
                    # Not under the member's own name, which may be ".", ".." or too long; parsers look for .gz alone.
                    staged = (
                        Path(tempfile.mkdtemp(dir=self._staging))
                        / f"member{'.gz' * name.endswith('.gz')}"
                    )
                    with staged.open("wb") as sink:
                        sink.writelines(archive.read(name, MEMBER_LIMIT if named else size))
                    self._take(staged, name, f"{path}: {name}")
                    if not named:
                        staged.unlink()

    def _places(self, name: str) -> set[_Place]:
        """The places in the store of files without a published checksum that have this path."""
        parts = name.lower().split("/")
        return {
            target
            for start in range(len(parts))
            for target in self._by_path.get("/".join(parts[start:]), ())
        }

    def _take(self, path: Path, name: str, shown: str) -> None:
        """Copy a file of known checksum to its places in the store; remember one known only by its path."""
        candidate = _Candidate(path, sha256_of(path), shown)
        if known := self._by_sha256.get(candidate.sha256):  # whatever the file's name
            for card, file in known:
                if self._store.state(card, file) == "missing":
                    self._copy(card, file, candidate)
            return
        for target in self._places(name):
            self._candidates.setdefault(target, {}).setdefault(candidate.sha256, candidate)

    def _copy(self, card: Card, file: DataFile, candidate: _Candidate) -> None:
        with writing(self._store.root / card.folder / file.path) as sink:
            sink.writelines(pieces(candidate.path))
        self._store.adopt(card, file, candidate.sha256, candidate.name)
        self.imported.add((card.folder, file.path))

    def adopt_candidates(self, card: Card) -> None:
        """Adopt, for each file of a card without a published checksum, the first candidate that its parser reads."""
        held = self._store.present(card)
        rest: dict[DataFile, list[_Candidate]] = {}
        for file in card.files:
            candidates = [*self._candidates.get((card.folder, file.path), {}).values()]
            if not candidates or self._store.state(card, file) != "missing":
                continue
            if not any(self._adopt(card, held, {file: candidate}) for candidate in candidates):
                rest[file] = candidates
        # Some files are only parsed together, such as labels and items: candidates of one folder are tried together.
        for folder in dict.fromkeys(
            candidate.path.parent for candidates in rest.values() for candidate in candidates
        ):
            files = {
                f: next((c for c in some if c.path.parent == folder), some[0])
                for f, some in rest.items()
            }
            if self._adopt(card, held, files):
                break

    def _adopt(self, card: Card, held: dict[str, Path], files: dict[DataFile, _Candidate]) -> bool:
        """Copy files if the card's parser reads them together with the stored ones (``held``), which they then join."""
        joined = held | {file.path: candidate.path for file, candidate in files.items()}
        try:
            n = self._store.count_items(card, joined)
            published = [file.rows for file in card.files if file.path in joined]
            if all(published) and n != sum(published):
                raise DataFormatError(f"{n} items, not the published {sum(published)}")
        except MirrorbenchError as error:
            for file, candidate in files.items():
                reason = error.message.replace(str(candidate.path), candidate.name).removeprefix(
                    f"{candidate.name}: "
                )
                self._refused[candidate.name] = (
                    f"{candidate.name}: not taken as {file.path} of {card.name}: {reason}"
                )
            return False
        for file, candidate in files.items():
            self._refused.pop(candidate.name, None)
            self._copy(card, file, candidate)
            held[file.path] = candidate.path
        return True

    def outcome(self, card: Card) -> CardImport:
        states = self._store.status(card)
        optional = {file.path for file in card.files if file.optional}
        missing = tuple(
            path for path, state in states.items() if state == "missing" and path not in optional
        )
        altered = tuple(path for path, state in states.items() if state == "altered")
        unverified = tuple(
            file.path for file in card.files if file.unverified and states[file.path] == "present"
        )
        state: Literal["complete", "unverified", "incomplete", "absent"] = (
            "unverified" if unverified else "complete"
        )
        if missing or altered:
            state = "absent" if set(states.values()) == {"missing"} else "incomplete"
        imported = tuple(
            file.path for file in card.files if (card.folder, file.path) in self.imported
        )
        return CardImport(card.name, state, imported, missing, altered, unverified)


def _walk(folder: Path, store_root: Path) -> Iterator[Path]:
    """The regular files under a folder in a fixed order, except those of the store."""
    root = store_root.resolve()
    for parent, subfolders, names in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if Path(parent, name).resolve() != root)
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield path
