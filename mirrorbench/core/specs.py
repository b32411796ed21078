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
from mirrorbench.core.identity import folder_name
from mirrorbench.core.quoting import is_text

Value = bool | int | float | str
"""The type of a value in a spec or an option, ``KEY=VALUE``: a boolean, whole number, number or text.

mirrorbench parses what the user types, and plugins receive the values in ``EncoderSpec.params``, in the ``options`` of
readers and of executors. ``true`` and ``false`` become booleans, ``7`` an ``int``, ``0.5`` and ``1e-3`` a ``float``,
everything else a ``str``. Whoever expects a text or a ``float`` should convert the value, since ``name=7`` is an
``int`` and ``rate=1`` too.

Example:
    >>> from mirrorbench.plugin import Value, parse_spec
    >>> def describe(key: str, value: Value) -> str:
    ...     return f"{key} is the {type(value).__name__} {value}"
    >>> spec = parse_spec("letters:cased=true,size=7,rate=0.5,words=cat")
    >>> [describe(key, value) for key, value in spec.params]
    ['cased is the bool True', 'rate is the float 0.5', 'size is the int 7', 'words is the str cat']
"""

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
# Characters with a meaning in a spec are written as %XX inside a name, path or value. A path keeps its "@", and its ":"
# too, which is special only before KEY= and at the end; a value keeps its ":" (layers=-4:).
_ESCAPED_IN_NAMES = "%+:@,"
_ESCAPED_IN_PATHS = "%+,"
_ESCAPED_IN_VALUES = "%,\n\r\t"
# Spaces at the ends are escaped too: a shell or a list in a file would lose them.
_END_SPACES = re.compile(r"^\s+|\s+$")


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """A parsed encoder spec, ``BACKBONE[@REVISION][+METHOD][:KEY=VALUE,...]``.

    mirrorbench makes it of the text after ``--encoder`` and passes it to the function of ``register_encoders``, which
    reads the keys by ``get``, to ``create`` of a ``Method``, and to grids and analyses. A plugin makes specs by
    ``parse_spec``, or changes one by ``with_params`` and ``with_method``. Specs are immutable and hashable;
    ``str(spec)`` is the text, and ``parse_spec(str(spec)) == spec``.

    Attributes:
        backbone: short name, hub id, local path, or the name of a registered encoder system.
        revision: hub revision (branch, tag or commit); by default empty, which means that of the hub.
        method: the method applied to the backbone (``base``, ``mirror`` ...); empty (the default) where none was named.
        params: keys and values, sorted by key; by default none.

    Raises:
        UsageError: the backbone is empty, or a local path has a revision.

    Example:
        >>> from mirrorbench.plugin import parse_spec
        >>> spec = parse_spec("roberta+mirror:dropout=0.2")
        >>> spec.backbone, spec.method, spec.get("dropout"), spec.get("epochs", 1)
        ('roberta', 'mirror', 0.2, 1)
        >>> str(spec.with_params(dropout=0.1, epochs=2))
        'roberta+mirror:dropout=0.1,epochs=2'
        >>> str(spec.with_method("base"))
        'roberta+base:dropout=0.2'
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
        name = _escape(self.backbone, _ESCAPED_IN_PATHS if self.is_path else _ESCAPED_IN_NAMES)
        # Escape a colon that would be read as the beginning of the parameters, and one at the end.
        name = _PARAMS_START.sub("%3A", name)
        text = re.sub(":$", "%3A", name)
        if self.revision:
            text += "@" + _escape(self.revision, _ESCAPED_IN_NAMES)
        if self.method:
            text += "+" + self.method
        if self.params:
            params = [f"{key}={_format_value(value)}" for key, value in self.params]
            text += ":" + ",".join(params)
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
        all_params = {**dict(self.params), **params}
        return replace(self, params=tuple(all_params.items()))

    def with_method(self, method: str) -> EncoderSpec:
        """Return a copy with another method."""
        return replace(self, method=method)

    def folder_name(self, protocol: str = "paper") -> str:
        """Return a name for files of this encoder's results, valid on every file system, different for other specs.

        Example:
            >>> from mirrorbench.plugin import parse_spec
            >>> parse_spec("bert+mirror:dropout=0.2").folder_name("released")
            'bert+mirror_dropout=0.2-9c7ba3d0~released'
        """
        name = folder_name(str(self))
        return name if protocol == "paper" else f"{name}~{protocol}"


def parse_spec(text: str) -> EncoderSpec:
    """Parse one encoder spec, as written after ``--encoder``.

    Plugins call it where a grid, a command or a test names encoders. It does not check that backbone, method and keys
    exist; that is done when the encoder is loaded or planned.

    Args:
        text: ``BACKBONE[@REVISION][+METHOD][:KEY=VALUE,...]``. Reserved characters (``% + : @ , =``) inside a path or a
            value are written as ``%XX``. The ``@`` of a local path is part of the path, since a directory has no
            revisions.

    Raises:
        UsageError: the text does not follow the grammar; the message quotes the wrong part.

    Example:
        >>> from mirrorbench.plugin import parse_spec
        >>> parse_spec("roberta+mirror:dropout=0,drophead=0.05").params
        (('drophead', 0.05), ('dropout', 0))
        >>> str(parse_spec("./a+b@c+mirror"))
        './a%2Bb@c+mirror'
        >>> [parse_spec(f"tiny+base:layers={layer}") for layer in (0, 1)][1].get("layers")
        1
    """
    text = text.strip()
    _check_text(text)
    backbone = text
    revision = ""
    method = ""
    params = ""

    # Cut off the parts from the end of the text: parameters, method, revision.
    params_start = _PARAMS_START.search(text)
    if params_start:
        backbone = text[: params_start.start()]
        params = text[params_start.end() :]
    method_match = _METHOD.search(backbone)
    if method_match:
        backbone = backbone[: method_match.start()]
        method = method_match[1]
    if "@" in backbone and not _is_path(backbone):
        backbone, _, revision = backbone.partition("@")
        if not revision:
            raise UsageError(f"the revision after '@' is empty in {text!r}", f"Grammar: {GRAMMAR}")

    # Reserved characters that are still there should have been written as %XX. In a path ":" and "+" may stand, but not
    # at the end, where parameters or a method should follow them.
    reserved = "," if _is_path(backbone) else ",:+"
    has_reserved = any(char in backbone + revision for char in reserved)
    if has_reserved or backbone.endswith((":", "+")):
        raise UsageError(f"cannot read the encoder spec {text!r}", f"Grammar: {GRAMMAR}")
    return EncoderSpec(
        backbone=_unquote(backbone),
        revision=_unquote(revision),
        method=method,
        params=parse_params(params, text),
    )


def _check_text(text: str) -> None:
    """Raise a ``UsageError`` for a text that file systems, the hub or result files cannot hold."""
    if len(text) > _MAX_LENGTH:
        raise UsageError(f"an encoder spec of {len(text):,} characters", f"Grammar: {GRAMMAR}")
    if "\0" in text or not is_text(text):
        raise UsageError(
            f"the encoder spec {text!r} is not valid text",
            "Rename the directory, or quote it in UTF-8.",
        )


def _unquote(text: str) -> str:
    """Return a text with its escapes ``%XX`` decoded."""
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UsageError(f"the escapes in {text!r} are not UTF-8") from None
    _check_text(decoded)
    return decoded


Specs = str | Path | EncoderSpec | Sequence[str | Path | EncoderSpec]
"""Encoder specs as written or parsed, or directories; one or several."""


def as_spec(encoder: str | Path | EncoderSpec) -> EncoderSpec:
    """Return the spec of an encoder: parsed from a text, or for the directory at a ``Path``, unless it is one already.

    A ``Path`` may hold reserved characters.

    Raises:
        UsageError: the text is not an encoder spec, or ``encoder`` is another object.
    """
    if isinstance(encoder, EncoderSpec):
        return encoder
    if isinstance(encoder, Path):
        return EncoderSpec(str(encoder.absolute()))
    if isinstance(encoder, str):
        return parse_spec(encoder)
    raise _not_a_name(encoder)


def _not_a_name(encoder: object) -> UsageError:
    """Return the error for an object that does not name an encoder."""
    return UsageError(
        f"an encoder must be named by a text or a path, not {encoder!r:.60}",
        "Such as 'tiny', 'roberta+mirror' or './my-encoder'; mirrorbench.evaluate takes objects too.",
    )


def as_specs(encoders: Specs) -> tuple[EncoderSpec, ...]:
    """Return the distinct specs of one or several encoders."""
    return tuple(dict.fromkeys(map(parse_spec, as_texts(encoders))))


def as_several(encoders: Specs) -> Sequence[str | Path | EncoderSpec]:
    """Return one or several encoders as a sequence; raise a ``UsageError`` for anything else."""
    if isinstance(encoders, str | Path | EncoderSpec):
        return [encoders]
    if isinstance(encoders, Iterable) and not hasattr(encoders, "encode"):
        return list(encoders)
    raise _not_a_name(encoders)


def as_texts(encoders: Specs) -> tuple[str, ...]:
    """Return one or several encoders as texts; strings, which may be labels of rows, are returned unchanged."""
    texts = []
    for encoder in as_several(encoders):
        texts.append(encoder if isinstance(encoder, str) else str(as_spec(encoder)))
    return tuple(texts)


TaskNames = str | Path | Sequence[str | Path]
"""Tasks, suites and paths of a user's own data: a list, one path, or one string with commas."""


