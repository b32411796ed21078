"""Checks of the arguments of public functions: each wrong one is a ``UsageError`` that says what to pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import shown

_P = ParamSpec("_P")
_T = TypeVar("_T")

_MEANT = {
    "model": ("encoder", "encoders"),
    "models": ("encoders", "encoder"),
    "data": ("tasks",),
    "dataset": ("tasks",),
    "folder": ("output", "results"),
    "gpu": ("device",),
    "jobs": ("workers",),
    "n_jobs": ("workers",),
}
"""Other words for arguments, where the spelling is not alike."""


def checks_keywords(settings: Iterable[str] = ()) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator of functions that refuse unknown keyword arguments and name the right one.

    ``settings``: keywords that the function takes as ``**settings``.
    """

    def decorated(function: Callable[_P, _T]) -> Callable[_P, _T]:
        kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        parameters = signature(function).parameters.values()
        known = [own.name for own in parameters if own.kind in kinds and own.name != "self"]
        known += settings

        @wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            for name in kwargs:
                if name not in known:
                    raise _unknown_argument(function.__name__, name, known)
            return function(*args, **kwargs)

        return checked

    return decorated


def _unknown_argument(function: str, name: str, known: Sequence[str]) -> UsageError:
    meant = [other for other in _MEANT.get(name, ()) if other in known]
    near = meant or get_close_matches(name, known, n=2, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Its arguments: {', '.join(known)}"
    called = "Session" if function == "__init__" else function
    return UsageError(f"{called}() has no argument {name!r}", hint)


def check_count(name: str, value: Any, least: int = 0) -> None:
    """Check that an argument is a whole number from ``least`` on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}={value!r}", f"Pass a whole number from {least} on.")


def check_type(name: str, value: Any, types: tuple[type, ...], meant: str) -> None:
    """Check that an argument is of one of some types; ``meant`` says what to pass."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise UsageError(f"{name}={value!r:.60}", f"Pass {meant}.")


def check_folder(name: str, value: Any) -> None:
    """Check that an argument names a folder or file, and is not empty."""
    check_type(name, value, (str, Path), "a path")
    if not str(value).strip():
        raise UsageError(f"{name} is empty", "Pass a path, such as 'results'.")


def as_folders(name: str, value: Any) -> list[str | Path]:
    """Return one folder or several as a list that is not empty."""
    several = [value] if isinstance(value, str | Path) else value
    if not isinstance(several, list | tuple) or not several:
        raise UsageError(f"{name}={value!r:.60}", "Pass a path, or a list of paths.")
    for folder in several:
        check_folder(name, folder)
    return list(several)


def as_text_list(texts: Any, name: str = "texts") -> list[Any]:
    """Return texts as a list, each a string or an input, of characters that have a code in UTF-8.

    Raises:
        UsageError: a single string, a mapping, a table, or something that holds other than texts.
    """
    if isinstance(texts, str | bytes):
        raise UsageError(f"{name} are a list, and got one string", "Pass [text].")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        kind = type(texts).__name__
        raise UsageError(f"{name} are a list, and got a {kind}", "Pass a column of it as a list.")
    if not isinstance(texts, Iterable):
        raise UsageError(f"{name} are a list, and got {texts!r:.60}", "Pass a list of strings.")
    found = list(texts)
    for position, text in enumerate(found):
        _check_text(text, f"{name}[{position}]")
    return found


def _check_text(text: Any, where: str) -> None:
    if isinstance(text, TextInput):
        text = text.text
    if not isinstance(text, str):
        problem = f"{where} is a {type(text).__name__}, not a text"
        raise UsageError(problem, "Pass strings; leave empty cells out, or pass ''.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = f"U+{ord(text[error.start]):04X}"
        raise UsageError(
            f"{where} holds {code}, half of a character, at {error.start}: {shown(text)}",
            "Decode its bytes as UTF-8, or pass text.encode(errors='ignore').decode().",
        ) from None
