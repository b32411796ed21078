"""Reading cards strictly: what a card does not say correctly is an error, never a default."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.specs import LEVELS
from mirrorbench.core.yamlfile import read_yaml
from mirrorbench.data.cards import (
    CORPUS_KIND,
    ArchiveSource,
    BesideSource,
    Card,
    Converted,
    DataFile,
    GithubSource,
    HuggingFaceSource,
    PackageSource,
    Source,
    UrlSource,
)
from mirrorbench.data.hub import FOLDER, hub_file, is_hub_id, parse_hub_id
from mirrorbench.data.textfiles import sha256_of, shown

_MAX_NAME = 100  # bytes in a name or in a part of a path; file systems take 255, and stores add to them
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*\Z")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_URL = re.compile(r"https?://[^\s]+\Z")

_REQUIRED = {
    "name": str,
    "kind": str,
    "title": str,
    "level": str,
    "languages": list,
    "parser": str,
    "files": list,
    "licence": str,
    "redistributable": bool,
    "citation": str,
    "homepage": str,
    "version": int,
}
_OPTIONAL = {
    "label": str,
    "folder": str,
    "metric": str,
    "licence_url": str,
    "notes": str,
    "options": dict,
    "sources": list,
    "converted": dict,
}
# What a card of one's own data, whose files lie beside it, need not say.
_OWN: dict[str, Any] = {
    "languages": ["en"], "licence": "not stated", "redistributable": False, "citation": "none", "homepage": "",
    "version": 1,
}  # fmt: skip
_FILE_KEYS = {"path", "sha256", "size", "split", "sources", "unverified", "optional"}
_SOURCE_KEYS = {
    "github": {"repo", "commit", "path"},
    "huggingface": {"repo", "revision", "path"},
    "url": {"url"},
    "archive": {"url", "member", "sha256", "size"},
    "package": {"path"},
}
_CONVERTED_KEYS = {"repo", "revision", "path", "rows", "format", "columns", "scale"}


class _ProblemError(Exception):
    """What is wrong with a card, before the file's name is put in front."""


def load_cards(path: Path) -> tuple[Card, ...]:
    """Read and check the cards of one file: one, or a family of them (see ``families``).

    Args:
        path: the YAML file.

    Returns:
        the cards, in the order of the file.

    Raises:
        DataFormatError: the file is no card; the message names the file and the key.
    """
    content = read_yaml(path).bare()
    try:
        return tuple(_card(raw, path.resolve().parent) for raw in expand(_mapping(content, "a card")))
    except (_ProblemError, DataFormatError) as problem:
        raise DataFormatError(f"{path}: {problem}") from None


def load_card(path: Path) -> Card:
    """Read and check the card of a file that holds one.

    Raises:
        DataFormatError: the file is no card, or a family of several; the message names it.
    """
    cards = load_cards(path)
    if len(cards) != 1:
        raise DataFormatError(f"{path} holds {len(cards)} cards where one is expected.")
    return cards[0]