def is_path_name(name: str) -> bool:
    """Return whether the name of a task is a path of own data: it has a slash, or begins with a dot or tilde."""
    return "/" in name or name.startswith((".", "~"))


def path_name(path: str) -> str:
    """Return a path as the name of a task: ``./pairs.csv`` for ``pairs.csv``."""
    return path if is_path_name(path) else f"./{path}"


def as_names(names: TaskNames) -> list[str]:
    """Return names of tasks or suites from a list, or from one text with commas; a ``Path`` names a user's own data."""
    listed = [names] if isinstance(names, str | Path) else names
    # A data frame is refused, since it would iterate over the names of its columns.
    if not isinstance(listed, Iterable) or hasattr(listed, "columns"):
        problem = f"tasks must be named by texts or paths, not {type(names).__name__}"
        raise UsageError(problem, "Such as 'stsb' or './pairs.csv'.")
    all_names: list[str] = []
    for name in listed:
        if isinstance(name, Path):
            all_names.append(path_name(str(name)))
        elif isinstance(name, str):
            all_names += split_names([name])
        else:
            problem = f"a task must be named by a text or a path, not {name!r:.60}"
            raise UsageError(problem, "Such as 'stsb' or './pairs.csv'.")
    return all_names


def parse_params(tail: str, whole: str) -> tuple[tuple[str, Value], ...]:
    """Parse the ``KEY=VALUE,...`` after a colon; a ``UsageError`` quotes the wrong part and the ``whole`` text."""
    if not tail:
        return ()
    params: dict[str, Value] = {}
    for part in tail.split(","):
        key, equals, value = part.partition("=")
        if not equals or not _KEY.fullmatch(key) or not value:
            raise UsageError(f"{part!r} is not KEY=VALUE in {whole!r}", f"Grammar: {GRAMMAR}")
        if key in params:
            raise UsageError(f"the key {key!r} occurs twice in {whole!r}", "Write each key once.")
        params[key] = parse_value(_unquote(value))
    return tuple(params.items())


