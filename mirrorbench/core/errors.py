"""The errors that a user can meet; the command line prints them without a traceback. Any other exception is a bug."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

from mirrorbench.core.quoting import shown

_CREDENTIALS = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/?#\s]*@", re.IGNORECASE)
MOST_NAMED = 30  # names that an error lists in full, where a command lists them too


class Lack(NamedTuple):
    """A missing data set or model (``category``: ``data``, ``models``), and the hosts that did not answer for it."""

    category: str
    name: str
    hosts: tuple[str, ...] = ()


def without_credentials(text: str) -> str:
    """Remove user and password from the addresses in a text, as that of a mirror of the hub may have them."""
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
"""Whether errors name the options of the command line; in Python they name arguments."""


@contextmanager
def naming_options() -> Iterator[None]:
    """Let errors name options inside, as the command line has them."""
    before = _wording["options"]
    _wording["options"] = True
    try:
        yield
    finally:
        _wording["options"] = before


def as_arguments(text: str) -> str:
    """Return a text in which options of the command line are the arguments of the Python functions.

    ``Use --device cpu.`` becomes ``Use device='cpu'.``; commands such as ``mirrorbench list tasks`` stay.
    """
    lines = []
    for line in text.split("\n"):
        command = _COMMAND.search(line)
        end = command.start() if command else len(line)
        lines.append(_OPTION.sub(_argument, line[:end]) + line[end:])
    return "\n".join(lines)


def _argument(option: re.Match[str]) -> str:
    name, value = option["name"], option["value"]
    argument = _ARGUMENTS.get(name, name.replace("-", "_"))
    if name in _FLAGS:
        return f"{argument}=True" + (f" {value}" if value else "")
    if value is None:
        return argument
    is_text = value[0].islower() or value.startswith("./")
    return f"{argument}={value!r}" if is_text else f"{argument}={value}"


class MirrorbenchError(Exception):
    """Base of all errors caused by input, data or environment rather than by a bug.

    Args:
        message: the request and its problem, in one or two sentences.
        hint: remedy; may be empty, may hold several lines.
        lacks: the missing things that are the cause; errors with the same cause are reported together.
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
    """A plugin cannot be loaded, or registers something that it must not."""


class DuplicateNameError(PluginError):
    """Two plugins register the same name."""


class DataUnavailableError(MirrorbenchError):
    """A data file is missing and could not be fetched; the message names licence, sources and the remedy."""


class DataIntegrityError(MirrorbenchError):
    """A data file is present (or arrived), but it is not the file that its card describes."""


class DataFormatError(MirrorbenchError):
    """The content of a file does not follow its format; the message names the file and, if known, the line."""


class ModelUnavailableError(MirrorbenchError):
    """A backbone is neither in the cache nor reachable, or its files cannot be opened safely."""


class TuningError(MirrorbenchError):
    """A tuning cannot start or went wrong: an empty corpus, a loss that is not finite."""


class EncodingError(MirrorbenchError):
    """An encoder did not return one finite vector for each text."""


class UnreadableTextError(EncodingError):
    """A single text that an encoder cannot read.

    Args:
        text: the text, by which a caller who knows its file finds the line.
        problem: the reason, without the text.
        hint: remedy.
        place: file and line; by default the text itself is quoted.
    """

    def __init__(self, text: str, problem: str, hint: str = "", place: str = "") -> None:
        super().__init__(f"{place or shown(text)}: {problem}", hint)
        self.text = text
        self.problem = problem

    def at(self, place: str) -> UnreadableTextError:
        """Return the error with the place of the text in place of its words."""
        return UnreadableTextError(self.text, self.problem, self.hint, place)


class StorageError(MirrorbenchError):
    """A result or cache entry cannot be written: no space left, no permission."""


class DeviceMemoryError(MirrorbenchError):
    """A device has no memory left for the smallest part of some work; another device may have."""


READ_BACK = (
    "This is a bug in mirrorbench or in a library: report it with the output of mirrorbench doctor."
)


class ReadBackError(MirrorbenchError):
    """A model that was written is not read back as it was."""


class DeviceError(MirrorbenchError):
    """A GPU failed so that every later call of this process on it fails too; a new process can go on."""


def changed_while_read(name: str) -> DataFormatError:
    """Return the error for data that are not the same from planning to scoring."""
    return DataFormatError(f"{name} changed while it was read", "Run it again.")


def not_installed(
    error: type[_Error], needs: str, package: str, extra: str, instead: str = ""
) -> _Error:
    """Return an error of a type for a package that an extra installs; ``instead`` ends the hint."""
    hint = f"Install it: pip install 'mirrorbench[{extra}]'{instead}"
    return error(f"{needs} the package {package}, which is not installed", hint)


def unknown_name(noun: str, name: str, known: list[str], listing: str = "") -> UnknownNameError:
    """Return the error for a name not in ``known``; the hint has the nearest names or the command ``listing``."""
    if near := get_close_matches(str(name), known, n=3, cutoff=0.5):
        hint = f"Did you mean {' or '.join(near)}?"
    elif listing and len(known) > MOST_NAMED:
        hint = f"The {len(known):,} known names are listed by: {listing}"
    else:
        hint = f"Known: {', '.join(known) or 'none'}"
    if disabled := os.environ.get("MIRRORBENCH_DISABLE_PLUGINS"):
        hint += f" (MIRRORBENCH_DISABLE_PLUGINS={disabled} disables plugins)"
    return UnknownNameError(f"unknown {noun} {name!r}", hint)
