"""Cards: what a data set consists of, where its files come from, and under what licence.

A card is a YAML file; ``cardfile`` reads it strictly. ``catalogue`` knows those that ship with the package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from mirrorbench.core.errors import DataFormatError

CORPUS_KIND = "corpus"
"""The card kind of raw tuning strings; every other kind is a task kind."""

EMBEDDED_DATA = Path(__file__).resolve().parents[1] / "embedded" / "data"
"""Where the files that ship inside the package lie."""


@dataclass(frozen=True, slots=True)
class GithubSource:
    """A file in a GitHub repository at a pinned commit."""

    repo: str
    commit: str
    path: str

    @property
    def place(self) -> str:
        """Where a person finds the file and its neighbours."""
        return f"https://github.com/{self.repo}/tree/{self.commit}/{PurePosixPath(self.path).parent}"

    @property
    def url(self) -> str:
        """Where the raw bytes are served."""
        return f"https://raw.githubusercontent.com/{self.repo}/{self.commit}/{quote(self.path)}"

    def describe(self) -> str:
        """One line for messages: the very file."""
        return self.url


@dataclass(frozen=True, slots=True)
class HuggingFaceSource:
    """A file of a Hugging Face data set at a pinned revision, the original byte for byte.

    ``HF_ENDPOINT`` names a mirror, as it does for the Hugging Face libraries.
    """

    repo: str
    revision: str
    path: str

    @property
    def place(self) -> str:
        """Where a person finds the file and its neighbours."""
        return f"https://huggingface.co/datasets/{self.repo}/tree/{self.revision}"

    @property
    def url(self) -> str:
        """Where the raw bytes are served."""
        endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        return f"{endpoint}/datasets/{self.repo}/resolve/{self.revision}/{quote(self.path)}"

    def describe(self) -> str:
        """One line for messages: the very file."""
        return self.url


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """A split of a Hugging Face data set at a pinned revision, as the library ``datasets`` reads it (see ``hub``).

    Attributes:
        repo: ``owner/name``.
        revision: a commit, 40 hexadecimal digits.
        config: the configuration (subset), empty for the only one.
        split: the split.
    """

    repo: str
    revision: str
    config: str
    split: str

    @property
    def place(self) -> str:
        """Where a person finds the data set."""
        return f"https://huggingface.co/datasets/{self.repo}/tree/{self.revision}"

    def describe(self) -> str:
        """One line for messages: the id, as a card or ``mirrorbench data fetch`` takes it."""
        return "/".join(filter(None, [f"hf:{self.repo}@{self.revision}", self.config, self.split]))


@dataclass(frozen=True, slots=True)
class UrlSource:
    """The official address of the file itself."""

    url: str

    @property
    def place(self) -> str:
        """Where a person finds the file."""
        return self.url

    def describe(self) -> str:
        """One line for messages: the very file."""
        return self.url


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """A member of a tar or zip archive.

    Attributes:
        url: the address of the archive.
        member: the member's name; a folder in front of it may be left out where the rest is unique in the
            archive.
        sha256: the checksum of the archive, empty where it is not known (the member's own checksum still
            holds).
        size: the size of the archive in bytes, where it is known.
    """

    url: str
    member: str
    sha256: str = ""
    size: int | None = None

    @property
    def place(self) -> str:
        """Where a person finds the archive."""
        return self.url

    def describe(self) -> str:
        """One line for messages: the very file."""
        return f"{self.url} (archive; member {self.member})"


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A file that ships inside the installed package, under ``mirrorbench/embedded/data``; read in place."""

    path: str

    @property
    def place(self) -> str:
        """Where a person finds the file."""
        return "the mirrorbench package"

    @property
    def location(self) -> Path:
        """The file inside the installed package."""
        return EMBEDDED_DATA / self.path

    def describe(self) -> str:
        """One line for messages: the very file."""
        return f"embedded in mirrorbench ({self.path})"


class BesideSource(PackageSource):
    """A file of one's own that lies beside its card; read in place. ``path`` is absolute."""

    __slots__ = ()

    @property
    def place(self) -> str:
        """Where a person finds the file."""
        return "the folder of its card"

    def describe(self) -> str:
        """One line for messages: the very file."""
        return f"beside its card ({self.path})"


Source = GithubSource | HuggingFaceSource | DatasetSource | UrlSource | ArchiveSource | PackageSource


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
    """An option that is a whole number.

    Args:
        options: of the card.
        key: the option.
        default: what it is where the card does not name it.
        least: what it must be at least.

    Raises:
        DataFormatError: it is something else, or less.
    """
    value = options.get(key, default)
    if type(value) is not int or value < least:
        raise DataFormatError(f"The option {key!r} must be a whole number from {least} on, not {value!r}.")
    return value


def text_option(options: Mapping[str, Any], key: str) -> str:
    """An option that is a word and cannot be left out.

    Raises:
        DataFormatError: it is missing, empty or no text.
    """
    value = options.get(key)
    if not isinstance(value, str) or not value:
        raise DataFormatError(f"The option {key!r} must be given, as a text; it is {value!r}.")
    return value


def only_file(files: Mapping[str, Path], parser: str) -> Path:
    """The file of a format that has one.

    Raises:
        DataFormatError: there are several, or none.
    """
    if len(files) != 1:
        raise DataFormatError(f"Parser {parser!r}: one file is needed, and the card gives {len(files)}.")
    return next(iter(files.values()))
