"""YAML with line numbers, and without YAML's traps.

Tags, merge keys and repeated keys are refused, and so are files that grow when they are read (many aliases, deep
nesting). A plain value is read by the rules of encoder specs, not by those of YAML 1.1: ``2e-5`` is a number, ``on``
and ``no`` are words; a quoted value is a string.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.errors import UsageError
from mirrorbench.specs import Value, parse_value

if TYPE_CHECKING:
    import yaml

MAX_BYTES = 1 << 20
MAX_ALIASES = 50
MAX_NODES = 50_000
"""Nodes after aliases are followed; nine aliases of nine aliases of ... would otherwise fill the memory."""
MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Located:
    """A value and the line that it stands on.

    Attributes:
        value: a plain value, a tuple of ``Located``, or a dictionary of ``Located``; ``None`` for nothing at all.
        line: counted from 1.
    """

    value: Value | tuple[Located, ...] | dict[str, Located] | None
    line: int


def read_located(path: Path) -> Located:
    """Read a YAML file.

    Raises:
        UsageError: it cannot be read, is no YAML, or holds what is refused here; the message names file and line.
    """
    import yaml

    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} has {len(data):,} bytes; at most {MAX_BYTES:,} are read")
    try:
        text = data.decode("utf-8-sig")
        for problem, line in _refused(text):
            raise UsageError(f"{path}, line {line}: {problem}")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: byte {error.start}") from None
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark.line if error.problem_mark else 0) + 1
        raise UsageError(f"{path}, line {line}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if node is None:
        raise UsageError(f"{path} is empty")
    return _Reader(path).read(node, 0)


def _refused(text: str) -> Iterator[tuple[str, int]]:
    """Problems that show before anything is built, with their lines."""
    import yaml

    depth = aliases = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if depth > MAX_DEPTH:
            yield f"nested more than {MAX_DEPTH} deep", line
        if aliases > MAX_ALIASES:
            yield f"more than {MAX_ALIASES} aliases", line
        if documents > 1:
            yield "a second document; one file is one document", line
        if (tag := getattr(event, "tag", None)) is not None:
            yield f"the tag {tag!r}; tags are not allowed", line


class _Reader:
    """Turns YAML's nodes into ``Located`` values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes = 0

    def read(self, node: yaml.Node, depth: int) -> Located:
        import yaml

        line = node.start_mark.line + 1
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise UsageError(f"{self.path}, line {line}: aliases make this more than {MAX_NODES:,} values")
        if isinstance(node, yaml.SequenceNode):
            return Located(tuple(self.read(item, depth + 1) for item in node.value), line)
        if isinstance(node, yaml.MappingNode):
            return Located(self._mapping(node, depth), line)
        return Located(_scalar(node), line)

    def _mapping(self, node: Any, depth: int) -> dict[str, Located]:
        import yaml

        found: dict[str, Located] = {}
        for key, value in node.value:
            where = f"{self.path}, line {key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                raise UsageError(f"{where}: a key must be a word")
            if key.value == "<<":
                raise UsageError(f"{where}: merge keys (<<) are not allowed", "Common values stand beside blocks.")
            if key.value in found:
                raise UsageError(f"{where}: the key {key.value!r} stands twice")
            found[str(key.value)] = self.read(value, depth + 1)
        return found


def _scalar(node: Any) -> Value | None:
    text = str(node.value)
    if node.style in ("'", '"', "|", ">"):
        return text
    return None if text in ("", "~", "null") else parse_value(text)
