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

# A ValidationError of msgspec has no attributes: what is wrong, and where, is in its message alone. A message in other
# words, such as those of a later version, is shown as it is.
_PLACE = re.compile(r"(.*?) - at `(?:key in )?\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(.*)`")
_INVALID_VALUE = re.compile(r"Invalid (?:enum )?value (.*)")
_REWORDED = (
    (_UNKNOWN_KEY, "unknown key {0!r}"),
    (re.compile(r"Object missing required field `(.*)`"), "the key {0!r} is missing"),
    (re.compile(r"Expected `(.*)`, got `(.*)`"), "must be of type {0}, not {1}"),
    (_INVALID_VALUE, "{0} is not one of the possible values"),
)
"""Messages of msgspec, and how they are shown."""
_JSON_TYPES = {"object": "mapping", "array": "list", "null": "nothing"}


@dataclass(frozen=True, slots=True)
class Located:
    """A value (``None`` for an empty one) and its line, counted from 1."""

    value: Value | tuple[Located, ...] | dict[str, Located] | None
    line: int

    def bare(self) -> Any:
        """Return the value without its lines: a plain value, or a list or dictionary of bare values."""
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
    """Wrap a plain value, list or dictionary that is not from a file, at line 0, which errors do not name."""
    if isinstance(value, dict):
        return Located({str(key): located(item) for key, item in value.items()}, 0)
    if isinstance(value, list | tuple):
        return Located(tuple(map(located, value)), 0)
    return Located(value, 0)


def problem_at(
    source: Path | str, content: Located, message: str, schema: Any = None
) -> DataFormatError:
    """Return a ``DataFormatError`` for the message of a ``ValidationError``, naming source, line and key.

    If the ``schema``, the type that the content should have, is given, the message of an unknown key or invalid value
    suggests the nearest valid one, or names all.
    """
    # A message ends with a place, such as "- at `$.files[0].path`", unless it is about the whole content.
    match = _PLACE.fullmatch(message)
    if match:
        text, json_path = match.groups()
    else:
        text = message
        json_path = ""
    place = _place_at(content, schema, json_path)
    line = place.content.line
    problem = _reworded(text)

    unknown_key = _UNKNOWN_KEY.fullmatch(text)
    if unknown_key:
        key = unknown_key[1]
        problem += _suggestion(key, _possible_keys(place.types))
        # Name the line of the key, not the line where its mapping begins.
        mapping = place.content.value
        if isinstance(mapping, dict) and key in mapping:
            line = mapping[key].line

    invalid_value = _INVALID_VALUE.fullmatch(text)
    if invalid_value:
        problem += _suggestion(invalid_value[1], _possible_values(place.types))

    # Content that is not from a file has line 0.
    where = f"{source}, line {line}" if line else f"{source}"
    if place.name:
        where += f": {place.name}"
    return DataFormatError(f"{where}: {problem}")


def _reworded(message: str) -> str:
    """Return a message of msgspec in the words of YAML and Python; an unknown message is returned unchanged."""
    for pattern, template in _REWORDED:
        match = pattern.fullmatch(message)
        if match:
            words = [_in_python(word) for word in match.groups()]
            return template.format(*words)
    return message


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the content of a file."""

    content: Located
    """The value at the place."""
    types: list[Any]
    """Types of ``msgspec.inspect`` that the schema allows there; empty without a schema."""
    name: str
    """Name in messages, such as ``files[1].path``; empty for the whole content."""


def _place_at(content: Located, schema: Any, json_path: str) -> _Place:
    """Return the value, the types and the name of the place that msgspec calls ``json_path`` (``.files[0].path``)."""
    # Go down the path step by step. Each step leads from a value to one of its members, and from the types that the
    # schema allows for the value to those that it allows for the member.
    types = [] if schema is None else [msgspec.inspect.type_info(schema)]
    name = ""
    for key, index in _STEP.findall(json_path):
        value = content.value
        types = _without_unions(types, content)
        if key:
            name = f"{name}.{key}" if name else key
            types_by_key = [_types_of_keys(type_) for type_ in types]
            types = [key_types[key] for key_types in types_by_key if key in key_types]
            # A missing key has no value: the place is that of its mapping.
            if isinstance(value, dict) and key in value:
                content = value[key]
        # msgspec writes [...] for a value of a mapping whose key it does not name: the place is then the mapping.
        elif index != "..." and isinstance(value, tuple):
            position = int(index)
            name += f"[{position + 1}]"  # people count from 1
            types = [type_.item_type for type_ in types if hasattr(type_, "item_type")]
            content = value[position]
    return _Place(content, _without_unions(types, content), name)


def _without_unions(types: list[Any], content: Located) -> list[Any]:
    """Return types with each union replaced by those of its types that ``content`` may have.

    These are the types whose tag is the one in the content; all types of the union if none has that tag.
    """
    mapping = content.value if isinstance(content.value, dict) else {}
    result: list[Any] = []
    for type_ in types:
        members = getattr(type_, "types", (type_,))
        result += [member for member in members if _fits_tag(member, mapping)] or members
    return result


def _fits_tag(type_: Any, mapping: dict[str, Located]) -> bool:
    """Return whether a mapping states the tag of a type, or no tag; true for a type without tag."""
    tag_key = getattr(type_, "tag_field", None)
    if tag_key is None or tag_key not in mapping:
        return True
    return bool(mapping[tag_key].value == type_.tag)


def _types_of_keys(type_: Any) -> dict[str, Any]:
    """Return the types of a struct's values by key, including the key of its tag; empty for any other type."""
    if not isinstance(type_, msgspec.inspect.StructType):
        return {}
    types = {field.encode_name: field.type for field in type_.fields}
    if type_.tag_field:
        # The values of a tag are found through the struct: see _possible_values.
        types.setdefault(type_.tag_field, type_)
    return types


