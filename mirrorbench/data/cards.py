"""Cards: what a data set consists of, where its files come from, and under what licence."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import quote

import msgspec

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.quoting import shown

CORPUS_KIND = "corpus"
"""The kind of a corpus card; all others are kinds of tasks."""

COMMIT = r"[0-9a-f]{40}"
"""Pattern of the name of a Git commit."""
SHA256 = r"[0-9a-f]{64}"
"""Pattern of a SHA-256 checksum."""
MAX_NAME = 100
"""Limit in bytes on a name or path component; file systems allow 255, and suffixes are added."""

EMBEDDED_DATA = Path(__file__).resolve().parents[1] / "embedded" / "data"
"""The folder of the data files inside the package."""


def relative_path(value: str) -> str:
    """Return a value that is a safe relative path below a folder; raise a ``ValueError`` for any other."""
    path = PurePosixPath(value)
    if not value:
        raise ValueError("a path is missing")
    if not value.isprintable() or any(len(part.encode()) > MAX_NAME for part in path.parts):
        raise ValueError(f"{shown(value)} cannot be a path")
    leaves_folder = path.is_absolute() or ".." in path.parts
    # Windows has other separators and drives, and pathlib drops "." and repeated slashes.
    is_plain = "\\" not in value and ":" not in value and str(path) == value
    if leaves_folder or not is_plain:
        raise ValueError(f"{value!r} must be a plain relative path, without '..'")
    if any(part.startswith(".") for part in path.parts):
        raise ValueError(f"{value!r} must not be hidden")
    return value


def matching(value: str, pattern: str, description: str) -> str:
    """Return a value that matches a pattern as a whole; raise a ``ValueError`` ("is not ``description``") for any other."""
    if not re.fullmatch(pattern, value, re.ASCII):
        raise ValueError(f"{shown(value)} is not {description}")
    return value


# Patterns of the fields of sources, each with a description for messages.
_PATTERNS = {
    "repo": (r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", "a repository (owner/name)"),
    "commit": (COMMIT, "a commit (40 hex digits)"),
    "revision": (COMMIT, "a revision (40 hex digits)"),
    "url": (r"https?://[^\s]+", "an http or https address"),
    "sha256": (f"|{SHA256}", "64 hex digits"),
}


class Source(msgspec.Struct, frozen=True, tag_field="from", forbid_unknown_fields=True):
    """A source of a file. In a card it is a mapping whose key ``from`` names the class.

    ``_PLACE`` and ``_LINE`` are the format strings of ``place`` and ``describe``. Besides the fields they may name
    ``folder`` (parent of ``path``), ``quoted`` (``path`` quoted for URLs) and ``hub`` (address of the hub).
    """

    _PLACE: ClassVar[str] = ""
    _LINE: ClassVar[str] = ""

    @property
    def place(self) -> str:
        """The page or folder where a person finds the file."""
        return self._filled(self._PLACE)

    def describe(self) -> str:
        """Return one line for messages: the file itself, or the download address of a web source."""
        return self._filled(self._LINE)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name in _PATTERNS:
                matching(getattr(self, name), *_PATTERNS[name])
            elif name in ("path", "member"):
                relative_path(getattr(self, name))

    def _filled(self, template: str) -> str:
        path = PurePosixPath(getattr(self, "path", ""))
        # The hub's own libraries read the same variable.
        hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        return template.format(
            **msgspec.structs.asdict(self), folder=path.parent, quoted=quote(str(path)), hub=hub
        )


class GithubSource(Source, frozen=True, tag="github"):
    """A file in a GitHub repository at a pinned commit."""

    _PLACE = "https://github.com/{repo}/tree/{commit}/{folder}"
    _LINE = "https://raw.githubusercontent.com/{repo}/{commit}/{quoted}"
    repo: str
    commit: str
    path: str


class HuggingFaceSource(Source, frozen=True, tag="huggingface"):
    """An original file in a Hugging Face data set at a pinned revision."""

    _PLACE = "https://huggingface.co/datasets/{repo}/tree/{revision}"
    _LINE = "{hub}/datasets/{repo}/resolve/{revision}/{quoted}"
    repo: str
    revision: str
    path: str


class UrlSource(Source, frozen=True, tag="url"):
    """The file's official address."""

    _PLACE = _LINE = "{url}"
    url: str


