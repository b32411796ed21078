"""Reading YAML without its traps: what could grow, run code or mean two things is refused before it is built."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from mirrorbench.data.textfiles import shown
from mirrorbench.errors import DataFormatError

MAX_BYTES = 1 << 20
MAX_DEPTH = 50
"""Levels of nesting; a few hundred thousand would overflow the stack of the fast loader, which ends the process."""

_MAX_DIGITS = 18
_ANCHOR = re.compile(r"[&*](?<=[\s\[{,:?][&*])\S")  # where an anchor or alias could be; text may look so too


def load_yaml(path: Path) -> Any:
    """The content of a YAML file in UTF-8, by the rules of PyYAML's safe loader; dates stay texts.

    Raises:
        DataFormatError: it cannot be read, is too large, no YAML, nested too deeply, or has an anchor, an alias, a tag
            that is none of YAML's own, a key that stands twice in one mapping, or a whole number of more than 18
            digits. The message begins with the path.
    """
    import yaml

    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataFormatError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > MAX_BYTES:
        raise DataFormatError(f"{path}: at most {MAX_BYTES:,} bytes are read, and it has more")
    try:
        text = data.decode("utf-8-sig")  # YAML may be UTF-16 too, where an anchor looks otherwise
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataFormatError(f"{path}: line {line}: byte 0x{data[error.start]:02x} is not valid UTF-8") from None
    try:
        if _is_suspect(text):
            _check(yaml.parse(text, Loader=_loader()))
        return yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise DataFormatError(f"{path}: is not valid YAML ({' '.join(str(error).split())[:300]})") from None


def _is_suspect(text: str) -> bool:
    """Whether anchors or deep nesting are possible; to look closely at every file would double the time of reading."""
    flow = text.count("[") + text.count("{")
    block = max(len(line) - len(line.lstrip(" -?:")) for line in text.split("\n"))  # a level takes a character
    return flow > MAX_DEPTH or block > MAX_DEPTH or _ANCHOR.search(f"\n{text}") is not None


def _check(events: Iterable[Any]) -> None:
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _refused(event, "anchors and aliases are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _refused(event, f"it is nested more than {MAX_DEPTH} levels deep")


@cache
def _loader() -> Any:
    """PyYAML's safe loader, the fast one where there is one, made stricter."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]  # the fast loader exists only where PyYAML was built with libyaml
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        raise _refused(key, f"the key {shown(key.value)} occurs twice in one mapping")
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    def whole_number(loader: Any, node: Any) -> int:
        text = str(loader.construct_scalar(node))
        if len(text) > _MAX_DIGITS:
            raise _refused(node, f"the number {shown(text)} is too large")
        try:
            return int(loader.construct_yaml_int(node))
        except (ValueError, IndexError):
            raise _refused(node, f"{shown(text)} is not a whole number") from None

    def number(loader: Any, node: Any) -> float:
        try:
            return float(loader.construct_yaml_float(node))
        except (ValueError, IndexError, OverflowError):
            raise _refused(node, f"{shown(str(node.value))} is not a number") from None

    def text(loader: Any, node: Any) -> Any:
        return loader.construct_scalar(node)

    Loader.add_constructor("tag:yaml.org,2002:int", whole_number)
    Loader.add_constructor("tag:yaml.org,2002:float", number)
    Loader.add_constructor("tag:yaml.org,2002:timestamp", text)  # 2021-02-30 is none, 2021-02-03 wants to be a name
    return Loader


def _refused(place: Any, what: str) -> Exception:
    import yaml

    return yaml.MarkedYAMLError(problem=what, problem_mark=place.start_mark)
