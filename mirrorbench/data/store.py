"""The store: one folder of original files, each handed out only once its checksum has been seen.

Layout: ``<root>/<folder of the card>/<file path>``. Beside the files of a card lies ``.verified.json``: size,
    modification time
and checksum of each file that was hashed, so that a run does not hash hundreds of megabytes again.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from mirrorbench.core.errors import DataIntegrityError, DataUnavailableError, StorageError
from mirrorbench.core.files import writing
from mirrorbench.data.cards import BesideSource, Card, DataFile, PackageSource
from mirrorbench.data.textfiles import sha256_of

FileState = Literal["present", "missing", "altered"]
UNVERIFIED = "unverified"
"""Stands in the data identity before the checksum that was found where none was known, alone before that."""

_logger = logging.getLogger(__name__)


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileRecord:
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


class CardRecord:
    """The remembered files of one card, kept in one small JSON file.

    It saves time and pins files whose checksum the card does not know. Where it is missing or damaged the
    files are hashed again; where it cannot be written (a shared, read-only store) nothing is remembered.

    Args:
        path: the JSON file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, FileRecord] = {}
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            self._entries = {name: FileRecord(**seen) for name, seen in raw.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            pass

    def get(self, name: str) -> FileRecord | None:
        """What is remembered of a file, by its path in the card."""
        return self._entries.get(name)

    def put(self, name: str, seen: FileRecord) -> None:
        """Remember a file."""
        self._entries[name] = seen
        self._write()

    def drop(self, name: str) -> None:
        """Forget a file."""
        if self._entries.pop(name, None) is not None:
            self._write()

    def distrust(self) -> None:
        """Have every file hashed again at the next look, without forgetting what its checksum must be."""
        self._entries = {name: FileRecord(old.size, -1, old.sha256, old.source) for name, old in self._entries.items()}

    def _write(self) -> None:
        content = {name: asdict(seen) for name, seen in sorted(self._entries.items())}
        try:
            with writing(self._path) as sink:
                sink.write(json.dumps(content, indent=1).encode())
        except StorageError as error:
            _logger.debug("checksums are not remembered: %s", error)


@dataclass(frozen=True, slots=True)
class ResolvedData:
    """The data that a task will be scored on: what to parse, how, and what identifies it.

    Attributes:
        files: the files by the path in their card.
        parser: the parser's name.
        options: its options.
        checksums: SHA-256 by path; a converted copy stands under ``hf:<repo>@<revision>/<path>``.
        verified: whether every checksum was known beforehand; otherwise it is what was found at the first
            fetch.
    """

    files: dict[str, Path]
    parser: str
    options: dict[str, Any]
    checksums: dict[str, str]
    verified: bool


def data_root() -> Path:
    """The folder of the store: ``MIRRORBENCH_DATA``, or else the platform's data directory of the user."""
    if configured := os.environ.get("MIRRORBENCH_DATA"):
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("mirrorbench", appauthor=False)) / "data"


