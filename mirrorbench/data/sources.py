"""Fetches data files from the sources of a card: downloads, members of archives, splits of the hub."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from mirrorbench.core.errors import (
    DataFormatError,
    DataUnavailableError,
    Lack,
    MirrorbenchError,
    StorageError,
)
from mirrorbench.data.archives import MEMBER_LIMIT, extract_member
from mirrorbench.data.cards import (
    ArchiveSource,
    BesideSource,
    Card,
    DataFile,
    DatasetSource,
    PackageSource,
    Source,
)
from mirrorbench.data.readers.files import pieces, sha256_of
from mirrorbench.storage.files import unwritable, writing

DOWNLOAD_TIMEOUT = 30
"""Seconds to wait for a connection, and between two parts of a response."""

_ANOTHER_FOLDER_HINT = "name another folder with --data-dir or MIRRORBENCH_DATA"
_DOWNLOAD_LIMIT = 1 << 30
"""Limit in bytes on a download of unknown size."""
# Without "identity" a server may compress the response, and the bytes would differ from the file.
_HEADERS = {
    "User-Agent": "mirrorbench (https://pypi.org/project/mirrorbench/)",
    "Accept-Encoding": "identity",
}
# Beginnings of the names of those of Arrow's types that JSON has too.
_JSON_TYPES = ("string", "large_string", "bool", "int", "uint", "float")


class _LimitedWriter:
    """Writes a download to a file, and stops it when it exceeds the expected size."""

    def __init__(self, sink: IO[bytes], limit: int) -> None:
        self._sink = sink
        self._limit = limit
        self._n_bytes = 0
        self.flush = sink.flush

    def write(self, piece: bytes) -> int:
        self._n_bytes += len(piece)
        if self._n_bytes > self._limit:
            raise DataUnavailableError(
                f"sends more than the {self._limit} bytes that were expected"
            )
        return self._sink.write(piece)


@contextmanager
def fetching(parent: Path) -> Iterator[Fetcher]:
    """Open a ``Fetcher`` with its temporary files in ``parent``, preferably on the disk of the store."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(
            prefix=".fetch-", dir=parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise unwritable(f"Cannot write to {parent}", error, _ANOTHER_FOLDER_HINT) from error
    with temporary as folder:
        yield Fetcher(Path(folder))