class ArchiveSource(Source, frozen=True, tag="archive"):
    """A member of a tar or zip archive.

    Leading folders of ``member`` may be omitted if the rest is unique. ``sha256`` and ``size`` are the archive's, if
    known (the member's own checksum is checked in any case).
    """

    _PLACE = "{url}"
    _LINE = "{url} (archive; member {member})"
    url: str
    member: str
    sha256: str = ""
    size: int | None = None


class PackageSource(Source, frozen=True, tag="package"):
    """A file under ``mirrorbench/embedded/data`` in the installed package, read in place."""

    _PLACE = "the mirrorbench package"
    _LINE = "embedded in mirrorbench ({path})"
    path: str

    @property
    def location(self) -> Path:
        """The file inside the installed package."""
        return EMBEDDED_DATA / self.path


CardSource = GithubSource | HuggingFaceSource | UrlSource | ArchiveSource | PackageSource
"""The sources that cards may name."""


class BesideSource(Source, frozen=True):
    """A user's own file in the folder of its card, read in place. Not written in cards."""

    _PLACE = "the folder of its card"
    _LINE = "beside its card ({location})"
    location: Path


class DatasetSource(Source, frozen=True):
    """A split of a Hugging Face data set at a pinned revision, read with the library ``datasets``."""

    _PLACE = "https://huggingface.co/datasets/{repo}/tree/{revision}"
    repo: str
    revision: str
    config: str
    split: str

    def describe(self) -> str:
        """Return the id that cards and ``mirrorbench data fetch`` take."""
        parts = [f"hf:{self.repo}@{self.revision}", self.config, self.split]
        return "/".join(part for part in parts if part)


class DataFile(msgspec.Struct, frozen=True):
    """One original file of a data set.

    Attributes:
        path: path in the store, relative to the card's folder.
        sha256: 64 hexadecimal digits; empty only if ``unverified``.
        size: in bytes; ``None`` only if ``unverified``.
        split: the split that the file holds (``train``, ``dev``, ``test``), or empty.
        sources: the file's sources, in the order in which they are tried.
        unverified: the original's checksum is unknown. The file is taken if the card's parser reads it; its checksum is
            recorded and required from then on, and results are marked.
        optional: the task works without the file (e.g. labels that are not public); a failed fetch is not an error.
        rows: published number of items, which helps to tell an ``unverified`` file from another; 0 if unknown.
    """

    path: str
    sha256: str = ""
    size: Annotated[int, msgspec.Meta(ge=0)] | None = None
    split: str = ""
    sources: tuple[Source, ...] = ()
    unverified: bool = False
    optional: bool = False
    rows: Annotated[int, msgspec.Meta(ge=0)] = 0


class Converted(HuggingFaceSource, frozen=True, tag=None):
    """A converted copy of the data, one file of a Hugging Face data set, used if no original can be fetched.

    The checksum of the first fetch is required from then on. ``rows`` is the published size of the data set;
    ``format``, ``columns`` and ``scale`` are options of the parser ``table``. ``config`` (empty if there is one only) and
    ``split`` say which part of the data set the file is.
    """

    rows: Annotated[int, msgspec.Meta(ge=0)]
    format: str
    columns: dict[str, Any]
    scale: list[Any]
    config: str = ""
    split: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The options of the parser ``table``."""
        return {
            "format": self.format,
            "columns": self.columns,
            "scale": self.scale,
            "rows": self.rows,
        }

    @property
    def identity(self) -> str:
        """The copy's name in the data identity of a result."""
        return f"hf:{self.repo}@{self.revision}/{self.path}"

    @property
    def file(self) -> DataFile:
        """The copy as a file of the store."""
        return DataFile(
            f"converted/{self.revision[:12]}/{self.path}", sources=(self,), unverified=True
        )


