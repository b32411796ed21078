"""Imports original files from a user's folder, under any names and paths.

A file is recognised by size and SHA-256, also in archives. If its checksum is not published, it is recognised by its
path: the path in its card, or the file's name in a folder named after the card. It is then adopted if the card's parser
reads it and it has the published number of items, where one is known.
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
"""Name endings of archives that are searched."""
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
        problems: messages about unreadable archives, and about files that have the name of a card's file but were not
            adopted.
    """

    folder: Path
    cards: dict[str, CardImport]
    n_files: int
    n_imported: int
    problems: tuple[str, ...]


def import_folder(folder: Path, store: DataStore, cards: Mapping[str, Card]) -> ImportReport:
    """Copy the original files of cards from anywhere under a folder into the store, and report what was found.

    Neither the folder nor a stored file is changed: a stored file with a wrong checksum is reported as altered.
    Symbolic links to folders are not followed.
    """
    if not folder.is_dir():
        raise UsageError(f"Cannot import from {folder}: there is no such folder.")
    # Names of files begin with the folder's own name, which "." does not have.
    folder = folder.resolve()
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


_Place = tuple[str, str]
"""A place in the store: a card's folder, and a path in it."""


class _Candidate(NamedTuple):
    """A file that may belong to a card: the path of its content, its checksum, and its name in messages."""

    path: Path
    sha256: str
    display_name: str