def read_suites(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the suites: a mapping of suite names to lists of task names.

    Raises:
        DataFormatError: the file is something else, or a suite names a task twice.
    """
    suites: dict[str, tuple[str, ...]] = {}
    content = read_yaml(path).bare()
    try:
        for name, tasks in _mapping(content, "the suites").items():
            if not isinstance(name, str) or not isinstance(tasks, list) or not tasks:
                raise _ProblemError(f"suite {name!r} is not a list of task names")
            if not all(isinstance(task, str) for task in tasks) or len(set(tasks)) != len(tasks):
                raise _ProblemError(f"suite {name!r}: each task once, as a name")
            suites[name] = tuple(tasks)
    except _ProblemError as problem:
        raise DataFormatError(f"{path}: {problem}") from None
    return suites


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _ProblemError(f"{what} must be a mapping of keys to values")
    return value


def _check_keys(mapping: dict[str, Any], known: set[str], where: str) -> None:
    for key in mapping:
        if key not in known:
            near = difflib.get_close_matches(str(key), sorted(known), n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise _ProblemError(f"{where}: unknown key {key!r}; {advice}")


def _card(raw: dict[str, Any], folder: Path) -> Card:
    if _is_own(raw):
        raw = {"title": raw.get("name"), **_OWN, **raw}
    types = _REQUIRED | _OPTIONAL
    _check_keys(raw, set(types), "card")
    for key, kind in types.items():
        if key not in raw:
            if key in _REQUIRED:
                raise _ProblemError(f"the key {key!r} is missing")
        elif not isinstance(raw[key], kind) or (kind is int and isinstance(raw[key], bool)):
            raise _ProblemError(f"{key!r} must be of type {kind.__name__}, not {type(raw[key]).__name__}")
    _check_values(raw)
    if _is_own(raw):
        files = tuple(_of_hub(item) if is_hub_id(item) else _beside(folder, item) for item in raw["files"])
        if any(map(is_hub_id, raw["files"])):
            raw = {"folder": FOLDER, **raw}
    else:
        files = tuple(_file(item, raw.get("sources", [])) for item in raw["files"])
    if len({file.path for file in files}) != len(files):
        raise _ProblemError("two files have the same path")
    card = Card(
        **{key: raw[key] for key in ("name", "kind", "title", "level", "parser", "redistributable", "version")},
        **{
            key: raw.get(key, "").strip()
            for key in ("metric", "licence", "licence_url", "citation", "homepage", "label", "folder")
        },
        languages=tuple(raw["languages"]),
        files=files,
        notes=" ".join(raw.get("notes", "").split()),
        options=raw.get("options", {}),
        converted=_converted(raw["converted"]) if "converted" in raw else None,
    )
    if card.split is not None and card.split not in {file.split for file in files}:
        raise _ProblemError(f"options: no file has the split {card.split!r}")
    return card


def _is_own(raw: dict[str, Any]) -> bool:
    """Whether a card is of one's own data: its files are bare names, and lie beside it, or splits of the hub."""
    files = raw.get("files")
    return isinstance(files, list) and bool(files) and all(isinstance(item, str) for item in files)


def _of_hub(text: str) -> DataFile:
    """A split of a data set of the hub."""
    try:
        source, column = parse_hub_id(text)
    except UsageError as error:
        raise _ProblemError(f"file {error.message}; {error.hint}") from None
    if column:
        raise _ProblemError(f"file {shown(text)}: a card names the column among its options")
    return hub_file(source)


def _beside(folder: Path, name: str) -> DataFile:
    """A file beside the card; its checksum is that of what is there now."""
    path = folder / _relative(name, f"file {shown(name)}")
    if not path.is_file():
        raise _ProblemError(f"file {shown(name)}: there is no {path}")
    return DataFile(path=name, sha256=sha256_of(path), size=path.stat().st_size, sources=(BesideSource(str(path)),))


def _check_values(raw: dict[str, Any]) -> None:
    for key in ("name", "folder"):
        if key in raw and (not _NAME.match(raw[key]) or len(raw[key]) > _MAX_NAME):
            limits = f"lower-case letters, digits, '-' and '.' only, at most {_MAX_NAME}"
            raise _ProblemError(f"{key} {shown(raw[key])}: {limits}")
    if raw["level"] not in LEVELS:
        raise _ProblemError(f"level {raw['level']!r} is none of {', '.join(LEVELS)}")
    if (raw["kind"] == CORPUS_KIND) == bool(raw.get("metric")):
        raise _ProblemError("a task names its metric, a corpus has none")
    if not raw["languages"] or not all(isinstance(code, str) for code in raw["languages"]):
        raise _ProblemError("languages must be a list of codes")
    if not raw["files"]:
        raise _ProblemError("a card needs at least one file")
    for key in ("title", "licence", "citation"):
        if not raw[key].strip():
            raise _ProblemError(f"{key!r} is empty")


def _relative(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _ProblemError(f"{where}: a path is missing")
    if not value.isprintable() or any(len(part.encode()) > _MAX_NAME for part in value.split("/")):
        raise _ProblemError(f"{where}: {shown(value)} cannot be a path")
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\\" in value or ":" in value or str(path) != value:
        raise _ProblemError(f"{where}: {value!r} must be a plain relative path, without '..'")
    if any(part.startswith(".") for part in path.parts):
        raise _ProblemError(f"{where}: {value!r} must not be hidden")
    return value


def _matching(value: Any, pattern: re.Pattern[str], where: str, wanted: str) -> str:
    if not isinstance(value, str) or not pattern.match(value):
        raise _ProblemError(f"{where}: {shown(str(value))} is not {wanted}")
    return value


def _size(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _ProblemError(f"{where}: size must be a number of bytes")
    return value


def _file(raw: Any, templates: list[Any]) -> DataFile:
    raw = _mapping(raw, "each of 'files'")
    where = f"file {shown(str(raw.get('path')))}"
    _check_keys(raw, _FILE_KEYS, where)
    path = _relative(raw.get("path"), where)
    unverified, optional = raw.get("unverified", False), raw.get("optional", False)
    if not isinstance(unverified, bool) or not isinstance(optional, bool):
        raise _ProblemError(f"{where}: 'unverified' and 'optional' must be true or false")
    if unverified and ("sha256" in raw or "size" in raw):
        raise _ProblemError(f"{where}: either a checksum and a size, or 'unverified: true'")
    own = raw.get("sources", [])
    if not isinstance(own, list) or not isinstance(raw.get("split", ""), str):
        raise _ProblemError(f"{where}: 'sources' must be a list and 'split' a word")
    return DataFile(
        path=path,
        sha256="" if unverified else _matching(raw.get("sha256"), _SHA256, f"{where}: sha256", "64 hex digits"),
        size=None if unverified else _size(raw.get("size"), where),
        split=raw.get("split", ""),
        sources=tuple(_source(item, path, where) for item in [*own, *templates]),
        unverified=unverified,
        optional=optional,
    )


def _source(raw: Any, path: str, where: str) -> Source:
    raw = dict(_mapping(raw, f"{where}: a source"))
    kind = raw.pop("kind", None)
    if not isinstance(kind, str) or kind not in _SOURCE_KEYS:
        raise _ProblemError(f"{where}: source kind {kind!r} is none of {', '.join(_SOURCE_KEYS)}")
    where = f"{where}, {kind} source"
    _check_keys(raw, _SOURCE_KEYS[kind], where)
    for key in ("path", "member", "url"):
        # A card whose files lie side by side states the place once, with {path} for the file's own path.
        if isinstance(raw.get(key), str):
            raw[key] = raw[key].replace("{path}", path)
    if kind == "github":
        repo = _matching(raw.get("repo"), _REPO, where, "a repository (owner/name)")
        commit = _matching(raw.get("commit"), _COMMIT, where, "a commit (40 hex digits)")
        return GithubSource(repo, commit, _relative(raw.get("path"), where))
    if kind == "huggingface":
        return _huggingface(raw, where)
    if kind == "package":
        return PackageSource(_relative(raw.get("path"), where))
    url = _matching(raw.get("url"), _URL, where, "an http or https address")
    if kind == "url":
        return UrlSource(url)
    return ArchiveSource(
        url=url,
        member=_relative(raw.get("member"), where),
        sha256=_matching(raw["sha256"], _SHA256, where, "64 hex digits") if "sha256" in raw else "",
        size=_size(raw["size"], where) if "size" in raw else None,
    )


def _huggingface(raw: dict[str, Any], where: str) -> HuggingFaceSource:
    repo = _matching(raw.get("repo"), _REPO, where, "a data set (owner/name)")
    revision = _matching(raw.get("revision"), _COMMIT, where, "a revision (40 hex digits)")
    return HuggingFaceSource(repo, revision, _relative(raw.get("path"), where))


def _converted(raw: dict[str, Any]) -> Converted:
    _check_keys(raw, _CONVERTED_KEYS, "converted")
    options: Mapping[str, Any] = {key: raw[key] for key in ("format", "columns", "scale") if key in raw}
    if len(options) != 3:
        raise _ProblemError("converted: 'format', 'columns' and 'scale' say how the file is read; one is missing")
    return Converted(_huggingface(raw, "converted"), _size(raw.get("rows"), "converted: rows"), options)


VARIANTS = "variants"
MAX_CARDS = 1000
"""Cards of one family: more than in any here, and few enough that a few long axes cannot fill the memory."""
_VERBATIM = {"citation"}
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def expand(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The cards of a family, as the mappings that a file of each alone would hold; a plain card is a family of one.

    Args:
        raw: the content of the YAML file.

    Yields:
        One mapping a combination, the last axis varying fastest.

    Raises:
        DataFormatError: ``variants`` is not a mapping of axes to non-empty lists of mappings, or two axes share a
            placeholder, or they make more than ``MAX_CARDS`` cards.
    """
    card = {key: value for key, value in raw.items() if key != VARIANTS}
    if VARIANTS not in raw:
        yield card
        return
    axes = _axes(raw[VARIANTS])
    if prod(map(len, axes)) > MAX_CARDS:
        raise DataFormatError(f"variants: they would make more than {MAX_CARDS} cards")
    for rows in product(*axes):
        values: dict[str, Any] = {}
        for row in rows:
            if shared := values.keys() & row.keys():
                raise DataFormatError(f"variants: two axes name the placeholder {min(shared)!r}")
            values |= row
        yield {key: value if key in _VERBATIM else _fill(value, values) for key, value in card.items()}


def _axes(variants: Any) -> list[list[dict[str, Any]]]:
    if not isinstance(variants, dict) or not variants:
        raise DataFormatError("'variants' must be a mapping of axes to lists")
    for axis, rows in variants.items():
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise DataFormatError(f"variants: {axis!r} must be a list of mappings of placeholders to values")
        if not all(_PLACEHOLDER.fullmatch(f"{{{name}}}") for row in rows for name in row):
            raise DataFormatError(f"variants: the placeholders of {axis!r} must be words")
        if any(row.keys() != rows[0].keys() for row in rows):
            raise DataFormatError(f"variants: all rows of {axis!r} must give the same placeholders")
    return list(variants.values())


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    """``template`` with placeholders replaced; those that no axis gives stay (``{path}`` belongs to the sources)."""
    if isinstance(template, dict):
        return {key: _fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if (whole := _PLACEHOLDER.fullmatch(template)) and whole[1] in values:
        return values[whole[1]]
    return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), template)
