"""Reads cards and suites, built-in ones and a user's own, from YAML. An unknown or missing key is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict, replace

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.quoting import shown
from mirrorbench.core.schema import problem_at, read, read_yaml
from mirrorbench.data.cards import (
    CORPUS_KIND,
    HUB_FOLDER,
    MAX_NAME,
    SHA256,
    BesideSource,
    Card,
    CardSource,
    DataFile,
    hub_file,
    is_hub_id,
    matching,
    parse_hub_id,
    relative_path,
)
from mirrorbench.data.readers.files import sha256_of

_NAME = rf"(?=.{{1,{MAX_NAME}}}\Z)[a-z0-9][a-z0-9.-]*"

# Defaults for a user's own card, whose files are in the card's folder.
_USER_DEFAULTS: dict[str, Any] = {
    "languages": ["en"],
    "licence": "not stated",
    "redistributable": False,
    "citation": "none",
    "homepage": "",
    "version": 1,
}


class _FileSchema(DataFile, frozen=True, forbid_unknown_fields=True):
    """The schema of a file in a card file."""

    sources: tuple[CardSource, ...] = ()

    def __post_init__(self) -> None:
        relative_path(self.path)
        if self.unverified and (self.sha256 or self.size is not None):
            raise ValueError("either a checksum and a size, or 'unverified: true'")
        if not self.unverified:
            matching(self.sha256, SHA256, "64 hex digits")
            if self.size is None:
                raise ValueError("the size must be given, a number of bytes")


class _CardSchema(Card, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The schema of a card file; its ``sources`` are tried after those of each file."""

    languages: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    files: Annotated[tuple[_FileSchema, ...], msgspec.Meta(min_length=1)]
    sources: tuple[CardSource, ...] = ()

    def __post_init__(self) -> None:
        limits = f"a name: lower-case letters, digits, '-' and '.' only, at most {MAX_NAME}"
        matching(self.name, _NAME, limits)
        matching(self.folder or self.name, _NAME, limits)
        if (self.kind == CORPUS_KIND) == bool(self.metric):
            raise ValueError("a task names its metric, a corpus has none")
        for key in ("title", "licence", "citation"):
            if not getattr(self, key).strip():
                raise ValueError(f"{key!r} is empty")


def load_cards(path: Path) -> tuple[Card, ...]:
    """Read and check all cards of a file, one or a family (``expand``), in order; errors name file, line and key."""
    content = read_yaml(path)
    raw = content.bare()
    if not isinstance(raw, dict):
        raise DataFormatError(f"{path}: a card must be a mapping of keys to values")
    try:
        return tuple(_parse_card(mapping, path.resolve().parent) for mapping in expand(raw))
    except (ValueError, DataFormatError) as problem:  # msgspec's errors are ValueErrors
        raise problem_at(path, content, str(problem), _CardSchema) from None


def load_card(path: Path) -> Card:
    """Read and check the only card of a file; several cards are a ``DataFormatError``."""
    cards = load_cards(path)
    if len(cards) != 1:
        raise DataFormatError(f"{path} holds {len(cards)} cards where one is expected.")
    return cards[0]


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of tasks, with a line on what they measure."""

    measures: str
    tasks: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


def read_suites(path: Path) -> dict[str, Suite]:
    """Return the suites of a file by name; a suite that names a task twice is a ``DataFormatError``."""
    suites = read(path, dict[str, Suite])
    for name, suite in suites.items():
        if len(set(suite.tasks)) != len(suite.tasks):
            raise DataFormatError(f"{path}: suite {name!r} names a task twice")
    return suites


def _parse_card(raw: dict[str, Any], folder: Path) -> Card:
    """Return the card that a mapping describes; ``folder`` is the folder of the card file.

    A wrong value is a ``ValueError`` whose message ends in its place in the card, as msgspec writes it.
    """
    # A user's own card may list file names instead of mappings, and leave out many keys: these get defaults.
    user_file_names = _user_file_names(raw)
    if user_file_names:
        raw = _with_user_defaults(raw, user_file_names)
    parsed = msgspec.convert(raw, _CardSchema)

    if user_file_names:
        files = tuple(_user_file(folder, name) for name in user_file_names)
    else:
        files = tuple(_data_file(file, parsed) for file in parsed.files)
    paths = {file.path for file in files}
    if len(paths) != len(files):
        raise ValueError("two files have the same path - at `$.files`")

    values: dict[str, Any] = {}
    for key, value in asdict(parsed).items():
        values[key] = value.strip() if isinstance(value, str) else value
    # A ``Card`` has no sources: ``_data_file`` has added them to each of its files.
    del values["sources"]
    values["files"] = files
    # Notes may be broken into lines in the file.
    values["notes"] = " ".join(parsed.notes.split())
    card = Card(**values)

    # The option ``split`` chooses the files to score on.
    splits = {file.split for file in files}
    if card.split is not None and card.split not in splits:
        raise ValueError(f"no file has the split {card.split!r} - at `$.options`")
    return card


def _user_file_names(raw: dict[str, Any]) -> list[str]:
    """Return the names under ``files`` in a user's own card; empty for a card whose files are mappings."""
    names = raw.get("files")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    return []


