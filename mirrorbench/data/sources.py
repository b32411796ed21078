"""Fetching of data files from the sources of a card: downloads, members of archives, splits of the hub."""

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

_ANOTHER = "name another folder with --data-dir or MIRRORBENCH_DATA"
_DOWNLOAD_LIMIT = 1 << 30  # of a file whose size is not known
# Without "identity" a server may compress the response, and the bytes would differ from the file.
_HEADERS = {
    "User-Agent": "mirrorbench (https://pypi.org/project/mirrorbench/)",
    "Accept-Encoding": "identity",
}


class _LimitedWriter:
    """Writes a download to a file, and stops it when it exceeds the expected size."""

    def __init__(self, sink: IO[bytes], limit: int) -> None:
        self._sink, self._limit = sink, limit
        self._done = 0
        self.flush = sink.flush

    def write(self, piece: bytes) -> int:
        self._done += len(piece)
        if self._done > self._limit:
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
        raise unwritable(f"Cannot write to {parent}", error, _ANOTHER) from error
    with temporary as folder:
        yield Fetcher(Path(folder))


class Fetcher:
    """Fetches the files of one command: it downloads each archive once, and asks no unreachable host again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._archives: dict[str, Path] = {}
        self.unreachable: dict[str, None] = {}

    def fetch(self, file: DataFile, target: Path) -> tuple[Source | None, list[str]]:
        """Write a file to ``target`` from the first source that has it; return that source and errors of others."""
        failures: list[str] = []
        for source in file.sources:
            try:
                got = self._get(source, file)
                if file.sha256 and (sha256 := sha256_of(got)) != file.sha256:
                    raise DataUnavailableError(
                        f"is another file (sha256 {sha256}, expected {file.sha256})"
                    )
                with writing(target) as sink:
                    sink.writelines(pieces(got))
            except StorageError:
                raise
            except MirrorbenchError as error:
                failures.append(f"{source.describe()}: {error.message}")
            else:
                return source, failures
        return None, failures

    def _get(self, source: Source, file: DataFile) -> Path:
        if isinstance(source, PackageSource | BesideSource):
            if not source.location.is_file():
                raise DataUnavailableError("the file is not there")
            return source.location
        got = self._folder / "file"
        if isinstance(source, ArchiveSource):
            if source.url not in self._archives:
                whole = _DOWNLOAD_LIMIT if source.size is None else source.size
                self._archives[source.url] = self._download(source.url, source.sha256, whole)
            limit = MEMBER_LIMIT if file.size is None else file.size
            extract_member(self._archives[source.url], source.member, got, limit)
        elif isinstance(source, DatasetSource):
            with got.open("wb") as sink:
                write_split(source, _LimitedWriter(sink, _DOWNLOAD_LIMIT).write)
        else:
            return self._download(
                source.describe(), file.sha256, _DOWNLOAD_LIMIT if file.size is None else file.size
            )
        return got

    def _download(self, url: str, sha256: str, limit: int) -> Path:
        host = urlsplit(url).netloc
        if host in self.unreachable:
            raise DataUnavailableError(f"not asked again: {host} cannot be reached")
        import pooch
        import requests

        pooch.get_logger().setLevel("ERROR")  # its messages on stderr would break progress displays
        get = pooch.HTTPDownloader(chunk_size=1 << 16, timeout=DOWNLOAD_TIMEOUT, headers=_HEADERS)

        def download(url: str, output_file: str, registry: Any) -> None:
            with open(output_file, "wb") as sink:
                get(url, _LimitedWriter(sink, limit), registry)

        name = hashlib.sha256(url.encode()).hexdigest()
        known = {name: f"sha256:{sha256}" if sha256 else None}
        registry = pooch.create(
            self._folder, base_url="", registry=known, urls={name: url}, retry_if_failed=1
        )
        try:
            return Path(registry.fetch(name, downloader=download))
        except (requests.ConnectionError, requests.Timeout) as error:
            self.unreachable[host] = None
            raise DataUnavailableError(
                f"{host} cannot be reached ({type(error).__name__})"
            ) from error
        except (
            requests.RequestException,
            ValueError,
        ) as error:  # pooch raises ValueError for a wrong checksum
            raise DataUnavailableError(" ".join(str(error).split())) from error
        except OSError as error:
            raise unwritable(f"Cannot write to {self._folder}", error, _ANOTHER) from error


def write_split(source: DatasetSource, write: Callable[[bytes], object]) -> None:
    """Write a split's strings, numbers, booleans and class labels as JSON lines; a copy stays in ``HF_HOME``."""
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
            f"a folder {source.repo} lies here, which the library would read instead"
        )
    noisy = datasets.is_progress_bar_enabled()
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
        if noisy:
            datasets.enable_progress_bars()
    json_types = ("string", "large_string", "bool", "int", "uint", "float")
    kept = [
        name
        for name, feature in rows.features.items()
        if isinstance(feature, datasets.ClassLabel)
        or (isinstance(feature, datasets.Value) and str(feature.dtype).startswith(json_types))
    ]
    if not kept:
        raise DataFormatError(f"no column of texts or numbers, but {', '.join(rows.features)}")
    for row in rows.select_columns(kept):
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
    origin = "Tried:" if failures else "It comes from:" if places else "No source of it is known."
    message = [
        f"The data of {card.name!r} ({card.title}) is not complete; missing: {', '.join(file.path for file in files)}.",
        *(
            []
            if failures
            else ["Nothing was fetched: downloads are off (--offline, or a dry run)."]
        ),
        origin,
        *(f"  - {line}" for line in failures or places),
        f"Licence: {card.licence} {card.licence_url}".rstrip(),
        *([f"Note: {card.notes}"] if card.notes else []),
    ]
    of_hub = dict.fromkeys(
        source.describe() for source in sources if isinstance(source, DatasetSource)
    )
    hint = "Take it from a folder that holds the original files or archives:  mirrorbench data import DIR\n"
    if of_hub:
        hint = f"Fetch it where there is a network:  mirrorbench data fetch {' '.join(of_hub)}\n"
    elif places:
        hint = f"Fetch it where there is a network:  mirrorbench data fetch {card.name}\n" + hint
    hint += f"Its home page: {card.homepage}" if card.homepage else ""
    return DataUnavailableError(
        "\n".join(message), hint.rstrip(), (Lack("data", card.name, tuple(unreachable)),)
    )
