"""The errors that users may see; the command line prints them without a traceback. Any other exception is a bug."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

from mirrorbench.core.quoting import shown

_CREDENTIALS = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/?#\s]*@", re.IGNORECASE)
MAX_LISTED_NAMES = 30
"""Most names that an error lists itself, where a command can list them instead."""


class Lack(NamedTuple):
    """A missing data set or model (``category``: ``data``, ``models``), and the hosts that did not answer for it."""

    category: str
    name: str
    hosts: tuple[str, ...] = ()


def without_credentials(text: str) -> str:
    """Remove user and password from the addresses in a text, such as the address of a mirror of the hub."""
    return _CREDENTIALS.sub(r"\1", text)


_OPTION = re.compile(
    r"(?<![\w-])--(?P<name>[a-z][a-z-]*)"
    r"(?: (?P<value>[A-Z][A-Z_]*\b|\.?\d[\w.]*|(?:auto|cpu|cuda(?::\d+)?|mps|fp32|bf16|fp16|tiny|all|none)\b|\./\S+))?"
)
_COMMAND = re.compile(r"\b(?:mirrorbench [a-z]+|pip install) ")
_FLAGS = frozenset(
    [
        "offline",
        "force",
        "merge",
        "baselines",
        "intervals",
        "ties",
        "deterministic",
        "allow-mixed",
        "without-overlap",
        "words-in-context",
    ]
)
_ARGUMENTS = {"encoder": "encoders", "span-columns": "spans", "log": "log=True"}
_wording = {"options": False}
"""``options``: whether errors name options of the command line; otherwise they name arguments of Python functions."""


@contextmanager
def naming_options() -> Iterator[None]:
    """Let errors name options of the command line inside the block."""
    before = _wording["options"]
    _wording["options"] = True
    try:
        yield
    finally:
        _wording["options"] = before


def as_arguments(text: str) -> str:
    """Return a text with the options of the command line replaced by arguments of the Python functions.

    ``Use --device cpu.`` becomes ``Use device='cpu'.``. A command such as ``mirrorbench list tasks``, and the rest of
    its line, stay unchanged.
    """
    lines = []
    for line in text.split("\n"):
        command = _COMMAND.search(line)
        end = command.start() if command else len(line)
        lines.append(_OPTION.sub(_argument, line[:end]) + line[end:])
    return "\n".join(lines)


def _argument(option: re.Match[str]) -> str:
    """Return a matched option, with its value if it has one, as an argument."""
    name = option["name"]
    value = option["value"]
    argument = _ARGUMENTS.get(name, name.replace("-", "_"))
    if name in _FLAGS:
        # A flag has no value: the next word belongs to the sentence.
        return f"{argument}=True {value}" if value else f"{argument}=True"
    if value is None:
        return argument
    is_text = value[0].islower() or value.startswith("./")
    return f"{argument}={value!r}" if is_text else f"{argument}={value}"


class MirrorbenchError(Exception):
    """Base of all errors caused by input, data or environment rather than by a bug.

    Args:
        message: the request and its problem, in one or two sentences.
        hint: remedy; may be empty or have several lines.
        lacks: the missing data sets and models that caused it; errors with the same cause are reported together.
    """

    def __init__(self, message: str, hint: str = "", lacks: tuple[Lack, ...] = ()) -> None:
        super().__init__(message)
        self.message = without_credentials(message)
        self.hint = without_credentials(hint)
        self.lacks = lacks

    def __str__(self) -> str:
        text = f"{self.message}\n{self.hint}" if self.hint else self.message
        return text if _wording["options"] else as_arguments(text)


_Error = TypeVar("_Error", bound=MirrorbenchError)


class UsageError(MirrorbenchError):
    """The request itself is malformed: an unknown name, a bad spec, an impossible option (exit code 2)."""


class UnknownNameError(UsageError):
    """A name is not registered; the hint lists the nearest ones."""


class PluginError(MirrorbenchError):
    """A plugin cannot be loaded, or registers something invalid."""


class DuplicateNameError(PluginError):
    """Two plugins register the same name."""


class DataUnavailableError(MirrorbenchError):
    """A data file is missing and could not be fetched; the message names licence, sources and the remedy."""


class DataIntegrityError(MirrorbenchError):
    """A data file exists, or was downloaded, but it is not the file that its card describes."""


class DataFormatError(MirrorbenchError):
    """The content of a file does not follow its format; the message names the file and, if known, the line."""


class ModelUnavailableError(MirrorbenchError):
    """A backbone is neither in the cache nor reachable, or its files cannot be opened safely."""


class TuningError(MirrorbenchError):
    """A tuning cannot start or failed: an empty corpus, a loss that is not finite."""


class EncodingError(MirrorbenchError):
    """An encoder did not return one finite vector for each text."""


class UnreadableTextError(EncodingError):
    """An encoder cannot read a text.

    Args:
        text: the text; a caller that knows its file can find its line.
        problem: the reason, without the text.
        hint: remedy.
        place: file and line; by default the text itself is quoted.
    """

    def __init__(self, text: str, problem: str, hint: str = "", place: str = "") -> None:
        super().__init__(f"{place or shown(text)}: {problem}", hint)
        self.text = text
        self.problem = problem

    def at(self, place: str) -> UnreadableTextError:
        """Return the error with a file and line instead of the quoted text."""
        return UnreadableTextError(self.text, self.problem, self.hint, place)


class StorageError(MirrorbenchError):
    """A result or cache entry cannot be written: no space left, no permission."""


class DeviceMemoryError(MirrorbenchError):
    """A device has too little memory even for the smallest part of some work; another device may have enough."""


READ_BACK_HINT = (
    "This is a bug in mirrorbench or in a library: report it with the output of mirrorbench doctor."
)


class ReadBackError(MirrorbenchError):
    """A model that was written differs when it is read back."""


class DeviceError(MirrorbenchError):
    """A GPU failed, and fails in every later call of this process; a new process may be able to continue."""


def changed_while_read(name: str) -> DataFormatError:
    """Return the error for data that changed between planning and scoring."""
    return DataFormatError(f"{name} changed while it was read", "Run it again.")


def not_installed(
    error: type[_Error], needs: str, package: str, extra: str, instead: str = ""
) -> _Error:
    """Return an error of type ``error`` for a missing package, which the extra ``extra`` installs.

    ``needs``: the beginning of the message (``the loss needs``); ``instead``: the end of the hint.
    """
    hint = f"Install it: pip install 'mirrorbench[{extra}]'{instead}"
    return error(f"{needs} the package {package}, which is not installed", hint)


def unknown_name(noun: str, name: str, known: list[str], listing: str = "") -> UnknownNameError:
    """Return the error for a name that is not in ``known``.

    Its hint has the nearest names, or else the command ``listing`` if the known names are many, or else all of them.
    """
    nearest = get_close_matches(str(name), known, n=3, cutoff=0.5)
    if nearest:
        hint = f"Did you mean {' or '.join(nearest)}?"
    elif listing and len(known) > MAX_LISTED_NAMES:
        hint = f"The {len(known):,} known names are listed by: {listing}"
    else:
        hint = f"Known: {', '.join(known) or 'none'}"
    disabled = os.environ.get("MIRRORBENCH_DISABLE_PLUGINS")
    if disabled:
        hint += f" (MIRRORBENCH_DISABLE_PLUGINS={disabled} disables plugins)"
    return UnknownNameError(f"unknown {noun} {name!r}", hint)
