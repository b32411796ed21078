"""Getting a file from the sources that its card names, in their order.

Downloads go through pooch, which writes into a temporary file, checks the checksum, renames, and tries once
more when something failed. One ``Fetcher`` serves one command: it downloads an archive once however many
members are wanted, and asks a host that did not answer no second time.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

from mirrorbench.core.errors import DataUnavailableError, MirrorbenchError, StorageError
from mirrorbench.core.files import writing
from mirrorbench.data.archives import MEMBER_LIMIT, extract_member
from mirrorbench.data.cards import (
    ArchiveSource,
    BesideSource,
    Card,
    DataFile,
    DatasetSource,
    GithubSource,
    HuggingFaceSource,
    PackageSource,
    Source,
    UrlSource,
)
from mirrorbench.data.textfiles import sha256_of

DOWNLOAD_TIMEOUT = 30
"""Seconds to wait for a connection, and between two pieces of an answer."""

_ARCHIVE_LIMIT = 1 << 30
# Without "identity" a server may compress on the way, and the bytes would not be those of the file.
_HEADERS = {
    "User-Agent": "mirrorbench (https://pypi.org/project/mirrorbench/)",
    "Accept-Encoding": "identity",
}


class _SourceError(Exception):
    """Why one source did not yield the file."""


class NoSourceError(Exception):
    """No source had a file; the store turns it into an error that names card and licence.

    Args:
        failures: a line for each source that was tried.
    """

    def __init__(self, failures: list[str]) -> None:
        super().__init__("; ".join(failures))
        self.failures = failures


class _LimitedWriter:
    """Passes a download on to a file, and stops it when it grows beyond what the card says."""

    def __init__(self, sink: IO[bytes], limit: int) -> None:
        self._sink = sink
        self._limit = limit
        self._done = 0

    def write(self, piece: bytes) -> int:
        self._done += len(piece)
        if self._done > self._limit:
            raise _SourceError(f"sends more than the {self._limit} bytes that were expected")
        return self._sink.write(piece)

    def flush(self) -> None:
        self._sink.flush()


class Fetcher:
    """Fetches files for one command; a context manager, whose temporary folder goes at the end.

    Args:
        workspace: the folder under which the temporary one is made; best on the disk of the store.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._folder: Path | None = None
        self._archives: dict[str, Path] = {}
        self._dead_hosts: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def fetch(self, file: DataFile, target: Path) -> Source:
        """Bring one file into place, from the first source that has it.

        Args:
            file: the file; its checksum is checked before the target appears.
            target: where to put it; an existing file is replaced.

        Returns:
            the source that had it.

        Raises:
            NoSourceError: no source had it; it says why, source by source.
            StorageError: the target cannot be written.
        """
        failures: list[str] = []
        for source in file.sources:
            try:
                self._fetch_from(source, file, target)
            except StorageError:
                raise
            except (_SourceError, MirrorbenchError) as error:
                failures.append(f"{source.describe()}: {getattr(error, 'message', error)}")
            else:
                return source
        raise NoSourceError(failures)

    def _fetch_from(self, source: Source, file: DataFile, target: Path) -> None:
        limit = MEMBER_LIMIT if file.size is None else file.size
        if isinstance(source, PackageSource | BesideSource):
            if not source.location.is_file():
                raise _SourceError("this installation does not carry it")
            got = source.location
        elif isinstance(source, ArchiveSource):
            got = self._temporary() / "member"
            extract_member(self._archive(source), source.member, got, limit)
        elif isinstance(source, DatasetSource):
            got = self._exported(source)
        else:
            assert isinstance(source, GithubSource | HuggingFaceSource | UrlSource)
            got = self._download(source.url, file.sha256, limit)
        found = sha256_of(got)
        if file.sha256 and found != file.sha256:
            raise _SourceError(f"is another file (sha256 {found}, expected {file.sha256})")
        with writing(target) as sink, got.open("rb") as stream:
            shutil.copyfileobj(stream, sink, 1 << 20)

    def _exported(self, source: DatasetSource) -> Path:
        from mirrorbench.data.hub import write_split

        got = self._temporary() / "split"
        with got.open("wb") as sink:
            write_split(source, _LimitedWriter(sink, _ARCHIVE_LIMIT).write)
        return got

    def _archive(self, source: ArchiveSource) -> Path:
        if source.url not in self._archives:
            limit = _ARCHIVE_LIMIT if source.size is None else source.size
            self._archives[source.url] = self._download(source.url, source.sha256, limit)
        return self._archives[source.url]

    def _temporary(self) -> Path:
        if self._folder is None:
            try:
                self._workspace.mkdir(parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(prefix=".fetch-", dir=self._workspace))
            except OSError as error:
                raise StorageError(
                    f"Cannot write to {self._workspace}: {error.strerror}.",
                    hint="Name another folder with --data-dir or MIRRORBENCH_DATA.",
                ) from error
        return self._folder

    def _download(self, url: str, sha256: str, limit: int) -> Path:
        host = urlsplit(url).netloc
        if host in self._dead_hosts:
            raise _SourceError(f"not asked again: {self._dead_hosts[host]}")
        name = hashlib.sha256(url.encode()).hexdigest()
        import requests

        try:
            return _pooch_download(url, name, sha256, limit, self._temporary())
        except (requests.ConnectionError, requests.Timeout) as error:
            self._dead_hosts[host] = f"{host} cannot be reached"
            raise _SourceError(f"{host} cannot be reached ({type(error).__name__})") from error
        except (requests.RequestException, ValueError) as error:
            # pooch reports a wrong checksum as a ValueError
            raise _SourceError(_one_line(error)) from error
        except OSError as error:
            raise StorageError(f"Cannot write to {self._temporary()}: {error.strerror}.") from error


