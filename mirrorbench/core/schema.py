"""The one reader of what people write in YAML: cards, suites, grid files, the papers' tables.

A schema is a ``msgspec.Struct`` with ``forbid_unknown_fields``; its ``__post_init__`` may raise ``ValueError`` for
what types cannot say. (msgspec takes 27 ms to import, pydantic's BaseModel 70.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.specs import Value
from mirrorbench.core.yamlfile import Located, plain_value, read_yaml

_T = TypeVar("_T")

_PLACE = re.compile(r"(.*?) - at `(?:key in )?\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_PLAIN = (
    (r"Object contains unknown field `(.*)`", "unknown key {0!r}"),
    (r"Object missing required field `(.*)`", "the key {0!r} is missing"),
    (r"Expected `(.*)`, got `(.*)`", "must be of type {0}, not {1}"),
    (r"Invalid (?:enum )?value (.*)", "{0} is none of the possible values"),
)
_JSON_TYPES = {"object": "mapping", "array": "list", "null": "nothing"}


def read(path: Path, schema: type[_T], plain: Callable[[str], Value | None] = plain_value) -> _T:
    """A YAML file as an object of ``schema``; a ``DataFormatError`` names file, line, key and the nearest valid key."""
    return convert(read_yaml(path, plain), schema, path)


def convert(content: Located, schema: type[_T], path: Path) -> _T:
    """As ``read``, of what ``read_yaml`` returned."""
    try:
        return msgspec.convert(content.bare(), schema)
    except msgspec.ValidationError as error:
        raise problem_at(path, content, str(error), schema) from None


def problem_at(path: Path, content: Located, message: str, schema: Any = None) -> DataFormatError:
    """The error for a message of a ``ValidationError`` (other text: of the whole file), with file and line in front."""
    match = _PLACE.fullmatch(message)
    text, place = (match[1], match[2]) if match else (message, "")
    found, kinds, name = _follow(content, schema, place)
    for pattern, said in _PLAIN:
        if words := re.fullmatch(pattern, text):
            text = said.format(*(_in_python(word) for word in words.groups()))
            if said.startswith("unknown key"):
                text += _nearest(words[1], sorted({key for kind in kinds for key in _fields(kind)}))
                found = found.value.get(words[1], found) if isinstance(found.value, dict) else found
            elif said.endswith("possible values"):
                values = [v for kind in kinds for v in getattr(kind, "values", (getattr(kind, "tag", ""),))]
                text += _nearest(words[1], [str(value) for value in values])
            break
    return DataFormatError(f"{path}, line {found.line}: {f'{name}: ' if name else ''}{text}")


def _follow(content: Located, schema: Any, place: str) -> tuple[Located, list[Any], str]:
    """Content, possible types and name of the place that a path of msgspec's (``.files[0].path``) leads to."""
    kinds = [msgspec.inspect.type_info(schema)] if schema is not None else []
    name = ""
    for key, index in _STEP.findall(place):
        value, kinds = content.value, [t for kind in kinds for t in _members(kind, content)]
        if key:
            name += f".{key}" if name else key
            content = value[key] if isinstance(value, dict) and key in value else content
            kinds = [field.type for kind in kinds for name_, field in _fields(kind).items() if name_ == key]
        elif index != "..." and isinstance(value, tuple):
            name += f"[{int(index) + 1}]"
            content = value[int(index)]
            kinds = [inner for kind in kinds if (inner := getattr(kind, "item_type", None))]
    return content, [t for kind in kinds for t in _members(kind, content)], name


def _members(kind: Any, content: Located) -> Iterator[Any]:
    """A type, or those of a union that a value may belong to, by its tag; all of them where no tag is that one."""
    members, keys = getattr(kind, "types", (kind,)), content.value if isinstance(content.value, dict) else {}
    stated = [(member, keys.get(getattr(member, "tag_field", None) or "")) for member in members]
    yield from [member for member, tag in stated if tag is None or tag.value == member.tag] or members


def _fields(kind: Any) -> dict[str, Any]:
    if not isinstance(kind, msgspec.inspect.StructType):
        return {}
    tag = {kind.tag_field: msgspec.inspect.Field(kind.tag_field, kind.tag_field, kind)} if kind.tag_field else {}
    return {**tag, **{field.encode_name: field for field in kind.fields}}


def _in_python(types: str) -> str:
    return " or ".join(_JSON_TYPES.get(name, name) for name in types.split(" | "))


def _nearest(key: str, known: list[str]) -> str:
    if near := get_close_matches(key, known, n=1):
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(known)}" if known else ""
