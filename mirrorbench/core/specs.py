"""Encoder specs, ``BACKBONE[@REVISION][+METHOD][:KEY=VALUE,...]``; recipes and poolings define the keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import is_text

Value = bool | int | float | str

LEVELS = ("word", "phrase", "sentence", "wic")
"""Levels of encoded units; the level picks the recipe of a tuned encoder (``wic``: a word in context)."""
PROTOCOLS = ("paper", "released")
"""Readings of one experiment: as published, or as the authors' code does it."""

GRAMMAR = (
    "BACKBONE[@REVISION][+METHOD][:KEY=VALUE,...], e.g. roberta+mirror:drophead=0.05,dropout=0"
)

_PARAMS_START = re.compile(r":(?=[A-Za-z_][A-Za-z0-9_]*=)")
_METHOD = re.compile(r"\+([A-Za-z][A-Za-z0-9_-]*)$")
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_MAX_DIGITS = 400
_MAX_LENGTH = 10_000
# Characters that mean something in a spec are written %XX inside a name, path or value. A path keeps its "@", and its
# ":" too, which is special only before KEY= and at the end; in a value ":" is free (layers=-4:).
_IN_NAMES, _IN_PATHS, _IN_VALUES = "%+:@,", "%+,", "%,\n\r\t"
# So are spaces at the ends, which a shell or a list in a file would lose.
_END_SPACES = re.compile(r"^\s+|\s+$")


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """A parsed encoder spec: hashable, and equal to ``parse_spec(str(spec))``.

    Attributes:
        backbone: short name, hub id, local path, or the name of a registered encoder system.
        revision: hub revision (branch, tag or commit), empty for the default.
        method: the method applied to the backbone (``base``, ``mirror`` ...), empty where none was named.
        params: keys and values, sorted by key.
    """

    backbone: str
    revision: str = ""
    method: str = ""
    params: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if not self.backbone:
            raise UsageError("an encoder spec needs a backbone", f"Grammar: {GRAMMAR}")
        if self.revision and self.is_path:
            raise UsageError(
                f"a directory has no revisions, but {self.backbone} is given {self.revision!r}"
            )
        object.__setattr__(self, "params", tuple(sorted(self.params)))

    def __str__(self) -> str:
        name = _escape(self.backbone, _IN_PATHS if self.is_path else _IN_NAMES)
        text = re.sub(":$", "%3A", _PARAMS_START.sub("%3A", name))
        if self.revision:
            text += "@" + _escape(self.revision, _IN_NAMES)
        if self.method:
            text += "+" + self.method
        if self.params:
            text += ":" + ",".join(f"{key}={_format_value(value)}" for key, value in self.params)
        return text

    @property
    def is_path(self) -> bool:
        """Whether the backbone is written as a local path (``./x``, ``../x``, ``/x``, ``~/x``, ``C:/x``)."""
        return _is_path(self.backbone)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key`` as the user wrote it, else ``default``."""
        return dict(self.params).get(key, default)

    def with_params(self, /, **params: Value) -> EncoderSpec:
        """Return a copy with some keys set."""
        return replace(self, params=tuple({**dict(self.params), **params}.items()))

    def with_method(self, method: str) -> EncoderSpec:
        """Return a copy with another method."""
        return replace(self, method=method)


def parse_spec(text: str) -> EncoderSpec:
    """Parse one encoder spec.

    Reserved characters (``% + : @ , =``) inside a path or a value are written as ``%XX``. The ``@`` of a local path is
    part of the path, since a directory has no revisions.

    Raises:
        UsageError: the text does not follow the grammar; the message quotes the wrong part.

    >>> parse_spec("roberta+mirror:dropout=0,drophead=0.05").params
    (('drophead', 0.05), ('dropout', 0))
    >>> str(parse_spec("./a+b@c+mirror"))
    './a%2Bb@c+mirror'
    """
    text = text.strip()
    _check_text(text)
    start = _PARAMS_START.search(text)
    head, tail = (text[: start.start()], text[start.end() :]) if start else (text, "")
    method = revision = ""
    if match := _METHOD.search(head):
        head, method = head[: match.start()], match[1]
    if not _is_path(head) and "@" in head:
        head, _, revision = head.partition("@")
        if not revision:
            raise UsageError(f"the revision after '@' is empty in {text!r}", f"Grammar: {GRAMMAR}")
    reserved = "," if _is_path(head) else ",:+"
    if head.endswith((":", "+")) or any(char in head + revision for char in reserved):
        raise UsageError(f"cannot read the encoder spec {text!r}", f"Grammar: {GRAMMAR}")
    return EncoderSpec(_unquote(head), _unquote(revision), method, parse_params(tail, text))


def _check_text(text: str) -> None:
    """Refuse text that file systems, the hub or result files cannot hold."""
    if len(text) > _MAX_LENGTH:
        raise UsageError(f"an encoder spec of {len(text):,} characters", f"Grammar: {GRAMMAR}")
    if "\0" in text or not is_text(text):
        raise UsageError(
            f"the encoder spec {text!r} is not valid text",
            "Rename the directory, or quote it in UTF-8.",
        )


def _unquote(text: str) -> str:
    try:
        plain = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UsageError(f"the escapes in {text!r} are not UTF-8") from None
    _check_text(plain)
    return plain


Specs = str | Path | EncoderSpec | Sequence[str | Path | EncoderSpec]
"""Encoder specs as written or parsed, or directories; one or several."""


def as_spec(encoder: str | Path | EncoderSpec) -> EncoderSpec:
    """Return a spec, parsed if it is a text; a ``Path`` may hold reserved characters."""
    if isinstance(encoder, EncoderSpec):
        return encoder
    if not isinstance(encoder, str | Path):
        raise UsageError(
            f"an encoder is named by a text or a path, and got {encoder!r:.60}",
            "Such as 'tiny', 'roberta+mirror' or './my-encoder'; mirrorbench.evaluate takes objects too.",
        )
    return (
        EncoderSpec(str(encoder.absolute())) if isinstance(encoder, Path) else parse_spec(encoder)
    )


def as_specs(encoders: Specs) -> tuple[EncoderSpec, ...]:
    """Return the distinct specs of one or several encoders."""
    return tuple(dict.fromkeys(map(parse_spec, as_texts(encoders))))


def as_several(encoders: Specs) -> Sequence[str | Path | EncoderSpec]:
    """Return one or several encoders as a sequence; ``UsageError`` for anything else."""
    if isinstance(encoders, str | Path | EncoderSpec):
        return [encoders]
    if isinstance(encoders, Iterable) and not hasattr(encoders, "encode"):
        return list(encoders)
    wrong: Any = encoders
    return [as_spec(wrong)]


def as_texts(encoders: Specs) -> tuple[str, ...]:
    """Return one or several encoders as they are written, which may be labels of rows."""
    several = as_several(encoders)
    return tuple(
        encoder if isinstance(encoder, str) else str(as_spec(encoder)) for encoder in several
    )


TaskNames = str | Path | Sequence[str | Path]
"""Tasks, suites and paths of own data: a list, one path, or one string with commas."""


def is_path_name(name: str) -> bool:
    """Return whether the name of a task is a path of own data: with a slash, or a dot or tilde in front."""
    return "/" in name or name.startswith((".", "~"))


def path_name(path: str) -> str:
    """Return a path as the name of a task: ``./pairs.csv`` for ``pairs.csv``."""
    return path if is_path_name(path) else f"./{path}"


def as_names(names: TaskNames) -> list[str]:
    """Return names of tasks or suites from a list, or from one text with commas; a ``Path`` is that of own data."""
    several = [names] if isinstance(names, str | Path) else names
    if not isinstance(several, Iterable) or hasattr(several, "columns"):
        problem = f"tasks are named by texts or paths, and got {type(names).__name__}"
        raise UsageError(problem, "Such as 'stsb' or './pairs.csv'.")
    found: list[str] = []
    for name in several:
        if isinstance(name, Path):
            found.append(path_name(str(name)))
        elif isinstance(name, str):
            found += split_names([name])
        else:
            problem = f"a task is named by a text or a path, and got {name!r:.60}"
            raise UsageError(problem, "Such as 'stsb' or './pairs.csv'.")
    return found


def parse_params(tail: str, whole: str) -> tuple[tuple[str, Value], ...]:
    """Parse ``KEY=VALUE,...`` as it stands after a colon; a ``UsageError`` quotes the wrong part and ``whole``."""
    params: dict[str, Value] = {}
    for part in tail.split(",") if tail else []:
        key, equals, value = part.partition("=")
        if not equals or not _KEY.fullmatch(key) or not value:
            raise UsageError(f"{part!r} is not KEY=VALUE in {whole!r}", f"Grammar: {GRAMMAR}")
        if key in params:
            raise UsageError(f"the key {key!r} stands twice in {whole!r}", "Write each key once.")
        params[key] = parse_value(_unquote(value))
    return tuple(params.items())


def split_names(values: Iterable[str]) -> list[str]:
    """Split texts at commas (``["sts,wic", "bel"]``), but not before a further option ``KEY=VALUE`` of a task."""
    names: list[str] = []
    for value in values:
        for part in filter(None, map(str.strip, value.split(","))):
            if "=" in part and ":" not in part and names and ":" in names[-1]:
                names[-1] += f",{part}"
            else:
                names.append(part)
    return names


def parse_value(text: str) -> Value:
    """Parse a value: numbers and booleans by their form, everything else (``-4:``, ``cls``, a path) as a string."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[+-]?[0-9]+", text):
        if len(text) > _MAX_DIGITS:
            raise UsageError(f"the number {text[:_MAX_DIGITS]}... has {len(text)} digits")
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?", text):
        value = float(text)
        if not isfinite(value):
            raise UsageError(f"the number {text[:_MAX_DIGITS]} is too large")
        return value
    return text


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return _escape(value, _IN_VALUES)


def _is_path(text: str) -> bool:
    return re.match(r"[./~]|[A-Za-z]:[\\/]", text) is not None


def _escape(text: str, special: str) -> str:
    escaped = "".join(quote(char) if char in special else char for char in text)
    return _END_SPACES.sub(lambda spaces: quote(spaces[0]), escaped)
