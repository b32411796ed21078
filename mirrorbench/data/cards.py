"""Cards: what a data set consists of, where its files come from, and under what licence.

A card is a YAML file; ``cardfile`` reads it strictly. ``catalogue`` knows those that ship with the package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.textfiles import shown

CORPUS_KIND = "corpus"
"""The card kind of raw tuning strings; every other kind is a task kind."""

COMMIT, SHA256 = r"[0-9a-f]{40}", r"[0-9a-f]{64}"
MAX_NAME = 100
"""Bytes in a name or in a part of a path; file systems take 255, and stores add to them."""

EMBEDDED_DATA = Path(__file__).resolve().parents[1] / "embedded" / "data"
"""Where the files that ship inside the package lie."""


def relative_path(value: str) -> str:
    """A path that leads nowhere but below the folder it is for; a ``ValueError`` otherwise."""
    path = PurePosixPath(value)
    if not value:
        raise ValueError("a path is missing")
    if not value.isprintable() or any(len(part.encode()) > MAX_NAME for part in path.parts):
        raise ValueError(f"{shown(value)} cannot be a path")
    if path.is_absolute() or ".." in path.parts or "\\" in value or ":" in value or str(path) != value:
        raise ValueError(f"{value!r} must be a plain relative path, without '..'")
    if any(part.startswith(".") for part in path.parts):
        raise ValueError(f"{value!r} must not be hidden")
    return value


def matching(value: str, pattern: str, wanted: str) -> str:
    """A text that a pattern matches as a whole; a ``ValueError`` otherwise, that it is not what is ``wanted``."""
    if not re.fullmatch(pattern, value, re.ASCII):
        raise ValueError(f"{shown(value)} is not {wanted}")
    return value


_REPO = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_URL = r"https?://[^\s]+"


class Source(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """Where a file can be had; in a card a mapping, whose ``kind`` says which of these classes it is.

    ``_PLACE`` and ``_LINE`` are filled with the source's own values and ``folder`` and ``quoted``, of its path.
    """

    _PLACE: ClassVar[str] = ""
    _LINE: ClassVar[str] = ""

    @property
    def place(self) -> str:
        """Where a person finds the file and its neighbours."""
        return self._filled(self._PLACE)

    def describe(self) -> str:
        """One line for messages: the very file; of a web source the address where its bytes are served."""
        return self._filled(self._LINE)

    def _filled(self, template: str) -> str:
        path = PurePosixPath(getattr(self, "path", ""))
        hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")  # as for the hub's own libraries
        return template.format(**msgspec.structs.asdict(self), folder=path.parent, quoted=quote(str(path)), hub=hub)


class GithubSource(Source, frozen=True, tag="github"):
    """A file in a GitHub repository at a pinned commit."""

    _PLACE = "https://github.com/{repo}/tree/{commit}/{folder}"
    _LINE = "https://raw.githubusercontent.com/{repo}/{commit}/{quoted}"
    repo: str
    commit: str
    path: str

    def __post_init__(self) -> None:
        matching(self.repo, _REPO, "a repository (owner/name)")
        matching(self.commit, COMMIT, "a commit (40 hex digits)")
        relative_path(self.path)


class HuggingFaceSource(Source, frozen=True, tag="huggingface"):
    """A file of a Hugging Face data set at a pinned revision, the original byte for byte."""

    _PLACE = "https://huggingface.co/datasets/{repo}/tree/{revision}"
    _LINE = "{hub}/datasets/{repo}/resolve/{revision}/{quoted}"
    repo: str
    revision: str
    path: str

    def __post_init__(self) -> None:
        matching(self.repo, _REPO, "a data set (owner/name)")
        matching(self.revision, COMMIT, "a revision (40 hex digits)")
        relative_path(self.path)


class UrlSource(Source, frozen=True, tag="url"):
    """The official address of the file itself."""

    _PLACE = _LINE = "{url}"
    url: str

    def __post_init__(self) -> None:
        matching(self.url, _URL, "an http or https address")


class ArchiveSource(Source, frozen=True, tag="archive"):
    """A member of a tar or zip archive.

    Attributes:
        url: the address of the archive.
        member: its name; a folder in front of it may be left out where the rest is unique in the archive.
        sha256: the checksum of the archive, empty where it is not known (the member's own checksum still holds).
        size: the size of the archive in bytes, where it is known.
    """

    _PLACE = "{url}"
    _LINE = "{url} (archive; member {member})"
    url: str
    member: str
    sha256: str = ""
    size: int | None = None

    def __post_init__(self) -> None:
        matching(self.url, _URL, "an http or https address")
        relative_path(self.member)
        if self.sha256:
            matching(self.sha256, SHA256, "64 hex digits")


class PackageSource(Source, frozen=True, tag="package"):
    """A file that ships inside the installed package, under ``mirrorbench/embedded/data``; read in place."""

    _PLACE = "the mirrorbench package"
    _LINE = "embedded in mirrorbench ({path})"
    path: str

    def __post_init__(self) -> None:
        relative_path(self.path)

    @property
    def location(self) -> Path:
        """The file inside the installed package."""
        return EMBEDDED_DATA / self.path


class BesideSource(Source, frozen=True):
    """A file of one's own that lies beside its card; read in place. No card names it."""

    _PLACE = "the folder of its card"
    _LINE = "beside its card ({location})"
    location: Path


class DatasetSource(Source, frozen=True):
    """A split of a Hugging Face data set at a pinned revision, as the library ``datasets`` reads it (see ``hub``)."""

    _PLACE = "https://huggingface.co/datasets/{repo}/tree/{revision}"
    repo: str
    revision: str
    config: str
    split: str

    def describe(self) -> str:
        """The id, as a card or ``mirrorbench data fetch`` takes it."""
        return "/".join(filter(None, [f"hf:{self.repo}@{self.revision}", self.config, self.split]))


@dataclass(frozen=True, slots=True)
class DataFile:
    """One original file of a data set.

    Attributes:
        path: where it lies in the store, relative to the card's folder.
        sha256: its checksum, 64 hexadecimal digits; empty only where ``unverified``.
        size: its size in bytes; ``None`` only where ``unverified``.
        split: the part of the data set that it holds (``train``, ``dev``, ``test``), or empty.
        sources: where it can be had, in the order in which to try.
        unverified: the checksum of the original is not known. What is found at the first fetch is recorded
            and held to afterwards, and results carry the mark.
        optional: the task can do without it (labels that are not everywhere to be had): it is fetched where it can
            be, and its absence is no error.
    """

    path: str
    sha256: str
    size: int | None
    split: str = ""
    sources: tuple[Source, ...] = ()
    unverified: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Converted:
    """The same data as one converted file of a Hugging Face data set: a last resort, marked in the identity.

    It is not the original file, and its checksum is not known beforehand: what is found at the first fetch is
    recorded and held to afterwards.

    Attributes:
        source: data set, pinned revision and path.
        rows: how many rows the file must have: the published size of the data set.
        options: for the ``table`` parser: ``format``, ``columns``, ``scale``.
    """

    source: HuggingFaceSource
    rows: int
    options: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """The name under which the file stands in the data identity of a result."""
        return f"hf:{self.source.repo}@{self.source.revision}/{self.source.path}"

    @property
    def file(self) -> DataFile:
        """The file in the store."""
        path = f"converted/{self.source.revision[:12]}/{self.source.path}"
        return DataFile(path=path, sha256="", size=None, sources=(self.source,), unverified=True)


@dataclass(frozen=True, slots=True)
class Card:
    """The declaration of a task or a corpus.

    Attributes:
        name: the name on the command line, e.g. ``stsb``.
        kind: the kind of task (``pair-similarity``), or ``corpus``.
        title: one line for people.
        level: ``word``, ``phrase``, ``sentence`` or ``wic``: which recipe fits.
        languages: ISO 639-1 codes.
        metric: the main metric of a task; empty for a corpus.
        parser: the name of the parser of its files, see ``mirrorbench.data.formats``.
        files: the original files.
        licence: the licence in words; mixed licences are stated as such.
        licence_url: where the licence can be read.
        redistributable: whether the licence lets anybody pass the files on, for any purpose, with
            attribution.
        citation: BibTeX.
        homepage: the data set's page.
        version: raised when the card changes what the numbers mean.
        notes: what a reader of results should know.
        options: for the parser; ``split`` names the split that the task scores.
        converted: a converted copy, for when no source of the originals can be reached.
        label: the head of the task's column in a table; by default the name.
        folder: where its files lie in the store, by default its name; cards made from the same files share one.
    """

    name: str
    kind: str
    title: str
    level: str
    languages: tuple[str, ...]
    metric: str
    parser: str
    files: tuple[DataFile, ...]
    licence: str
    licence_url: str
    redistributable: bool
    citation: str
    homepage: str
    version: int
    notes: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    converted: Converted | None = None
    label: str = ""
    folder: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder or self.name)

    @property
    def split(self) -> str | None:
        """The split that the task scores; ``None`` where it scores all files."""
        split = self.options.get("split")
        return None if split is None else str(split)

    def files_of(self, split: str | None = None) -> tuple[DataFile, ...]:
        """The files of one split, or all files for ``None``.

        Raises:
            DataFormatError: no file of the card has that split.
        """
        files = tuple(file for file in self.files if split is None or file.split == split)
        if not files:
            known = ", ".join(sorted({file.split for file in self.files if file.split})) or "none"
            raise DataFormatError(f"Card {self.name!r} has no file of split {split!r}; its splits: {known}.")
        return files


def whole_number(options: Mapping[str, Any], key: str, default: int, least: int = 0) -> int:
    """An option of a card that is a whole number, at least ``least``."""
    value = options.get(key, default)
    if type(value) is not int or value < least:
        raise DataFormatError(f"The option {key!r} must be a whole number from {least} on, not {value!r}.")
    return value


def text_option(options: Mapping[str, Any], key: str) -> str:
    """An option of a card that is a text and cannot be left out."""
    value = options.get(key)
    if not isinstance(value, str) or not value:
        raise DataFormatError(f"The option {key!r} must be given, as a text; it is {value!r}.")
    return value


def only_file(files: Mapping[str, Path], parser: str) -> Path:
    """The file of a format that has one."""
    if len(files) != 1:
        raise DataFormatError(f"Parser {parser!r}: one file is needed, and the card gives {len(files)}.")
    return next(iter(files.values()))
