"""The only reader of YAML that people write: cards, suites, grid files, the papers' tables.

A schema is a ``msgspec.Struct`` with ``forbid_unknown_fields``; its ``__post_init__`` may raise ``ValueError`` for
errors beyond types. (msgspec takes 27 ms to import, pydantic's BaseModel 70.)

Anchors, aliases, tags, merge keys, repeated keys and deep nesting are refused before anything is built from them. An
unquoted value is read by the rules of encoder specs, not by those of YAML 1.1: ``2e-5`` is a number; ``on``, ``no`` and
dates are words.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.specs import Value, parse_value

MAX_BYTES = 1 << 20
MAX_DEPTH = 50  # levels of nesting; more would overflow the stack

_T = TypeVar("_T")

# msgspec says what is wrong, and where, in its message alone; it has no errors as objects. A message in other words,
# such as those of a later version, is shown as it is.
_PLACE = re.compile(r"(.*?) - at `(?:key in )?\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_PLAIN = (
    (r"Object contains unknown field `(.*)`", "unknown key {0!r}"),
    (r"Object missing required field `(.*)`", "the key {0!r} is missing"),
    (r"Expected `(.*)`, got `(.*)`", "must be of type {0}, not {1}"),
    (r"Invalid (?:enum )?value (.*)", "{0} is none of the possible values"),
)
_JSON_TYPES = {"object": "mapping", "array": "list", "null": "nothing"}


@dataclass(frozen=True, slots=True)
class Located:
    """A value (``None`` for an empty one) and its line, counted from 1."""

    value: Value | tuple[Located, ...] | dict[str, Located] | None
    line: int

    def bare(self) -> Any:
        """Return the value without its lines: a plain value, a list or a dictionary of such."""
        if isinstance(self.value, tuple):
            return [item.bare() for item in self.value]
        if isinstance(self.value, dict):
            return {key: item.bare() for key, item in self.value.items()}
        return self.value


def plain_value(text: str) -> Value | None:
    """Return the meaning of an unquoted value: nothing, or the same as in an encoder spec."""
    return None if text in ("", "~", "null") else parse_value(text)


def read(path: Path, schema: type[_T], plain: Callable[[str], Value | None] = plain_value) -> _T:
    """Read a YAML file as a ``schema``; a ``DataFormatError`` names file, line, key and the nearest valid key."""
    return convert(read_yaml(path, plain), schema, path)


def convert(content: Located, schema: type[_T], source: Path | str) -> _T:
    """Convert a value of ``read_yaml`` or ``located`` to an object of ``schema``, with the errors of ``read``."""
    try:
        return msgspec.convert(content.bare(), schema)
    except msgspec.ValidationError as error:
        raise problem_at(source, content, str(error), schema) from None


def located(value: Any) -> Located:
    """Wrap a plain value, list or dictionary that is in no file: at line 0, which errors do not name."""
    if isinstance(value, dict):
        return Located({str(key): located(item) for key, item in value.items()}, 0)
    return Located(tuple(map(located, value)) if isinstance(value, list | tuple) else value, 0)


def problem_at(
    source: Path | str, content: Located, message: str, schema: Any = None
) -> DataFormatError:
    """Return the error for a message of a ``ValidationError``, with source and line; other text is of all content."""
    match = _PLACE.fullmatch(message)
    text, path = (match[1], match[2]) if match else (message, "")
    node, types, name = _follow(content, schema, path)
    for pattern, template in _PLAIN:
        if words := re.fullmatch(pattern, text):
            text = template.format(*(_in_python(word) for word in words.groups()))
            if template.startswith("unknown key"):
                text += _nearest(
                    words[1], sorted({key for type_ in types for key in _fields(type_)})
                )
                node = node.value.get(words[1], node) if isinstance(node.value, dict) else node
            elif template.endswith("possible values"):
                values = [
                    v
                    for type_ in types
                    for v in getattr(type_, "values", (getattr(type_, "tag", ""),))
                ]
                text += _nearest(words[1], [str(value) for value in values if value != ""])
            break
    line = f", line {node.line}" if node.line else ""
    return DataFormatError(f"{source}{line}: {f'{name}: ' if name else ''}{text}")


def _follow(content: Located, schema: Any, path: str) -> tuple[Located, list[Any], str]:
    """The content, possible types and name at a path of msgspec's (``.files[0].path``)."""
    types = [msgspec.inspect.type_info(schema)] if schema is not None else []
    name = ""
    for key, index in _STEP.findall(path):
        value, types = content.value, [t for type_ in types for t in _members(type_, content)]
        if key:
            name += f".{key}" if name else key
            content = value[key] if isinstance(value, dict) and key in value else content
            types = [
                field.type
                for type_ in types
                for name_, field in _fields(type_).items()
                if name_ == key
            ]
        elif index != "..." and isinstance(value, tuple):
            name += f"[{int(index) + 1}]"
            content = value[int(index)]
            types = [inner for type_ in types if (inner := getattr(type_, "item_type", None))]
    return content, [t for type_ in types for t in _members(type_, content)], name


def _members(type_: Any, content: Located) -> Iterator[Any]:
    """A type, or the types of a union that a value may have, by its tag; all of them if no tag is that one."""
    members, keys = (
        getattr(type_, "types", (type_,)),
        content.value if isinstance(content.value, dict) else {},
    )
    stated = [(member, keys.get(getattr(member, "tag_field", None) or "")) for member in members]
    yield from [
        member for member, tag in stated if tag is None or tag.value == member.tag
    ] or members


def _fields(type_: Any) -> dict[str, Any]:
    if not isinstance(type_, msgspec.inspect.StructType):
        return {}
    tag = (
        {type_.tag_field: msgspec.inspect.Field(type_.tag_field, type_.tag_field, type_)}
        if type_.tag_field
        else {}
    )
    return {**tag, **{field.encode_name: field for field in type_.fields}}


def _in_python(types: str) -> str:
    return " or ".join(_JSON_TYPES.get(name, name) for name in types.split(" | "))


def _nearest(key: str, known: list[str]) -> str:
    if near := get_close_matches(key, known, n=1):
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(known)}" if known else ""


def read_yaml(path: Path, plain: Callable[[str], Value | None] = plain_value) -> Located:
    """Read YAML (UTF-8, at most 1 MiB); errors name path and line. ``plain`` converts unquoted values."""
    import yaml

    loader: Any = getattr(
        yaml, "CBaseLoader", yaml.BaseLoader
    )  # the fast one, where PyYAML was built with libyaml
    document = None
    try:
        events = yaml.parse(_text_of(path), Loader=loader)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if document is not None:
                    raise _at(path, event, "a second document; one file is one document")
                document = _node(next(events), events, path, plain, 0)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataFormatError(f"{path}{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise DataFormatError(
            f"{path} is not valid YAML: {' '.join(str(error).split())[:300]}"
        ) from None
    if document is None:
        raise DataFormatError(f"{path} is empty")
    return document


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
        raise DataFormatError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not valid UTF-8"
        ) from None


def _node(
    event: Any, events: Iterator[Any], path: Path, plain: Callable[[str], Value | None], depth: int
) -> Located:
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
            return Located(
                str(event.value)
                if event.style in ("'", '"', "|", ">")
                else plain(str(event.value)),
                line,
            )
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
