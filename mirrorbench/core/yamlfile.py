"""Safe YAML with line numbers.

Anchors, aliases, tags, merge keys, repeated keys and deep nesting are refused before anything is built from them. An
unquoted value is read by the rules of encoder specs, not by those of YAML 1.1: ``2e-5`` is a number; ``on``, ``no`` and
dates are words.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.specs import Value, parse_value

MAX_BYTES = 1 << 20
MAX_DEPTH = 50  # levels of nesting; more would overflow the stack


@dataclass(frozen=True, slots=True)
class Located:
    """A value (``None`` for an empty one) and its line, counted from 1."""

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
    """Read a YAML file in UTF-8 of at most 1 MiB; errors are ``DataFormatError`` with path and line.

    ``plain`` says what an unquoted value means; ``str`` leaves it as it is written.
    """
    import yaml

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the fast one, where PyYAML was built with libyaml
    found = None
    try:
        events = yaml.parse(_text_of(path), Loader=loader)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if found is not None:
                    raise _at(path, event, "a second document; one file is one document")
                found = _node(next(events), events, path, plain, 0)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataFormatError(f"{path}{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise DataFormatError(f"{path} is not valid YAML: {' '.join(str(error).split())[:300]}") from None
    if found is None:
        raise DataFormatError(f"{path} is empty")
    return found


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


def _node(event: Any, events: Iterator[Any], path: Path, plain: Callable[[str], Value | None], depth: int) -> Located:
    """The value that begins with ``event``; its other events are taken from ``events``."""
    import yaml

    if isinstance(event, yaml.AliasEvent) or event.anchor:
        raise _at(path, event, "anchors and aliases are not allowed")
    if event.tag is not None:
        raise _at(path, event, f"the tag {reprlib.repr(event.tag)}; tags are not allowed")
    if isinstance(event, yaml.CollectionStartEvent) and depth >= MAX_DEPTH:
        raise _at(path, event, f"nested more than {MAX_DEPTH} levels deep")
    line = event.start_mark.line + 1
    if isinstance(event, yaml.ScalarEvent):
        try:
            return Located(str(event.value) if event.style in ("'", '"', "|", ">") else plain(str(event.value)), line)
        except UsageError as error:
            raise _at(path, event, error.message) from None
    items: list[Located] = []
    members: dict[str, Located] = {}
    for key in events:
        if isinstance(key, yaml.CollectionEndEvent):
            break
        if isinstance(event, yaml.SequenceStartEvent):
            items.append(_node(key, events, path, plain, depth + 1))
            continue
        if not isinstance(key, yaml.ScalarEvent):
            raise _at(path, key, "a key must be a word")
        name = str(_node(key, events, path, str, depth + 1).value)
        if name == "<<":
            raise _at(path, key, "merge keys (<<) are not allowed")
        if name in members:
            raise _at(path, key, f"the key {reprlib.repr(name)} stands twice")
        members[name] = _node(next(events), events, path, plain, depth + 1)
    return Located(tuple(items) if isinstance(event, yaml.SequenceStartEvent) else members, line)


def _at(path: Path, event: Any, problem: str) -> DataFormatError:
    return DataFormatError(f"{path}, line {event.start_mark.line + 1}: {problem}")