def _possible_keys(types: list[Any]) -> list[str]:
    """Return the keys that any of some types has, sorted."""
    keys: set[str] = set()
    for type_ in types:
        keys.update(_types_of_keys(type_))
    return sorted(keys)


def _possible_values(types: list[Any]) -> list[str]:
    """Return the values of literal types, and the tags of structs, as text."""
    values: list[Any] = []
    for type_ in types:
        if hasattr(type_, "values"):
            values += type_.values
        else:
            values.append(getattr(type_, "tag", ""))
    return [str(value) for value in values if value != ""]


def _in_python(types: str) -> str:
    """Return JSON types as msgspec joins them (``object | null``) by their names in Python and YAML."""
    return " or ".join(_JSON_TYPES.get(name, name) for name in types.split(" | "))


def _suggestion(word: str, possible: list[str]) -> str:
    """Return the end of a message that names the nearest possible word, or else all of them."""
    nearest = get_close_matches(word, possible, n=1)
    if nearest:
        return f"; did you mean {nearest[0]!r}?"
    return f"; known: {', '.join(possible)}" if possible else ""


def read_yaml(path: Path, plain: Callable[[str], Value | None] = plain_value) -> Located:
    """Return the content of a YAML file (UTF-8, at most 1 MiB); ``plain`` converts unquoted values.

    Raises:
        DataFormatError: the file cannot be read, is empty, is not valid YAML or uses parts of YAML that are refused.
            The message names the path and, where it is known, the line.
    """
    import yaml

    # The fast loader, where PyYAML was built with libyaml.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    document = None
    try:
        events = yaml.parse(_text_of(path), Loader=loader)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if document is not None:
                    raise _error_at(path, event, "a second document; a file must hold one document")
                document = _node(next(events), events, path, plain, depth=0)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataFormatError(f"{path}{line}: not valid YAML: {error.problem}") from None
    # Other errors, such as that of a control character, have no line.
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise DataFormatError(f"{path} is not valid YAML: {reason[:300]}") from None
    if document is None:
        raise DataFormatError(f"{path} is empty")
    return document


def _text_of(path: Path) -> str:
    """Return the text of a file; a ``DataFormatError`` if it cannot be read, is too large or is not UTF-8."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataFormatError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise DataFormatError(f"{path} is too large: at most {MAX_BYTES:,} bytes are read")
    try:
        # YAML may also be UTF-16, which is refused.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataFormatError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not valid UTF-8"
        ) from None


def _node(
    event: Any, events: Iterator[Any], path: Path, plain: Callable[[str], Value | None], depth: int
) -> Located:
    """Return the value that begins with ``event``; its remaining events are taken from ``events``.

    ``depth`` is the number of mappings and sequences around it.
    """
    import yaml

    if isinstance(event, yaml.AliasEvent) or event.anchor:
        raise _error_at(path, event, "anchors and aliases are not allowed")
    if event.tag is not None:
        raise _error_at(path, event, f"the tag {reprlib.repr(event.tag)}; tags are not allowed")
    if isinstance(event, yaml.CollectionStartEvent) and depth >= MAX_DEPTH:
        raise _error_at(path, event, f"nested more than {MAX_DEPTH} levels deep")
    line = event.start_mark.line + 1
    if isinstance(event, yaml.ScalarEvent):
        return Located(_scalar(event, path, plain), line)
    if isinstance(event, yaml.MappingStartEvent):
        return Located(_members(events, path, plain, depth + 1), line)
    # The only other event here is the start of a sequence.
    items: list[Located] = []
    for item_event in events:
        if isinstance(item_event, yaml.CollectionEndEvent):
            break
        items.append(_node(item_event, events, path, plain, depth + 1))
    return Located(tuple(items), line)


def _scalar(event: Any, path: Path, plain: Callable[[str], Value | None]) -> Value | None:
    """Return the value of a scalar: converted by ``plain`` if it is not quoted, otherwise its text."""
    text = str(event.value)
    if event.style in ("'", '"', "|", ">"):
        return text
    try:
        return plain(text)
    except UsageError as error:
        raise _error_at(path, event, error.message) from None


def _members(
    events: Iterator[Any], path: Path, plain: Callable[[str], Value | None], depth: int
) -> dict[str, Located]:
    """Return the members of a mapping whose start has just been taken from ``events``."""
    import yaml

    members: dict[str, Located] = {}
    for key_event in events:
        if isinstance(key_event, yaml.CollectionEndEvent):
            break
        if not isinstance(key_event, yaml.ScalarEvent):
            raise _error_at(path, key_event, "a key must be a word")
        # Keys are texts: an unquoted 1 or true is not converted.
        key = str(_node(key_event, events, path, str, depth).value)
        if key == "<<":
            raise _error_at(path, key_event, "merge keys (<<) are not allowed")
        if key in members:
            raise _error_at(path, key_event, f"the key {reprlib.repr(key)} occurs twice")
        members[key] = _node(next(events), events, path, plain, depth)
    return members


def _error_at(path: Path, event: Any, problem: str) -> DataFormatError:
    """Return the error for a problem at an event of the YAML parser."""
    return DataFormatError(f"{path}, line {event.start_mark.line + 1}: {problem}")
