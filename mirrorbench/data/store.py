"""The store: one folder of original data files, returned only after their checksums were verified.

Files are at ``<root>/<folder of the card>/<file path>``. ``.verified.json`` in each card's folder records size,
modification time, checksum and source of each hashed file, so that unchanged files are not hashed again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from mirrorbench.core.errors import (
    DataFormatError,
    DataIntegrityError,
    DataUnavailableError,
    Lack,
    MirrorbenchError,
    StorageError,
)
from mirrorbench.core.plugins import Registry
from mirrorbench.data.cards import (
    BesideSource,
    Card,
    DataFile,
    DatasetSource,
    PackageSource,
    ResolvedData,
    whole_number,
)
from mirrorbench.data.parsers import Parser, builtin_parsers, parse
from mirrorbench.data.readers.files import sha256_of
from mirrorbench.storage.files import writing

FileState = Literal["present", "missing", "altered"]
UNVERIFIED = "unverified"
"""Prefix, in the data identity, of a checksum recorded at the first fetch; alone before the first fetch."""

_logger = logging.getLogger(__name__)


class FileRecord(msgspec.Struct, frozen=True):
    """A hashed file; another size or modification time means that it may have changed since."""

    size: int
    mtime_ns: int
    sha256: str
    source: str = ""


def data_root() -> Path:
    """Return the store's folder: ``MIRRORBENCH_DATA``, or the platform's user data directory."""
    if configured := os.environ.get("MIRRORBENCH_DATA"):
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("mirrorbench", appauthor=False)) / "data"


class DataStore:
    """A folder of verified data files.

    Args:
        root: the folder, created at the first write; ``None`` for ``data_root()``.
        offline: never use the network; a missing file is an error.
        parsers: parsers that cards may name, by default the built-in ones.
    """

    def __init__(
        self,
        root: Path | None = None,
        offline: bool = False,
        parsers: Registry[Parser] | None = None,
    ) -> None:
        self.root = data_root() if root is None else Path(root).expanduser()
        self.offline = offline
        self.parsers = parsers or builtin_parsers()
        self._records: dict[str, dict[str, FileRecord]] = {}
        self._not_found: set[Path] = set()  # optional files that no source had: tried once per run
        self._resolved: dict[str, tuple[Card, ResolvedData]] = {}

    def resolve(self, card: Card) -> ResolvedData:
        """Return the data of the split that the card scores; missing files are fetched unless ``offline``.

        The converted copy is used if the originals are missing and it is present, or if no source of the originals can
        be reached. It is never used silently: a warning is logged, and ``checksums`` names it.

        Raises:
            DataUnavailableError: the data are missing and cannot be fetched.
            DataIntegrityError: a file is truncated or altered.
        """
        known = self._resolved.get(card.name)
        if known and known[0] == card:
            return known[1]
        originals = card.files_of(card.split)
        if not self._complete(card, originals) and not self._only_copy(card):
            self.fetch(card, card.split)
        files, parser, options = originals, card.parser, dict(card.options)
        if card.converted and self._only_copy(card):
            identity = card.converted.identity
            _logger.warning(
                "%s: scored on a converted copy (%s), not the originals.", card.name, identity
            )
            files, parser, options = (card.converted.file,), "table", card.converted.options
        paths = self._collect(card, files)
        data = ResolvedData(paths, parser, options, self.checksums(card))
        self._resolved[card.name] = card, data
        return data

    def items(self, card: Card) -> list[Any]:
        """Parse the files of the split that the card scores; returns the items in file order.

        Raises:
            DataUnavailableError, DataIntegrityError: as ``resolve``.
            UnknownNameError: there is no such parser.
            DataFormatError: a file does not follow its format, or is empty.
        """
        data = self.resolve(card)
        return parse(self.parsers.entry(data.parser), data.files, data.options)

    def count_items(self, card: Card, files: Mapping[str, Path]) -> int:
        """Count items; a ``DataFormatError`` if the parser fails, or a corpus has fewer texts than its card takes."""
        n = len(parse(self.parsers.entry(card.parser), files, card.options))
        wanted = whole_number(card.options, "take", 1)
        if n < wanted:
            raise DataFormatError(
                f"{', '.join(map(str, files.values()))}: {n} items, not {wanted}."
            )
        return n

    def checksums(self, card: Card) -> dict[str, str]:
        """Return the identity of the data that the card scores, without reading them: see ``ResolvedData.checksums``.

        For a file without a known checksum it is ``unverified:`` and the checksum of the first fetch, and before that
        ``unverified``: take the identity of a result after ``resolve``.
        """
        known = self._resolved.get(card.name)
        if known and known[0] == card:
            return dict(known[1].checksums)
        if card.converted and self._only_copy(card):
            return {card.converted.identity: self._recorded(card, card.converted.file)}
        held = self._present(card, card.files_of(card.split))
        return {file.path: file.sha256 or self._recorded(card, file) for file in held}

    def fetch(self, card: Card, split: str | None = None, force: bool = False) -> dict[str, Path]:
        """Fetch missing files, or the converted copy if no source can be reached; returns the verified files by path.

        ``force`` also replaces altered files, which are kept as ``NAME.altered``.

        Raises:
            DataUnavailableError: files are missing and cannot be fetched, or must not be, being ``offline``.
            DataIntegrityError: a file is truncated or altered.
        """
        self._forget(card)
        files = card.files_of(split)
        if force:
            for file in files:
                if self.state(card, file) == "altered":
                    self.set_aside(card, file)
        try:
            return self._collect(card, files)
        except DataUnavailableError as error:
            if card.converted is None or self.offline:
                raise
            try:
                return self._collect(card, (card.converted.file,))
            except DataUnavailableError as second:
                message = f"{error.message}\nThe converted copy is not available either:\n{second.message}"
                hosts = dict.fromkeys(
                    host for lack in (*error.lacks, *second.lacks) for host in lack.hosts
                )
                raise DataUnavailableError(
                    message, error.hint, (Lack("data", card.name, tuple(hosts)),)
                ) from second

    def status(self, card: Card) -> dict[str, FileState]:
        """Return the state of each original file by path; only changed files are hashed."""
        return {file.path: self.state(card, file) for file in card.files}

    def present(self, card: Card) -> dict[str, Path]:
        """Return the original files that are present and intact, by path; nothing is fetched."""
        return {
            file.path: self._location(card, file)
            for file in card.files
            if self.state(card, file) == "present"
        }

    def verify(self, card: Card) -> dict[str, FileState]:
        """Hash every original file again; returns the states as ``status`` does."""
        self._forget(card)
        records = self._records_of(card)
        records.update(
            {path: msgspec.structs.replace(record, mtime_ns=-1) for path, record in records.items()}
        )
        return self.status(card)

    def state(self, card: Card, file: DataFile) -> FileState:
        """Return whether a file is present and intact; hashed only if it changed since it was last hashed."""
        path = self._location(card, file)
        if not path.is_file():
            return "missing"
        stat = path.stat()
        if file.size is not None and stat.st_size != file.size:
            return "altered"
        known = self._records_of(card).get(file.path)
        if known is None or (known.size, known.mtime_ns) != (stat.st_size, stat.st_mtime_ns):
            sha256 = sha256_of(path)
            if sha256 != (file.sha256 or (known.sha256 if known else sha256)):
                return "altered"
            known = FileRecord(
                stat.st_size, stat.st_mtime_ns, sha256, known.source if known else ""
            )
            self._remember(card, file, known)
        return "present" if file.sha256 in ("", known.sha256) else "altered"

    def adopt(self, card: Card, file: DataFile, sha256: str, source: str) -> None:
        """Record the checksum and the source of a file that was written to ``root/folder/path``."""
        stat = (self.root / card.folder / file.path).stat()
        self._remember(card, file, FileRecord(stat.st_size, stat.st_mtime_ns, sha256, source))

    def set_aside(self, card: Card, file: DataFile) -> None:
        """Rename a stored file to ``NAME.altered`` (``.altered2`` ...), so that another can replace it."""
        path = self.root / card.folder / file.path
        kept, number = path.with_name(f"{path.name}.altered"), 1
        while kept.exists():
            number += 1
            kept = path.with_name(f"{path.name}.altered{number}")
        try:
            path.rename(kept)
        except OSError as error:
            raise StorageError(f"Cannot rename {path} to {kept.name}: {error.strerror}.") from error
        self._remember(card, file, None)

    def _location(self, card: Card, file: DataFile) -> Path:
        """The path of a file in the store, or in the package or the card's folder if it is not stored."""
        stored = self.root / card.folder / file.path
        if not stored.exists():
            for source in file.sources:
                if isinstance(source, PackageSource | BesideSource) and source.location.is_file():
                    return source.location
        return stored

    def _collect(self, card: Card, files: tuple[DataFile, ...]) -> dict[str, Path]:
        """The files by path; missing ones are fetched."""
        states = [(file, self.state(card, file)) for file in files]
        for file, state in states:
            if state == "altered":
                raise self._altered(card, file)
        if missing := [file for file, state in states if state == "missing"]:
            self._fetch(card, missing)
        return {file.path: self._location(card, file) for file in self._present(card, files)}

    def _fetch(self, card: Card, files: list[DataFile]) -> None:
        from mirrorbench.data.sources import fetching, unavailable

        if self.offline:
            if needed := [file for file in files if not file.optional]:
                raise unavailable(card, needed)
            return
        unchecked: dict[Path, str] = {}  # sources
        with fetching(self.root) as fetcher:
            for index, file in enumerate(files):
                target = self.root / card.folder / file.path
                if target in self._not_found:
                    continue
                source, failures = fetcher.fetch(file, target)
                if source:
                    self.adopt(card, file, sha256_of(target), source.describe())
                    if (
                        file.unverified
                        and file in card.files
                        and not isinstance(source, DatasetSource)
                    ):
                        unchecked[target] = source.describe()
                elif file.optional:
                    self._not_found.add(target)
                else:
                    raise unavailable(card, files[index:], failures, fetcher.unreachable)
        if unchecked:
            self._check(card, unchecked)

    def _check(self, card: Card, fetched: dict[Path, str]) -> None:
        """Delete files without a published checksum that the parser does not read; ``fetched`` holds their sources."""
        try:
            self.count_items(card, self.present(card))
        except MirrorbenchError as error:
            problem = error.message
            for file in card.files:
                if (path := self.root / card.folder / file.path) in fetched:
                    path.unlink()
                    self._remember(card, file, None)
                    problem = problem.replace(str(path), fetched[path])
            message = f"What was fetched is not the data of {card.name!r} ({card.title}): {problem}"
            raise DataUnavailableError(
                message, "Take it from a folder:  mirrorbench data import DIR"
            ) from None

    def _present(self, card: Card, files: tuple[DataFile, ...]) -> list[DataFile]:
        """The files without missing optional ones."""
        return [file for file in files if not file.optional or self.state(card, file) != "missing"]

    def _complete(self, card: Card, files: tuple[DataFile, ...]) -> bool:
        return all(self.state(card, file) != "missing" for file in files if not file.optional)

    def _only_copy(self, card: Card) -> bool:
        """Whether the converted copy is present and the originals are not complete."""
        if card.converted is None or self._complete(card, card.files_of(card.split)):
            return False
        return self._complete(card, (card.converted.file,))

    def _altered(self, card: Card, file: DataFile) -> DataIntegrityError:
        path = self._location(card, file)
        size = path.stat().st_size
        expected = file.sha256 or self._recorded(card, file).removeprefix(f"{UNVERIFIED}:")
        wanted = "" if file.size is None else f"{file.size} bytes, "
        problem = f"{path} is not the file that card {card.name!r} describes."
        details = (
            f"Expected: {wanted}sha256 {expected}\nFound:    {size} bytes, sha256 {sha256_of(path)}"
        )
        remedy = f"Fetch it again (the altered file is kept as {path.name}.altered):"
        return DataIntegrityError(
            f"{problem}\n{details}", f"{remedy}  mirrorbench data fetch {card.name} --force"
        )

    def _recorded(self, card: Card, file: DataFile) -> str:
        """The data identity of a file whose checksum was not known in advance."""
        known = self._records_of(card).get(file.path)
        return f"{UNVERIFIED}:{known.sha256}" if known else UNVERIFIED

    def _forget(self, card: Card) -> None:
        """Drop the resolved data of this card and of those that share its folder."""
        self._resolved = {
            name: known for name, known in self._resolved.items() if known[0].folder != card.folder
        }

    def _records_of(self, card: Card) -> dict[str, FileRecord]:
        """The records of a card's folder; none if their file is damaged, so that the files are hashed again."""
        if card.folder not in self._records:
            try:
                written = (self.root / card.folder / ".verified.json").read_bytes()
                self._records[card.folder] = msgspec.json.decode(
                    written, type=dict[str, FileRecord]
                )
            except (OSError, msgspec.MsgspecError):
                self._records[card.folder] = {}
        return self._records[card.folder]

    def _remember(self, card: Card, file: DataFile, record: FileRecord | None) -> None:
        """Save a file's record, or delete it (``None``); a store that cannot be written is no error."""
        self._forget(card)
        records = self._records_of(card)
        records.pop(file.path, None)
        if record is not None:
            records[file.path] = record
        try:
            with writing(self.root / card.folder / ".verified.json") as sink:
                sink.write(
                    json.dumps(
                        msgspec.to_builtins(dict(sorted(records.items()))), indent=1
                    ).encode()
                )
        except StorageError as error:
            _logger.debug("checksums are not remembered: %s", error)
