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
"""In the data identity, the prefix of a checksum recorded at the first fetch; the whole identity before that fetch."""

_logger = logging.getLogger(__name__)


class FileRecord(msgspec.Struct, frozen=True):
    """The record of a hashed file; a file whose size or modification time differs is hashed again."""

    size: int
    mtime_ns: int
    sha256: str
    source: str = ""


def data_root() -> Path:
    """Return the store's folder: ``MIRRORBENCH_DATA``, or the platform's user data directory."""
    configured = os.environ.get("MIRRORBENCH_DATA")
    if configured:
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("mirrorbench", appauthor=False)) / "data"


class DataStore:
    """A folder of data files, returned only after their checksums were verified.

    mirrorbench makes it and passes it to ``fetch``, ``identity`` and ``load`` of a ``Task``; a plugin makes one to read
    the files of a card elsewhere. Files that a card has beside it, and those inside the package, are read where they
    are. The methods take a ``Card``:

    - ``resolve(card)``: fetch what is missing, and return an object with ``files`` (paths by name in the card),
      ``parser``, ``options`` and ``checksums`` of the split that the card scores.
    - ``items(card)``: the parsed items of that split, a list; fetches too.
    - ``checksums(card)``: SHA-256 by file name, without reading the files.
    - ``fetch(card, split=None, force=False)``: fetch the missing files of a split (``None``: all); paths by name.
    - ``status(card)``: ``present``, ``missing`` or ``altered`` for each file name; ``verify(card)`` hashes all again.
    - ``present(card)``: paths of the files that are present and intact, by name.

    Args:
        root: the folder, created at the first write; ``None`` (default) for the environment variable
            ``MIRRORBENCH_DATA``, or the platform's folder for user data.
        offline: never use the network; a missing file is an error (default false).
        parsers: parsers that cards may name, such as ``load_plugins().parsers`` with those of plugins; by default the
            built-in ones.

    Attributes:
        root: the folder, a ``Path``.
        offline: the argument ``offline``.
        parsers: the parsers by name.

    Raises:
        DataUnavailableError: a file is missing and cannot be fetched.
        MirrorbenchError: a file is truncated or altered (``DataIntegrityError``).
        DataFormatError: a file does not follow its format, or is empty.
        UsageError: the card names a parser that is not registered.

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import DataStore, corpus_cards
        >>> store = DataStore(Path("data"), offline=True)
        >>> (card,) = corpus_cards("quick-sentences")  # its file is inside the package
        >>> store.status(card)
        {'sentences.txt': 'present'}
        >>> len(store.items(card))
        800
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
        # Optional files that no source has; each is tried only once.
        self._not_found: set[Path] = set()
        self._resolved: dict[str, tuple[Card, ResolvedData]] = {}

    def resolve(self, card: Card) -> ResolvedData:
        """Return the data of the split that the card scores; missing files are fetched unless ``offline``.

        The converted copy is used if it is present and the originals are missing, or if no source of the originals can
        be reached. A warning is logged then, and ``checksums`` names the copy.

        Raises:
            DataUnavailableError: the data are missing and cannot be fetched.
            DataIntegrityError: a file is truncated or altered.
        """
        data = self._remembered_data(card)
        if data is not None:
            return data
        originals = card.files_of(card.split)
        if not self._is_complete(card, originals) and not self._has_only_copy(card):
            self.fetch(card, card.split)

        # Asked again, because the fetch may have brought the copy instead of the originals.
        has_only_copy = self._has_only_copy(card)
        files = originals
        parser = card.parser
        options = dict(card.options)
        if card.converted and has_only_copy:
            _logger.warning(
                "%s: scored on a converted copy (%s), not the originals.",
                card.name,
                card.converted.identity,
            )
            files = (card.converted.file,)
            parser = "table"
            options = card.converted.options
        paths = self._fetch_missing(card, files)
        data = ResolvedData(paths, parser, options, self.checksums(card))
        self._resolved[card.name] = card, data
        return data

    def items(self, card: Card) -> list[Any]:
        """Parse the files of the split that the card scores to items, in file order.

        Raises:
            DataUnavailableError, DataIntegrityError: as ``resolve``.
            UnknownNameError: there is no such parser.
            DataFormatError: a file does not follow its format, or is empty.
        """
        data = self.resolve(card)
        return parse(self.parsers.entry(data.parser), data.files, data.options)

    def count_items(self, card: Card, files: Mapping[str, Path]) -> int:
        """Count the items of files.

        Raises:
            DataFormatError: the parser fails, or a corpus has fewer texts than its card takes.
        """
        n_items = len(parse(self.parsers.entry(card.parser), files, card.options))
        n_required = whole_number(card.options, "take", 1)
        if n_items < n_required:
            paths = ", ".join(map(str, files.values()))
            raise DataFormatError(f"{paths}: {n_items} items, not {n_required}.")
        return n_items

    def checksums(self, card: Card) -> dict[str, str]:
        """Return the identity of the data that the card scores, without reading them: see ``ResolvedData.checksums``.

        A file without a published checksum has ``unverified:`` and the checksum of its first fetch, or only
        ``unverified`` before that fetch. Therefore take the identity of a result after ``resolve``.
        """
        data = self._remembered_data(card)
        if data is not None:
            return dict(data.checksums)
        if card.converted and self._has_only_copy(card):
            return {card.converted.identity: self._unverified_identity(card, card.converted.file)}
        files = self._without_missing_optional(card, card.files_of(card.split))
        return {file.path: file.sha256 or self._unverified_identity(card, file) for file in files}

    def fetch(self, card: Card, split: str | None = None, force: bool = False) -> dict[str, Path]:
        """Fetch missing files, or the converted copy if no source can be reached; return the verified files by path.

        ``force`` also replaces altered files, which are kept as ``NAME.altered``.

        Raises:
            DataUnavailableError: files are missing and cannot be fetched, or the store is ``offline``.
            DataIntegrityError: a file is truncated or altered.
        """
        self._forget_resolved(card)
        files = card.files_of(split)
        if force:
            for file in files:
                if self.state(card, file) == "altered":
                    self.set_aside(card, file)
        try:
            return self._fetch_missing(card, files)
        except DataUnavailableError as error:
            if card.converted is None or self.offline:
                raise
            try:
                return self._fetch_missing(card, (card.converted.file,))
            except DataUnavailableError as copy_error:
                # Report both failures, with the hosts of both as one lack.
                message = f"{error.message}\nThe converted copy is not available either:\n{copy_error.message}"
                lacks = (*error.lacks, *copy_error.lacks)
                hosts = dict.fromkeys(host for lack in lacks for host in lack.hosts)
                lack = Lack("data", card.name, tuple(hosts))
                raise DataUnavailableError(message, error.hint, (lack,)) from copy_error

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
        """Hash every original file again, and return the states as ``status`` does."""
        self._forget_resolved(card)
        records = self._records_of(card)
        for path, record in records.items():
            # No file has this time, so every file counts as changed.
            records[path] = msgspec.structs.replace(record, mtime_ns=-1)
        return self.status(card)

    def state(self, card: Card, file: DataFile) -> FileState:
        """Return whether a file is present and intact; an intact file is hashed again only if it changed."""
        path = self._location(card, file)
        if not path.is_file():
            return "missing"
        stat = path.stat()
        if file.size is not None and stat.st_size != file.size:
            return "altered"
        # Hash a new or changed file, and record it if it is intact.
        record = self._records_of(card).get(file.path)
        if record is None or (record.size, record.mtime_ns) != (stat.st_size, stat.st_mtime_ns):
            sha256 = sha256_of(path)
            # Without a published checksum, that of the first fetch is required.
            recorded_sha256 = record.sha256 if record else sha256
            if sha256 != (file.sha256 or recorded_sha256):
                return "altered"
            source = record.source if record else ""
            record = FileRecord(stat.st_size, stat.st_mtime_ns, sha256, source)
            self._save_record(card, file, record)
        # An unchanged file may have been recorded when its card published another checksum, or none.
        if file.sha256 and file.sha256 != record.sha256:
            return "altered"
        return "present"

    def adopt(self, card: Card, file: DataFile, sha256: str, source: str) -> None:
        """Record the checksum and the source of a file that was written to ``root/folder/path``."""
        stat = (self.root / card.folder / file.path).stat()
        self._save_record(card, file, FileRecord(stat.st_size, stat.st_mtime_ns, sha256, source))

    def set_aside(self, card: Card, file: DataFile) -> None:
        """Rename a stored file to ``NAME.altered`` (``.altered2`` ...), so that another can replace it."""
        path = self.root / card.folder / file.path
        backup = path.with_name(f"{path.name}.altered")
        number = 1
        while backup.exists():
            number += 1
            backup = path.with_name(f"{path.name}.altered{number}")
        try:
            path.rename(backup)
        except OSError as error:
            raise StorageError(
                f"Cannot rename {path} to {backup.name}: {error.strerror}."
            ) from error
        self._save_record(card, file, None)

    def _location(self, card: Card, file: DataFile) -> Path:
        """Return the path of a file in the store, or in the package or the card's folder if it is not stored."""
        stored = self.root / card.folder / file.path
        if not stored.exists():
            for source in file.sources:
                if isinstance(source, PackageSource | BesideSource) and source.location.is_file():
                    return source.location
        return stored

    def _fetch_missing(self, card: Card, files: tuple[DataFile, ...]) -> dict[str, Path]:
        """Fetch those of the files that are missing; return the paths of all by name. An altered file is an error."""
        missing = []
        for file in files:
            state = self.state(card, file)
            if state == "altered":
                raise self._altered_error(card, file)
            if state == "missing":
                missing.append(file)
        if missing:
            self._fetch(card, missing)
        present = self._without_missing_optional(card, files)
        return {file.path: self._location(card, file) for file in present}

    def _fetch(self, card: Card, files: list[DataFile]) -> None:
        """Fetch files into the store, and parse those without a published checksum to check them.

        An optional file that no source has is remembered as not found; a required one is a ``DataUnavailableError``.
        """
        from mirrorbench.data.sources import fetching, unavailable

        if self.offline:
            required = [file for file in files if not file.optional]
            if required:
                raise unavailable(card, required)
            return
        sources_to_check: dict[Path, str] = {}  # by the file to check
        with fetching(self.root) as fetcher:
            for index, file in enumerate(files):
                target = self.root / card.folder / file.path
                if target in self._not_found:
                    continue
                source, failures = fetcher.fetch(file, target)
                if source is not None:
                    self.adopt(card, file, sha256_of(target), source.describe())
                    # A converted copy is read by another parser; a split of the hub is pinned by its commit.
                    is_original = file in card.files and not isinstance(source, DatasetSource)
                    if file.unverified and is_original:
                        sources_to_check[target] = source.describe()
                elif file.optional:
                    self._not_found.add(target)
                else:
                    raise unavailable(card, files[index:], failures, fetcher.unreachable)
        if sources_to_check:
            self._check_fetched(card, sources_to_check)

    def _check_fetched(self, card: Card, sources: dict[Path, str]) -> None:
        """Check that the parser reads what was fetched without a published checksum.

        Otherwise delete those files and raise a ``DataUnavailableError``. ``sources`` maps the files to the sources that
        they came from.
        """
        try:
            self.count_items(card, self.present(card))
        except MirrorbenchError as error:
            problem = error.message
            for file in card.files:
                path = self.root / card.folder / file.path
                if path in sources:
                    path.unlink()
                    self._save_record(card, file, None)
                    # The deleted file must not be named: name its source instead.
                    problem = problem.replace(str(path), sources[path])
            message = f"What was fetched is not the data of {card.name!r} ({card.title}): {problem}"
            raise DataUnavailableError(
                message, "Take it from a folder:  mirrorbench data import DIR"
            ) from None

    def _without_missing_optional(self, card: Card, files: tuple[DataFile, ...]) -> list[DataFile]:
        """Return the files except optional ones that are missing."""
        return [file for file in files if not file.optional or self.state(card, file) != "missing"]

    def _is_complete(self, card: Card, files: tuple[DataFile, ...]) -> bool:
        """Return whether no required file is missing."""
        return all(self.state(card, file) != "missing" for file in files if not file.optional)

    def _has_only_copy(self, card: Card) -> bool:
        """Return whether the converted copy is present, and the originals are not complete."""
        if card.converted is None or self._is_complete(card, card.files_of(card.split)):
            return False
        return self._is_complete(card, (card.converted.file,))

    def _altered_error(self, card: Card, file: DataFile) -> DataIntegrityError:
        """Return the error for a file whose size or checksum is not the published one, or that of its first fetch."""
        path = self._location(card, file)
        # Without a published checksum, that of the first fetch is expected.
        recorded_sha256 = self._unverified_identity(card, file).removeprefix(f"{UNVERIFIED}:")
        expected = f"sha256 {file.sha256 or recorded_sha256}"
        if file.size is not None:
            expected = f"{file.size} bytes, {expected}"
        found = f"{path.stat().st_size} bytes, sha256 {sha256_of(path)}"
        message = (
            f"{path} is not the file that card {card.name!r} describes.\n"
            f"Expected: {expected}\n"
            f"Found:    {found}"
        )
        hint = (
            f"Fetch it again (the altered file is kept as {path.name}.altered):"
            f"  mirrorbench data fetch {card.name} --force"
        )
        return DataIntegrityError(message, hint)

    def _unverified_identity(self, card: Card, file: DataFile) -> str:
        """Return the data identity of a file without a published checksum."""
        record = self._records_of(card).get(file.path)
        return f"{UNVERIFIED}:{record.sha256}" if record else UNVERIFIED

    def _remembered_data(self, card: Card) -> ResolvedData | None:
        """Return what ``resolve`` returned for an equal card before; ``None`` if nothing is remembered."""
        if card.name in self._resolved:
            resolved_card, data = self._resolved[card.name]
            if resolved_card == card:
                return data
        return None

    def _forget_resolved(self, card: Card) -> None:
        """Drop the resolved data of this card and of those that share its folder."""
        for name, (resolved_card, _) in list(self._resolved.items()):
            if resolved_card.folder == card.folder:
                del self._resolved[name]

    def _records_of(self, card: Card) -> dict[str, FileRecord]:
        """Return the records of a card's folder; none if their file is damaged, so that all files are hashed again."""
        if card.folder not in self._records:
            try:
                content = (self.root / card.folder / ".verified.json").read_bytes()
                records = msgspec.json.decode(content, type=dict[str, FileRecord])
            except (OSError, msgspec.MsgspecError):
                records = {}
            self._records[card.folder] = records
        return self._records[card.folder]

    def _save_record(self, card: Card, file: DataFile, record: FileRecord | None) -> None:
        """Save a file's record, or delete it (``None``). A store that cannot be written is not an error."""
        self._forget_resolved(card)
        records = self._records_of(card)
        records.pop(file.path, None)
        if record is not None:
            records[file.path] = record
        sorted_records = dict(sorted(records.items()))
        content = json.dumps(msgspec.to_builtins(sorted_records), indent=1)
        try:
            with writing(self.root / card.folder / ".verified.json") as sink:
                sink.write(content.encode())
        except StorageError as error:
            _logger.debug("checksums are not remembered: %s", error)