class DataStore:
    """A folder of verified data files.

    Args:
        root: the folder; ``None`` for ``data_root()``. It is made when the first file is written.
        offline: never open a socket; what is not here is an error.
    """

    def __init__(self, root: Path | None = None, offline: bool = False) -> None:
        self.root = data_root() if root is None else Path(root).expanduser()
        self.offline = offline
        self._records: dict[str, CardRecord] = {}
        self._sought: set[Path] = set()  # optional files that no source had: asked for once in a run

    def location(self, card: Card, file: DataFile) -> Path:
        """Where a file lies, or would lie; a file in the package is read there unless the store has it."""
        stored = self.root / card.folder / file.path
        if not stored.exists():
            for source in file.sources:
                if isinstance(source, PackageSource | BesideSource) and source.location.is_file():
                    return source.location
        return stored

    def path(self, card: Card, file: DataFile) -> Path:
        """A verified file, fetched if it is not here and that is permitted.

        Raises:
            DataUnavailableError: it is not here and cannot be had.
            DataIntegrityError: it is here, but truncated or altered.
        """
        return self._collect(card, (file,))[file.path]

    def files(self, card: Card, split: str | None = None) -> dict[str, Path]:
        """The verified original files of a card by their path, fetched where that is needed and permitted.

        Args:
            card: the card.
            split: only the files of this split; ``None`` for all.

        Raises:
            DataUnavailableError: files are not here and cannot be had.
            DataIntegrityError: a file is here, but truncated or altered.
        """
        return self._collect(card, card.files_of(split))

    def resolve(self, card: Card) -> ResolvedData:
        """The data of the split that the card scores: the originals, or the converted copy as a last resort.

        The converted copy is taken if it is here and the originals are not, or if no source of the originals
        can be reached. It is never taken silently: there is a warning, and ``checksums`` says so.

        Raises:
            DataUnavailableError: neither can be had.
            DataIntegrityError: a file is here, but truncated or altered.
        """
        files = card.files_of(card.split)
        copy = card.converted.file if card.converted else None
        if not self._complete(card, files) and not (copy and self._complete(card, (copy,))):
            self.fetch(card, card.split)
        if copy is None or card.converted is None or self._complete(card, files):
            return ResolvedData(
                files=self._collect(card, files),
                parser=card.parser,
                options=dict(card.options),
                checksums=self.checksums(card),
                verified=not any(file.unverified for file in files),
            )
        _logger.warning("%s: scored on a converted copy (%s), not the originals.", card.name, card.converted.identity)
        return ResolvedData(
            files=self._collect(card, (copy,)),
            parser="table",
            options={**card.converted.options, "rows": card.converted.rows},
            checksums=self.checksums(card),
            verified=False,
        )

    def checksums(self, card: Card) -> dict[str, str]:
        """What identifies the data that the card scores, without reading the data.

        The checksums come from the card. For a file whose checksum no card knows, it is ``unverified:`` and
        what was found at the first fetch, or ``unverified`` before; so take the identity of a result after
        ``resolve``.

        Returns:
            SHA-256 by file path, or by ``hf:<repo>@<revision>/<path>`` where only the converted copy is here.
        """
        files = card.files_of(card.split)
        copy = card.converted.file if card.converted else None
        if card.converted and copy and not self._complete(card, files) and self._complete(card, (copy,)):
            return {card.converted.identity: self._found(card, copy)}
        return {file.path: file.sha256 or self._found(card, file) for file in self._held(card, files)}

    def status(self, card: Card) -> dict[str, FileState]:
        """Whether each original file is here and intact; hashes only what was not hashed before."""
        return {file.path: self.state(card, file) for file in card.files}

    def verify(self, card: Card) -> dict[str, FileState]:
        """As ``status``, but hashes every file again."""
        self._record(card).distrust()
        return self.status(card)

    def fetch(self, card: Card, split: str | None = None, force: bool = False) -> dict[str, Path]:
        """Fetch what is missing; with ``force`` also what was altered, which is kept as ``NAME.altered``.

        Where no source of the originals can be reached, the card's converted copy is fetched, if it has one.

        Args:
            card: the card.
            split: only the files of this split; ``None`` for all.
            force: replace altered files.

        Returns:
            the verified files by their path: the originals, or the converted copy.

        Raises:
            DataUnavailableError: a file cannot be had.
            DataIntegrityError: a file was altered, and ``force`` is not set.
        """
        files = card.files_of(split)
        if force:
            for file in files:
                if self.state(card, file) == "altered":
                    self._set_aside(card, file)
        try:
            return self._collect(card, files)
        except DataUnavailableError as error:
            copy = card.converted.file if card.converted else None
            if copy is None or self.offline:
                raise
            try:
                return self._collect(card, (copy,))
            except DataUnavailableError as second:
                message = f"{error.message}\nNor can the converted copy be had:\n{second.message}"
                raise DataUnavailableError(message, error.hint) from second

    def adopt(self, card: Card, file: DataFile, sha256: str, source: str) -> None:
        """Record a file that was put at its place and hashed on the way.

        Args:
            card: the card.
            file: the file, at ``root/card/path``.
            sha256: the checksum that was found.
            source: where it came from, for people.
        """
        stat = (self.root / card.folder / file.path).stat()
        self._record(card).put(file.path, FileRecord(stat.st_size, stat.st_mtime_ns, sha256, source))

    def _collect(self, card: Card, files: tuple[DataFile, ...]) -> dict[str, Path]:
        missing = [file for file in files if self._usable(card, file) is None]
        if missing:
            self._fetch(card, missing)
        return {file.path: self.location(card, file) for file in self._held(card, files)}

    def _held(self, card: Card, files: tuple[DataFile, ...]) -> list[DataFile]:
        """The files without those that are optional and not here."""
        return [file for file in files if not file.optional or self.state(card, file) != "missing"]

    def _usable(self, card: Card, file: DataFile) -> Path | None:
        state = self.state(card, file)
        if state == "altered":
            raise self._altered(card, file)
        return self.location(card, file) if state == "present" else None

    def _fetch(self, card: Card, files: list[DataFile]) -> None:
        from mirrorbench.data.sources import Fetcher, NoSourceError, unavailable

        if self.offline:
            if needed := [file for file in files if not file.optional]:
                raise unavailable(card, needed, [], offline=True)
            return
        with Fetcher(self.root) as fetcher:
            for index, file in enumerate(files):
                target = self.root / card.folder / file.path
                if target in self._sought:
                    continue
                try:
                    source = fetcher.fetch(file, target)
                except NoSourceError as error:
                    if file.optional:
                        self._sought.add(target)
                        continue
                    raise unavailable(card, files[index:], error.failures) from error
                self.adopt(card, file, sha256_of(target), source.describe())

    def _complete(self, card: Card, files: tuple[DataFile, ...]) -> bool:
        return all(self.state(card, file) != "missing" for file in files if not file.optional)

    def state(self, card: Card, file: DataFile) -> FileState:
        """Whether a file is here and intact; it is hashed only if it changed since it was hashed last."""
        path = self.location(card, file)
        if not path.is_file():
            return "missing"
        stat = path.stat()
        if file.size is not None and stat.st_size != file.size:
            return "altered"
        seen = self._record(card).get(file.path)
        if seen is None or (seen.size, seen.mtime_ns) != (stat.st_size, stat.st_mtime_ns):
            found = sha256_of(path)
            expected = file.sha256 or (seen.sha256 if seen else found)
            if found != expected:
                return "altered"
            origin = seen.source if seen else ""
            seen = FileRecord(stat.st_size, stat.st_mtime_ns, found, origin)
            self._record(card).put(file.path, seen)
        return "present" if file.sha256 in ("", seen.sha256) else "altered"

    def _altered(self, card: Card, file: DataFile) -> DataIntegrityError:
        path = self.location(card, file)
        size = path.stat().st_size
        expected = file.sha256 or self._found(card, file).removeprefix(f"{UNVERIFIED}:")
        wanted = "" if file.size is None else f"{file.size} bytes, "
        return DataIntegrityError(
            f"{path} is not the file that card {card.name!r} describes.\n"
            f"Expected: {wanted}sha256 {expected}\nFound:    {size} bytes, sha256 {sha256_of(path)}",
            hint=f"Mend it (the present file is kept as {path.name}.altered):  "
            f"mirrorbench data fetch {card.name} --force",
        )

    def _set_aside(self, card: Card, file: DataFile) -> None:
        path = self.root / card.folder / file.path
        kept = path.with_name(f"{path.name}.altered")
        number = 1
        while kept.exists():
            number += 1
            kept = path.with_name(f"{path.name}.altered{number}")
        try:
            path.rename(kept)
        except OSError as error:
            raise StorageError(f"Cannot rename {path} to {kept.name}: {error.strerror}.") from error
        self._record(card).drop(file.path)

    def _found(self, card: Card, file: DataFile) -> str:
        """What the data identity says of a file whose checksum was not known beforehand."""
        seen = self._record(card).get(file.path)
        return f"{UNVERIFIED}:{seen.sha256}" if seen else UNVERIFIED

    def _record(self, card: Card) -> CardRecord:
        if card.folder not in self._records:
            self._records[card.folder] = CardRecord(self.root / card.folder / ".verified.json")
        return self._records[card.folder]
