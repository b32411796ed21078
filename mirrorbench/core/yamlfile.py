"""YAML with line numbers, and without YAML's traps: what could grow, run code or mean two things is refused.

Anchors, aliases, tags, merge keys and repeated keys are refused before anything is built of them, and so is deep
nesting. A plain value is read by the rules of encoder specs, not by those of YAML 1.1: ``2e-5`` is a number, ``on`` and
``no`` and dates are words; a quoted value is a string.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.specs import Value, parse_value

MAX_BYTES = 1 << 20
MAX_DEPTH = 50
"""Levels of nesting; a few hundred thousand would overflow the stack of the fast parser, which ends the process."""

_MARK = re.compile(r"[&*!](?<=[\s\[{,:?][&*!])\S")  # where an anchor, an alias or a tag could be; text may look so too


@dataclass(frozen=True, slots=True)
class Located:
    """A value and the line that it stands on.

    Attributes:
        value: a plain value, a tuple of ``Located``, or a dictionary of ``Located``; ``None`` for nothing at all.
        line: counted from 1.
    """

    value: Value | tuple[Located, ...] | dict[str, Located] | None
    line: int

    def bare(self) -> Any:
        """The value without its lines: a plain value, a list or a dictionary of such."""
        if isinstance(self.value, tuple):
            return [item.bare() for item in self.value]
        if isinstance(self.value, dict):
            return {key: item.bare() for key, item in self.value.items()}
        return self.value


def plain_value(text: str) -> Value | None:
    """What an unquoted value means: nothing, or what it would mean in an encoder spec."""
    return None if text in ("", "~", "null") else parse_value(text)


def read_yaml(path: Path, plain: Callable[[str], Value | None] = plain_value) -> Located:
    """Read a YAML file in UTF-8.

    Args:
        path: the file.
        plain: what an unquoted value means; ``str`` leaves it as it is written.

    Raises:
        DataFormatError: it cannot be read, has more than 1 MiB, is no YAML, is empty, or holds what is refused here;
            the message begins with the path, and names the line.
    """
    import yaml

    text = _text_of(path)
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the fast one, where PyYAML was built with libyaml
    try:
        if _is_suspect(text):
            _check(path, text, loader)
        node = yaml.compose(text, Loader=loader)
    except yaml.composer.ComposerError as error:
        raise _at(path, error.problem_mark, "a second document; one file is one document") from None
    except yaml.MarkedYAMLError as error:
        raise _at(path, error.problem_mark, f"not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise DataFormatError(f"{path} is not valid YAML: {' '.join(str(error).split())[:300]}") from None
    if node is None:
        raise DataFormatError(f"{path} is empty")
    return _located(node, path, plain)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataFormatError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise DataFormatError(f"{path} is too large: at most {MAX_BYTES:,} bytes are read")
    try:
        return data.decode("utf-8-sig")  # YAML may be UTF-16 too, where an anchor looks otherwise
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataFormatError(f"{path}, line {line}: byte 0x{data[error.start]:02x} is not valid UTF-8") from None


def _is_suspect(text: str) -> bool:
    """Whether anchors, tags or deep nesting are possible; to look closely at every file would double the time."""
    flow = text.count("[") + text.count("{")
    block = max(len(line) - len(line.lstrip(" -?:")) for line in text.split("\n"))  # a level takes a character
    return flow > MAX_DEPTH or block > MAX_DEPTH or _MARK.search(f"\n{text}") is not None


def _check(path: Path, text: str, loader: Any) -> None:
    """Refuse what shows before anything is built."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _at(path, event.start_mark, "anchors and aliases are not allowed")
        if (tag := getattr(event, "tag", None)) is not None:
            raise _at(path, event.start_mark, f"the tag {reprlib.repr(tag)}; tags are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _at(path, event.start_mark, f"nested more than {MAX_DEPTH} levels deep")


def _located(node: Any, path: Path, plain: Callable[[str], Value | None]) -> Located:
    line = node.start_mark.line + 1
    if node.id == "sequence":
        return Located(tuple(_located(item, path, plain) for item in node.value), line)
    if node.id == "scalar":
        if node.style in ("'", '"', "|", ">"):
            return Located(str(node.value), line)
        try:
            return Located(plain(str(node.value)), line)
        except UsageError as error:
            raise _at(path, node.start_mark, error.message) from None
    found: dict[str, Located] = {}
    for key, value in node.value:
        if key.id != "scalar":
            raise _at(path, key.start_mark, "a key must be a word")
        if key.value == "<<":
            raise _at(path, key.start_mark, "merge keys (<<) are not allowed")
        if key.value in found:
            raise _at(path, key.start_mark, f"the key {reprlib.repr(key.value)} stands twice")
        found[str(key.value)] = _located(value, path, plain)
    return Located(found, line)


def _at(path: Path, mark: Any, problem: str) -> DataFormatError:
    return DataFormatError(f"{path}, line {mark.line + 1}: {problem}" if mark else f"{path}: {problem}")
