"""Taking original files over from a folder of the user, wherever they lie in it and whatever they are called.

A file is recognised by its content: first by its size, then by its SHA-256. Archives are looked into as well.
Files whose checksum no card knows are recognised by their path, and only by all of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mirrorbench.core.errors import DataFormatError, DataIntegrityError, UsageError
from mirrorbench.core.files import writing
from mirrorbench.data.archives import (
    MEMBER_LIMIT,
    Member,
    OpenArchive,
    is_archive,
    open_archive,
    read_member,
)
from mirrorbench.data.cards import ArchiveSource, Card, DataFile
from mirrorbench.data.store import DataStore
from mirrorbench.data.textfiles import sha256_of

ARCHIVE_LIMIT = 256 << 20
"""Bytes that an archive may have to be looked into, unless a card knows its checksum."""

Wanted = tuple[Card, DataFile]


@dataclass(frozen=True, slots=True)
class CardImport:
    """What the store holds of one card after an import.

    Attributes:
        name: the card.
        state: ``complete``, ``incomplete``, or ``absent`` (no file of it is in the store).
        imported: the paths of its files that this import brought in.
        missing: the paths of its files that the store still lacks, optional ones aside.
        altered: the paths of its files that the store holds with another content; they were left alone.
    """

    name: str
    state: Literal["complete", "incomplete", "absent"]
    imported: tuple[str, ...]
    missing: tuple[str, ...]
    altered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The outcome of ``import_folder``.

    Attributes:
        folder: the folder that was searched.
        cards: the outcome by card.
        n_files: how many files were looked at.
        n_recognised: how many of them are a file of some card, or hold one.
        problems: archives that could not be read, one line each.
    """

    folder: Path
    cards: dict[str, CardImport]
    n_files: int
    n_recognised: int
    problems: tuple[str, ...]

    @property
    def n_imported(self) -> int:
        """How many files were brought into the store."""
        return sum(len(card.imported) for card in self.cards.values())


@dataclass
class _Index:
    """What is wanted, by size, by checksum, and by path where the checksum is not known."""

    sizes: set[int] = field(default_factory=set)
    by_sha256: dict[str, list[Wanted]] = field(default_factory=dict)
    by_path: list[Wanted] = field(default_factory=list)
    archives: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, cards: Iterable[Card]) -> _Index:
        index = cls()
        for card in cards:
            for file in card.files:
                if file.size is None:
                    index.by_path.append((card, file))
                else:
                    index.sizes.add(file.size)
                    index.by_sha256.setdefault(file.sha256, []).append((card, file))
                for source in file.sources:
                    if isinstance(source, ArchiveSource) and source.sha256:
                        index.archives.add(source.sha256)
        return index

    def named(self, path: str) -> list[Wanted]:
        """The files of unknown checksum that a path (with forward slashes) ends in."""
        return [(card, file) for card, file in self.by_path if f"/{path}".endswith(f"/{file.path}")]


def import_folder(folder: Path, store: DataStore, cards: Mapping[str, Card]) -> ImportReport:
    """Find the original files of cards anywhere under a folder and copy them into the store.

    Nothing in the folder is changed, and nothing in the store is replaced: a file that the store holds with
    another content is reported as altered.

    Args:
        folder: searched with all its subfolders; linked folders are not followed.
        store: where the files go.
        cards: the cards whose files are looked for.

    Returns:
        what was found, and what each card still lacks.

    Raises:
        UsageError: there is no such folder.
        StorageError: the store cannot be written.
    """
    if not folder.is_dir():
        raise UsageError(f"Cannot import from {folder}: there is no such folder.")
    return _Importer(store, _Index.of(cards.values())).run(folder, cards)


class _Importer:
    def __init__(self, store: DataStore, index: _Index) -> None:
        self._store = store
        self._index = index
        self._imported: dict[str, list[str]] = {}
        self._problems: list[str] = []

    def run(self, folder: Path, cards: Mapping[str, Card]) -> ImportReport:
        folder = folder.resolve()  # so that its own name counts where paths are compared
        n_files = n_recognised = 0
        for path in _walk(folder, self._store.root):
            n_files += 1
            found = self._plain(path, path.relative_to(folder.parent).as_posix())
            if is_archive(path):
                found = self._archive(path) or found
            n_recognised += found
        outcome = {name: self._outcome(card) for name, card in cards.items()}
        return ImportReport(folder, outcome, n_files, n_recognised, tuple(self._problems))

    def _plain(self, path: Path, relative: str) -> bool:
        named = self._index.named(relative)
        if not named and path.stat().st_size not in self._index.sizes:
            return False
        sha256 = sha256_of(path)
        # A file whose checksum some card knows is that file, whatever its name promises.
        wanted = self._index.by_sha256.get(sha256) or named
        for card, file in wanted:
            if self._lacks(card, file):
                with writing(self._store.root / card.folder / file.path) as sink, path.open("rb") as stream:
                    shutil.copyfileobj(stream, sink, 1 << 20)
                self._adopt(card, file, sha256, str(path))
        return bool(wanted)

    def _archive(self, path: Path) -> bool:
        if path.stat().st_size > ARCHIVE_LIMIT and sha256_of(path) not in self._index.archives:
            self._problems.append(f"{path}: not looked into, it is larger than {ARCHIVE_LIMIT >> 20} MiB")
            return False
        try:
            with open_archive(path) as archive:
                return any([self._member(archive, member, path) for member in archive.members])
        except (DataFormatError, DataIntegrityError) as error:
            self._problems.append(error.message)
            return False

    def _member(self, archive: OpenArchive, member: Member, path: Path) -> bool:
        named = self._index.named(member.name)
        if not named and member.size not in self._index.sizes:
            return False
        limit = MEMBER_LIMIT if named else member.size
        digest = hashlib.sha256()
        for chunk in read_member(archive, member, limit, path):
            digest.update(chunk)
        sha256 = digest.hexdigest()
        wanted = self._index.by_sha256.get(sha256) or named
        for card, file in wanted:
            if self._lacks(card, file):
                with writing(self._store.root / card.folder / file.path) as sink:
                    for chunk in read_member(archive, member, limit, path):
                        sink.write(chunk)
                self._adopt(card, file, sha256, f"{path}: {member.name}")
        return bool(wanted)

    def _lacks(self, card: Card, file: DataFile) -> bool:
        return self._store.state(card, file) == "missing"

    def _adopt(self, card: Card, file: DataFile, sha256: str, origin: str) -> None:
        self._store.adopt(card, file, sha256, origin)
        self._imported.setdefault(card.name, []).append(file.path)

    def _outcome(self, card: Card) -> CardImport:
        states = self._store.status(card)
        optional = {file.path for file in card.files if file.optional}
        missing = tuple(path for path, state in states.items() if state == "missing" and path not in optional)
        altered = tuple(path for path, state in states.items() if state == "altered")
        state: Literal["complete", "incomplete", "absent"] = "incomplete"
        if set(states.values()) == {"missing"}:
            state = "absent"
        elif not missing and not altered:
            state = "complete"
        return CardImport(card.name, state, tuple(self._imported.get(card.name, ())), missing, altered)


def _walk(folder: Path, store_root: Path) -> Iterator[Path]:
    """The regular files under a folder in a fixed order, without the store itself."""
    root = store_root.resolve()
    for place, subfolders, names in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if Path(place, name).resolve() != root)
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield path