class Fetcher:
    """Fetches the files of one command; downloads each archive only once, and asks an unreachable host only once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._archives: dict[str, Path] = {}
        self.unreachable: dict[str, None] = {}  # hosts, in the order of the failures

    def fetch(self, file: DataFile, target: Path) -> tuple[Source | None, list[str]]:
        """Write a file to ``target`` from the first source that has it.

        Returns that source (``None`` if there is none), and a message for each source that failed before.
        """
        failures: list[str] = []
        for source in file.sources:
            try:
                path = self._get(source, file)
                if file.sha256:
                    sha256 = sha256_of(path)
                    if sha256 != file.sha256:
                        raise DataUnavailableError(
                            f"is another file (sha256 {sha256}, expected {file.sha256})"
                        )
                with writing(target) as sink:
                    sink.writelines(pieces(path))
            except StorageError:
                raise  # a full disk or a read-only folder fails for every source
            except MirrorbenchError as error:
                failures.append(f"{source.describe()}: {error.message}")
            else:
                return source, failures
        return None, failures

    def _get(self, source: Source, file: DataFile) -> Path:
        """Return the path of a file of the package or beside its card, or of a temporary copy from another source.

        The next call may overwrite the copy.
        """
        if isinstance(source, PackageSource | BesideSource):
            if not source.location.is_file():
                raise DataUnavailableError("the file is not there")
            return source.location
        copy = self._folder / "file"
        if isinstance(source, ArchiveSource):
            if source.url not in self._archives:
                archive_limit = _DOWNLOAD_LIMIT if source.size is None else source.size
                archive = self._download(source.url, source.sha256, archive_limit)
                self._archives[source.url] = archive
            member_limit = MEMBER_LIMIT if file.size is None else file.size
            extract_member(self._archives[source.url], source.member, copy, member_limit)
            return copy
        if isinstance(source, DatasetSource):
            with copy.open("wb") as sink:
                write_split(source, _LimitedWriter(sink, _DOWNLOAD_LIMIT).write)
            return copy
        limit = _DOWNLOAD_LIMIT if file.size is None else file.size
        return self._download(source.describe(), file.sha256, limit)

    def _download(self, url: str, sha256: str, limit: int) -> Path:
        """Download a file of at most ``limit`` bytes and return its path; an empty ``sha256`` is not checked.

        A host that cannot be reached, or a wrong checksum, is a ``DataUnavailableError``.
        """
        host = urlsplit(url).netloc
        if host in self.unreachable:
            raise DataUnavailableError(f"not asked again: {host} cannot be reached")
        import pooch
        import requests

        pooch.get_logger().setLevel("ERROR")  # its messages on stderr would break progress displays
        http_downloader = pooch.HTTPDownloader(
            chunk_size=1 << 16, timeout=DOWNLOAD_TIMEOUT, headers=_HEADERS
        )

        def download_limited(url: str, output_file: str, registry: Any) -> None:
            with open(output_file, "wb") as sink:
                http_downloader(url, _LimitedWriter(sink, limit), registry)

        # pooch writes the file under this name into its folder.
        name = hashlib.sha256(url.encode()).hexdigest()
        # ``None``: not checked.
        checksum = f"sha256:{sha256}" if sha256 else None
        registry = pooch.create(
            self._folder,
            base_url="",
            registry={name: checksum},
            urls={name: url},
            retry_if_failed=1,
        )
        try:
            return Path(registry.fetch(name, downloader=download_limited))
        except (requests.ConnectionError, requests.Timeout) as error:
            self.unreachable[host] = None
            raise DataUnavailableError(
                f"{host} cannot be reached ({type(error).__name__})"
            ) from error
        except (requests.RequestException, ValueError) as error:
            # pooch raises ValueError for a wrong checksum.
            raise DataUnavailableError(" ".join(str(error).split())) from error
        except OSError as error:
            raise unwritable(
                f"Cannot write to {self._folder}", error, _ANOTHER_FOLDER_HINT
            ) from error


def write_split(source: DatasetSource, write: Callable[[bytes], object]) -> None:
    """Write the columns of a split that hold strings, numbers, booleans or class labels as JSON lines.

    The library ``datasets`` keeps a copy of the data set in ``HF_HOME``.

    Raises:
        DataUnavailableError: the library is not installed, or cannot load the split.
        DataFormatError: the split has no such column.
    """
    try:
        import datasets
    except ImportError as error:
        message = (
            "the package datasets is not installed; install it: pip install 'mirrorbench[hub]'"
        )
        raise DataUnavailableError(message) from error
    if os.path.isdir(source.repo):
        # The library would read that folder and ignore the revision.
        raise DataUnavailableError(
            f"there is a folder {source.repo} here, which the library datasets would read instead"
        )
    had_progress_bars = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    config = source.config or None
    try:
        rows: Any = datasets.load_dataset(
            source.repo, config, split=source.split, revision=source.revision
        )
    except Exception as error:  # the library and the hub's client raise many types
        reason = " ".join(str(error).split())[:300]
        raise DataUnavailableError(
            f"the library datasets says: {type(error).__name__}: {reason}"
        ) from error
    finally:
        if had_progress_bars:
            datasets.enable_progress_bars()
    columns = []
    for name, feature in rows.features.items():
        is_label = isinstance(feature, datasets.ClassLabel)
        is_value = isinstance(feature, datasets.Value)
        if is_label or (is_value and str(feature.dtype).startswith(_JSON_TYPES)):
            columns.append(name)
    if not columns:
        raise DataFormatError(
            f"it has no column of texts or numbers, only {', '.join(rows.features)}"
        )
    for row in rows.select_columns(columns):
        write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def unavailable(
    card: Card, files: list[DataFile], failures: Sequence[str] = (), unreachable: Iterable[str] = ()
) -> DataUnavailableError:
    """Return the error for files that cannot be fetched: their names, sources and licence, and what to do.

    Args:
        card: the card of the files.
        files: the missing files.
        failures: a message for each failed source; empty if downloads are off.
        unreachable: hosts that did not answer.
    """
    sources = [source for file in files for source in file.sources]
    places = list(dict.fromkeys(source.place for source in sources))
    hub_ids = list(
        dict.fromkeys(source.describe() for source in sources if isinstance(source, DatasetSource))
    )

    missing = ", ".join(file.path for file in files)
    lines = [f"The data of {card.name!r} ({card.title}) is not complete; missing: {missing}."]
    if failures:
        lines.append("Tried:")
        lines += [f"  - {failure}" for failure in failures]
    else:
        lines.append("Nothing was fetched: downloads are off (--offline, or a dry run).")
        lines.append("It comes from:" if places else "Its source is not known.")
        lines += [f"  - {place}" for place in places]
    lines.append(f"Licence: {card.licence} {card.licence_url}".rstrip())
    if card.notes:
        lines.append(f"Note: {card.notes}")

    fetch_hint = "Fetch it where there is a network:  mirrorbench data fetch"
    import_hint = "Take it from a folder that holds the original files or archives:  mirrorbench data import DIR"
    if hub_ids:  # a split of the hub is fetched by its id; it has no original file to import
        hints = [f"{fetch_hint} {' '.join(hub_ids)}"]
    elif places:
        hints = [f"{fetch_hint} {card.name}", import_hint]
    else:
        hints = [import_hint]
    if card.homepage:
        hints.append(f"Its home page: {card.homepage}")
    lack = Lack("data", card.name, tuple(unreachable))
    return DataUnavailableError("\n".join(lines), "\n".join(hints), (lack,))