def split_names(values: Iterable[str]) -> list[str]:
    """Split the values of a repeatable option at their commas.

    Commands of plugins call it for an option such as ``--tasks`` (``list[str]`` in Typer), so that ``-t sts,wic -t
    bel`` and ``-t sts -t wic -t bel`` are the same. A comma before a further option ``KEY=VALUE`` of a task does not
    separate names. Spaces around names, and empty names, are dropped; names may repeat, and are not checked.

    Args:
        values: the texts, in order.

    Example:
        >>> import typer
        >>> from typer.testing import CliRunner
        >>> from mirrorbench.plugin import say, split_names
        >>> app = typer.Typer()
        >>> @app.command()
        ... def show(tasks: list[str] = typer.Option([], "--tasks", "-t")) -> None:
        ...     say("; ".join(split_names(tasks)))
        >>> print(CliRunner().invoke(app, ["-t", "sts, wic", "-t", "bli-en-fr:train=1k,rcsls=true"]).output, end="")
        sts; wic; bli-en-fr:train=1k,rcsls=true
    """
    names: list[str] = []
    for value in values:
        for part in value.split(","):
            name = part.strip()
            if not name:
                continue
            follows_options = bool(names) and ":" in names[-1]
            is_option = "=" in name and ":" not in name
            if follows_options and is_option:
                names[-1] += f",{name}"
            else:
                names.append(name)
    return names


def parse_value(text: str) -> Value:
    """Parse a value as a boolean or number if it is written as one, else (``-4:``, ``cls``, a path) as a string."""
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
    return _escape(value, _ESCAPED_IN_VALUES)


def _is_path(text: str) -> bool:
    return re.match(r"[./~]|[A-Za-z]:[\\/]", text) is not None


def _escape(text: str, special: str) -> str:
    """Return a text with its special characters, and spaces at its ends, written as ``%XX``."""
    escaped = "".join(quote(char) if char in special else char for char in text)
    return _END_SPACES.sub(lambda spaces: quote(spaces[0]), escaped)