class Card(msgspec.Struct, frozen=True, kw_only=True):
    r"""The declaration of a task or a corpus: where its files come from, how they are parsed, and how they are scored.

    A plugin writes a card as a YAML file with these keys, and registers its path with ``register_tasks`` or
    ``register_corpora``; mirrorbench makes the object. Plugins get it as the attribute ``card`` of a ``TaskKind``, in
    ``TaskKind.from_card``, from ``corpus_cards``, and as the argument of the methods of ``DataStore``.

    Attributes:
        name: name on the command line, e.g. ``stsb``.
        kind: kind of task (``pair-similarity``), or ``corpus``.
        title: one line of description.
        level: ``word``, ``phrase``, ``sentence`` or ``wic``; selects the recipe.
        languages: ISO 639-1 codes, a tuple.
        parser: name of a registered parser.
        files: the original files, a tuple of objects with the attributes ``path`` (name in the store, relative to the
            card's folder), ``sha256``, ``size`` (in bytes), ``split`` (``train``, ``dev``, ``test``, or empty),
            ``sources``, ``unverified`` (whether the checksum is unknown until the first fetch) and ``optional``. In
            YAML a list of names of files beside the card, or of mappings.
        licence: name of the licence, or of several.
        redistributable: whether anybody may pass the files on, for any purpose, with attribution.
        citation: BibTeX.
        homepage: address of the data set's page.
        version: raised when a change of the card changes scores.
        metric: main metric of a task; empty for a corpus (default).
        licence_url: address of the licence text (default empty).
        notes: remarks for readers of results (default empty).
        options: options of the parser (default none); among them, ``split`` names the split that the task scores.
        converted: a converted copy, used if no source of the originals can be reached (default ``None``).
        label: column header in tables (default empty: the name).
        folder: folder in the store (default: the name); cards of the same files share one.
        identifies: name of the space of item ids, if other cards share it (default empty): equal ids then mean one
            item.

    Raises:
        DataFormatError: when a file is registered as a card, if it is not one; when ``files_of`` is asked for a split
            without files.

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import load_plugins
        >>> _ = Path("pets.tsv").write_text("a cat\ta kitten\t4.5\na cat\ta bus\t0.5\n")
        >>> _ = Path("pets.yaml").write_text('''
        ... name: pets
        ... kind: pair-similarity
        ... level: sentence
        ... metric: spearman
        ... parser: table
        ... options: {format: tsv, columns: {left: 0, right: 1, gold: 2}, scale: [0, 5]}
        ... files: [pets.tsv]
        ... ''')

        In a plugin, ``register_tasks`` calls ``register(Path("pets.yaml"))``. To see the card without one:

        >>> plugins = load_plugins(discover=False).extended("register_tasks", Path("pets.yaml"))
        >>> card = plugins.tasks["pets"].card
        >>> card.metric, card.languages, [file.path for file in card.files_of(card.split)]
        ('spearman', ('en',), ['pets.tsv'])
    """

    name: str
    kind: str
    title: str
    level: Literal["word", "phrase", "sentence", "wic"]
    languages: tuple[str, ...]
    parser: str
    files: Annotated[tuple[DataFile, ...], msgspec.Meta(min_length=1)]
    licence: str
    redistributable: bool
    citation: str
    homepage: str
    version: int
    metric: str = ""
    licence_url: str = ""
    notes: str = ""
    options: Mapping[str, Any] = {}
    converted: Converted | None = None
    label: str = ""
    folder: str = ""
    identifies: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "folder", self.folder or self.name)

    @property
    def split(self) -> str | None:
        """The split that the task scores; ``None`` if it scores all files."""
        split = self.options.get("split")
        return None if split is None else str(split)

    def files_of(self, split: str | None = None) -> tuple[DataFile, ...]:
        """Return the files of one split (``None``: all files); a split without files is a ``DataFormatError``."""
        files = tuple(file for file in self.files if split is None or file.split == split)
        if not files:
            splits = sorted({file.split for file in self.files if file.split})
            raise DataFormatError(
                f"Card {self.name!r} has no file of split {split!r}; "
                f"its splits: {', '.join(splits) or 'none'}."
            )
        return files


@dataclass(frozen=True, slots=True)
class ResolvedData:
    """The data that a task is scored on.

    Attributes:
        files: paths of the files, by their name in the card.
        parser: name of the parser.
        options: options of the parser.
        checksums: SHA-256 of the files, by their name in the card; a converted copy has the name
            ``hf:<repo>@<revision>/<path>``.
    """

    files: dict[str, Path]
    parser: str
    options: dict[str, Any]
    checksums: dict[str, str]