def _pooch_download(url: str, name: str, sha256: str, limit: int, folder: Path) -> Path:
    import pooch

    pooch.get_logger().setLevel("ERROR")  # its chatter on stderr would break progress displays
    get = pooch.HTTPDownloader(chunk_size=1 << 16, timeout=DOWNLOAD_TIMEOUT, headers=_HEADERS)

    def download(url: str, output_file: str, registry: Any) -> None:
        with open(output_file, "wb") as sink:
            get(url, _LimitedWriter(sink, limit), registry)

    known = f"sha256:{sha256}" if sha256 else None
    registry = pooch.create(folder, base_url="", registry={name: known}, urls={name: url}, retry_if_failed=1)
    return Path(registry.fetch(name, downloader=download))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def unavailable(card: Card, files: list[DataFile], failures: list[str], offline: bool = False) -> DataUnavailableError:
    """The error for files that cannot be had: what, from where, under what licence, and what to do.

    Args:
        card: the card that the files belong to.
        files: the missing files.
        failures: what was tried, and why it failed; empty where nothing was tried.
        offline: whether nothing was tried because fetching is switched off.

    Returns:
        the error, to be raised.
    """
    sources = [source for file in files for source in file.sources]
    places = list(dict.fromkeys(source.place for source in sources))
    message = [
        f"The data of {card.name!r} ({card.title}) is not complete; missing: {', '.join(file.path for file in files)}."
    ]
    if offline:
        message.append("Nothing was fetched, because --offline is set.")
    if failures:
        message.append("Tried:")
        message += [f"  - {failure}" for failure in failures]
    else:
        message.append("It comes from:" if places else "No source of it is known.")
        message += [f"  - {place}" for place in places]
    message.append(f"Licence: {card.licence} {card.licence_url}".rstrip())
    if card.notes:
        message.append(f"Note: {card.notes}")
    of_hub = dict.fromkeys(source.describe() for source in sources if isinstance(source, DatasetSource))
    hint = "Take it from a folder that holds the original files or archives:  mirrorbench data import DIR\n"
    if of_hub:
        hint = f"Fetch it where there is a network:  mirrorbench data fetch {' '.join(of_hub)}\n"
    elif places:
        hint = f"Fetch it where there is a network:  mirrorbench data fetch {card.name}\n" + hint
    home = f"Its home page: {card.homepage}" if card.homepage else ""
    return DataUnavailableError("\n".join(message), f"{hint}{home}".rstrip())