def _with_user_defaults(raw: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return a user's own card with the keys that it may omit, and a placeholder in the schema's form for its files."""
    defaults = {"title": raw.get("name"), **_USER_DEFAULTS}
    if any(is_hub_id(name) for name in names):
        defaults["folder"] = HUB_FOLDER
    return {**defaults, **raw, "files": [{"path": "placeholder", "unverified": True}]}


def _user_file(folder: Path, name: str) -> DataFile:
    """Return the file that a user's card names: a split on the hub, or a file in ``folder`` with the checksum it has now.

    A malformed hub id or a file that does not exist is a ``ValueError``. It names its place in the card as msgspec does.
    """
    if is_hub_id(name):
        try:
            source, column = parse_hub_id(name)
        except UsageError as error:
            raise ValueError(f"{error.message}; {error.hint} - at `$.files`") from None
        if column:
            raise ValueError(
                f"{shown(name)}: leave the column out here; a card has it in its options - at `$.files`"
            )
        return hub_file(source)
    path = folder / relative_path(name)
    if not path.is_file():
        raise ValueError(f"{path} does not exist - at `$.files`")
    return DataFile(
        path=name,
        sha256=sha256_of(path),
        size=path.stat().st_size,
        sources=(BesideSource(path),),
    )


def _data_file(file: _FileSchema, card: _CardSchema) -> DataFile:
    """Return a file with its own sources, then the card's, in all of which ``{path}`` is the file's path."""
    sources = []
    for source in (*file.sources, *card.sources):
        changes = {}
        for key in ("path", "member", "url"):
            if key in source.__struct_fields__:
                changes[key] = getattr(source, key).replace("{path}", file.path)
        sources.append(replace(source, **changes))
    values = asdict(file)
    values["sources"] = tuple(sources)
    return DataFile(**values)


MAX_CARDS = 1000
"""Limit on the cards of one family, so that a card file cannot fill the memory."""
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def expand(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the mapping of each card of a family; a card without ``variants`` stays as it is.

    ``variants`` maps axes to lists of mappings from placeholders to values. Each combination of one mapping per axis is
    a card (the last axis varies fastest), with ``{placeholder}`` replaced in all texts but the citation, because BibTeX
    uses braces. A text that is only a placeholder becomes the value itself: numbers and lists keep their type.
    """
    card = {key: value for key, value in raw.items() if key != "variants"}
    if "variants" not in raw:
        yield card
        return
    axes = _axes(raw["variants"])
    if prod(map(len, axes)) > MAX_CARDS:
        raise DataFormatError(f"variants: they would make more than {MAX_CARDS} cards")
    for rows in product(*axes):
        # One mapping per axis: merge them.
        values: dict[str, Any] = {}
        for row in rows:
            shared = values.keys() & row.keys()
            if shared:
                raise DataFormatError(f"variants: two axes name the placeholder {min(shared)!r}")
            values |= row
        filled = {key: _fill(value, values) for key, value in card.items() if key != "citation"}
        # In the order of the card's keys, with the citation as it is.
        yield {**card, **filled}


def _axes(variants: Any) -> list[list[dict[str, Any]]]:
    """Return the rows of each axis, which map placeholders to values, after checking them."""
    if not isinstance(variants, dict) or not variants:
        raise DataFormatError("'variants' must be a mapping of axes to lists")
    for axis, rows in variants.items():
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise DataFormatError(
                f"variants: {axis!r} must be a list of mappings of placeholders to values"
            )
        for row in rows:
            if not all(_PLACEHOLDER.fullmatch(f"{{{name}}}") for name in row):
                raise DataFormatError(f"variants: the placeholders of {axis!r} must be words")
        if any(row.keys() != rows[0].keys() for row in rows):
            raise DataFormatError(f"variants: all rows of {axis!r} must give the same placeholders")
    return list(variants.values())


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with its placeholders replaced; unknown ones stay, such as ``{path}`` (see ``_data_file``)."""
    if isinstance(template, dict):
        return {key: _fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, values) for value in template]
    if not isinstance(template, str):
        return template
    # A text that is only a placeholder becomes the value itself, not its text.
    whole = _PLACEHOLDER.fullmatch(template)
    if whole and whole[1] in values:
        return values[whole[1]]
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), template)


def cards_folder() -> Path:
    """Return the folder of the built-in cards: ``mirrorbench/cards`` in a wheel, ``tasks`` beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "cards", package.parent / "tasks"):
        if (folder / "suites.yaml").is_file():
            return folder
    problem = (
        f"The built-in cards are in neither {package / 'cards'} nor {package.parent / 'tasks'}."
    )
    raise DataFormatError(problem, hint="Install mirrorbench again.")


@lru_cache(maxsize=1)
def builtin_cards() -> Mapping[str, Card]:
    """Return all built-in cards by name, sorted by name."""
    cards: dict[str, Card] = {}
    for path in sorted(cards_folder().glob("*/*.yaml")):
        for card in load_cards(path):
            cards[card.name] = card
    return MappingProxyType(dict(sorted(cards.items())))


def corpus_cards(corpus: str) -> tuple[Card, ...]:
    """Return the cards of a built-in corpus: one for each part of its name, in the order of the parts.

    A plugin calls it for the languages, the licence or the files of the corpus that an encoder is tuned on. Nothing is
    fetched or read but the cards.

    Args:
        corpus: name of a corpus, or names joined by ``+``, as after ``--corpus``.

    Returns:
        The cards, each a ``Card``. There are none if a part has no built-in card, such as a file of the user, a
        generated corpus, or the corpus of a plugin.

    Example:
        >>> from mirrorbench.plugin import corpus_cards
        >>> [card.languages for card in corpus_cards("words-en+words-de")]
        [('en',), ('de',)]
        >>> corpus_cards("my-texts.txt")
        ()
    """
    cards = builtin_cards()
    parts = corpus.split("+")
    if not all(part in cards and cards[part].kind == CORPUS_KIND for part in parts):
        return ()
    return tuple(cards[part] for part in parts)


@lru_cache(maxsize=1)
def builtin_suites() -> Mapping[str, tuple[str, ...]]:
    """Return the built-in suites: names of tasks in the order of the table."""
    suites = read_suites(cards_folder() / "suites.yaml")
    return MappingProxyType({name: suite.tasks for name, suite in suites.items()})