def whole_number(options: Mapping[str, Any], key: str, default: int, least: int = 0) -> int:
    """Return a card option that is an integer of at least ``least``; anything else is a ``DataFormatError``."""
    value = options.get(key, default)
    if type(value) is not int or value < least:
        raise DataFormatError(
            f"The option {key!r} must be a whole number of at least {least}, not {value!r}."
        )
    return value


def text_option(options: Mapping[str, Any], key: str) -> str:
    """Return a required card option that is a non-empty string; anything else is a ``DataFormatError``."""
    value = options.get(key)
    if not isinstance(value, str) or not value:
        raise DataFormatError(
            f"The option {key!r} must be a text that is not empty, not {value!r}."
        )
    return value


def only_file(files: Mapping[str, Path], parser: str) -> Path:
    """Return the only file of a card; several, or none, are a ``DataFormatError``."""
    if len(files) != 1:
        raise DataFormatError(f"Parser {parser!r} reads one file, and the card gives {len(files)}.")
    return next(iter(files.values()))


HUB_FOLDER = "hub"
"""The store's folder of all hub splits."""
_ID = re.compile(
    r"hf:(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)@(?P<revision>[\w.-]+)"
    r"(?:/(?P<config>[A-Za-z0-9_][\w.-]*))?/(?P<split>\w[\w.]*)(?:#(?P<column>.+))?",
    re.ASCII,
)


def is_hub_id(text: str) -> bool:
    """Return whether a text is meant as a hub id, well-formed or not."""
    return text.startswith("hf:")


def parse_hub_id(text: str) -> tuple[DatasetSource, str]:
    """Return the split that a hub id names, and the column (empty if it names none).

    A malformed id, or a revision that is not a commit, is a ``UsageError``.

    >>> source, column = parse_hub_id("hf:mteb/sts17@" + "0" * 40 + "/en-en/test#sentence1")
    >>> source.repo, source.config, source.split, column
    ('mteb/sts17', 'en-en', 'test', 'sentence1')
    """
    match = _ID.fullmatch(text)
    if match is None:
        hint = "Write hf:OWNER/NAME@COMMIT[/CONFIG]/SPLIT, and #COLUMN for a corpus."
        raise UsageError(f"{text!r} does not name a split of a data set on the hub", hint)
    parts = {name: value or "" for name, value in match.groupdict().items()}
    column = parts.pop("column")
    repo = parts["repo"]
    revision = parts["revision"]
    if not re.fullmatch(COMMIT, revision):
        problem = f"{text!r} asks for {revision!r}, which is not a commit (40 hexadecimal digits); branches and tags move"
        hint = f"The commits are at https://huggingface.co/datasets/{repo}/commits/main"
        raise UsageError(problem, hint)
    # The names become folders and a file name in the store.
    names = [*repo.split("/"), parts["config"], parts["split"]]
    if any(len(name) > MAX_NAME for name in names):
        raise UsageError(f"{text!r}: a name has more than {MAX_NAME} characters")
    return DatasetSource(**parts), column


def hub_file(source: DatasetSource) -> DataFile:
    """Return a split as a file of the store, whose checksum is recorded when it is first fetched."""
    folder = f"{source.repo}/{source.revision}"
    if source.config:
        folder += f"/{source.config}"
    path = f"{folder}/{source.split}.jsonl"
    return DataFile(path, sources=(source,), unverified=True)


def hub_card(text: str) -> Card:
    """Return a card for a hub id given as ``--corpus``; errors as in ``parse_hub_id``."""
    source, column = parse_hub_id(text)
    return Card(
        name=text,
        kind=CORPUS_KIND,
        title="from the Hugging Face hub",
        level="sentence",
        languages=(),
        parser="lines",
        files=(hub_file(source),),
        licence="as the data set's page says.",
        redistributable=False,
        citation="",
        homepage=source.place,
        version=1,
        options={"column": column} if column else {},
        folder=HUB_FOLDER,
    )