class _Importer:
    """Recognises the files of cards: by size and checksum, or by path if the checksum is not published."""

    def __init__(self, store: DataStore, cards: Iterable[Card], staging: Path) -> None:
        self._store = store
        self._staging = staging
        self.imported: set[_Place] = set()
        # Files without a published checksum, by place in the store and by their own checksum.
        self._candidates: dict[_Place, dict[str, _Candidate]] = {}
        self._problems: list[str] = []
        # Messages by the display name of the candidate.
        self._refusals: dict[str, str] = {}

        # By what files are recognised; ``_index`` fills these.
        self._sizes: set[int] = set()
        self._archive_checksums: set[str] = set()
        self._by_sha256: dict[str, list[tuple[Card, DataFile]]] = {}
        self._by_path: dict[str, set[_Place]] = {}
        for card in cards:
            for file in card.files:
                self._index(card, file)

    def _index(self, card: Card, file: DataFile) -> None:
        """Remember by what a file is recognised: size and checksum, or paths if the checksum is not published."""
        for source in file.sources:
            if isinstance(source, ArchiveSource):
                self._archive_checksums.add(source.sha256)
        if file.size is not None:
            self._sizes.add(file.size)
            self._by_sha256.setdefault(file.sha256, []).append((card, file))
            return
        name_in_folder = f"{card.name}/{PurePosixPath(file.path).name}"
        for path in (file.path, name_in_folder):
            self._by_path.setdefault(path.lower(), set()).add((card.folder, file.path))

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self._problems, *self._refusals.values())

    def examine(self, path: Path, name: str) -> None:
        """Take a file if it may belong to a card, and likewise the members of an archive.

        ``name`` is the path of the file, which begins with the name of the imported folder.
        """
        size = path.stat().st_size
        if size in self._sizes or self._places(name):
            self._take(path, name, str(path))
        if path.name.lower().endswith(ARCHIVES):
            if size > ARCHIVE_LIMIT and sha256_of(path) not in self._archive_checksums:
                self._problems.append(
                    f"{path}: not searched, because it is larger than {ARCHIVE_LIMIT >> 20} MiB"
                )
                return
            try:
                self._examine_members(path)
            except (DataFormatError, DataIntegrityError) as error:
                self._problems.append(error.message)

    def _examine_members(self, path: Path) -> None:
        with open_archive(path) as archive:
            for name, size in archive.sizes.items():
                is_named = bool(self._places(name))
                if not is_named and size not in self._sizes:
                    continue
                # The member's own name may be ".", ".." or too long. Parsers need only its ending .gz.
                suffix = ".gz" if name.endswith(".gz") else ""
                copy = Path(tempfile.mkdtemp(dir=self._staging)) / f"member{suffix}"
                with copy.open("wb") as sink:
                    sink.writelines(archive.read(name, MEMBER_LIMIT if is_named else size))
                self._take(copy, name, f"{path}: {name}")
                # A copy that may be a candidate is still needed.
                if not is_named:
                    copy.unlink()

    def _places(self, name: str) -> set[_Place]:
        """Return the store's places of files without a published checksum whose path is the end of ``name``."""
        parts = name.lower().split("/")
        places: set[_Place] = set()
        for start in range(len(parts)):
            places |= self._by_path.get("/".join(parts[start:]), set())
        return places

    def _take(self, path: Path, name: str, display_name: str) -> None:
        """Copy a file to the store if its checksum is published; otherwise remember it as a candidate by its ``name``.

        ``display_name`` is its name in messages.
        """
        candidate = _Candidate(path, sha256_of(path), display_name)
        files = self._by_sha256.get(candidate.sha256)
        if files:
            for card, file in files:
                if self._store.state(card, file) == "missing":
                    self._copy(card, file, candidate)
            return
        for place in self._places(name):
            self._candidates.setdefault(place, {}).setdefault(candidate.sha256, candidate)

    def _copy(self, card: Card, file: DataFile, candidate: _Candidate) -> None:
        with writing(self._store.root / card.folder / file.path) as sink:
            sink.writelines(pieces(candidate.path))
        self._store.adopt(card, file, candidate.sha256, candidate.display_name)
        self.imported.add((card.folder, file.path))

    def adopt_candidates(self, card: Card) -> None:
        """Copy to the store, for each missing file with unpublished checksum, the first candidate that can be parsed.

        Files for which no candidate can be parsed are then tried together.
        """
        stored = self._store.present(card)
        undecided: dict[DataFile, list[_Candidate]] = {}
        for file in card.files:
            candidates = list(self._candidates.get((card.folder, file.path), {}).values())
            if not candidates or self._store.state(card, file) != "missing":
                continue
            for candidate in candidates:
                if self._try_to_adopt(card, stored, {file: candidate}):
                    break
            else:
                undecided[file] = candidates

        # Some files can be parsed only together, such as labels and items: try a candidate of each undecided file, of
        # the same folder if it has one. The first folder whose candidates can be parsed decides all of them.
        folders: dict[Path, None] = {}
        for candidates in undecided.values():
            folders.update(dict.fromkeys(candidate.path.parent for candidate in candidates))
        for folder in folders:
            chosen = {
                file: _first_preferring(folder, candidates)
                for file, candidates in undecided.items()
            }
            if self._try_to_adopt(card, stored, chosen):
                break

    def _try_to_adopt(
        self, card: Card, stored: dict[str, Path], files: dict[DataFile, _Candidate]
    ) -> bool:
        """Copy files to the store if the card's parser reads them together with the ``stored`` ones; return whether.

        Copied files are added to ``stored``. If the parser does not read them, remember why.
        """
        paths = stored | {file.path: candidate.path for file, candidate in files.items()}
        try:
            n_items = self._store.count_items(card, paths)
            # 0 in the list: the number of items of a file is not published, so their sum is not known.
            published_rows = [file.rows for file in card.files if file.path in paths]
            if all(published_rows) and n_items != sum(published_rows):
                raise DataFormatError(f"{n_items} items, not the published {sum(published_rows)}")
        except MirrorbenchError as error:
            for file, candidate in files.items():
                # Name the user's file, not a temporary copy of an archive's member, and only once.
                name = candidate.display_name
                reason = error.message.replace(str(candidate.path), name)
                reason = reason.removeprefix(f"{name}: ")
                self._refusals[name] = f"{name}: not taken as {file.path} of {card.name}: {reason}"
            return False
        for file, candidate in files.items():
            # It may have been refused alone, or as another file.
            self._refusals.pop(candidate.display_name, None)
            self._copy(card, file, candidate)
            stored[file.path] = candidate.path
        return True

    def outcome(self, card: Card) -> CardImport:
        """Return a card's state in the store, and which files were imported or are missing, altered, unverified."""
        states = self._store.status(card)
        optional = {file.path for file in card.files if file.optional}
        missing = tuple(
            path for path, state in states.items() if state == "missing" and path not in optional
        )
        altered = tuple(path for path, state in states.items() if state == "altered")
        unverified = tuple(
            file.path for file in card.files if file.unverified and states[file.path] == "present"
        )
        state: Literal["complete", "unverified", "incomplete", "absent"]
        if not missing and not altered:
            state = "unverified" if unverified else "complete"
        elif set(states.values()) == {"missing"}:
            state = "absent"
        else:
            state = "incomplete"
        imported = tuple(
            file.path for file in card.files if (card.folder, file.path) in self.imported
        )
        return CardImport(card.name, state, imported, missing, altered, unverified)


def _first_preferring(folder: Path, candidates: list[_Candidate]) -> _Candidate:
    """Return the first candidate in a folder, or the first of all if the folder has none."""
    for candidate in candidates:
        if candidate.path.parent == folder:
            return candidate
    return candidates[0]


def _walk(folder: Path, store_root: Path) -> Iterator[Path]:
    """Yield the readable regular files under a folder in a fixed order, except those of the store."""
    root = store_root.resolve()
    for parent, subfolders, names in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if Path(parent, name).resolve() != root)
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield path
