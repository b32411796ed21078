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

_SYNONYMS = {
    "model": ("encoder", "encoders"),
    "models": ("encoders", "encoder"),
    "data": ("tasks",),
    "dataset": ("tasks",),
    "folder": ("output", "results"),
    "gpu": ("device",),
    "jobs": ("workers",),
    "n_jobs": ("workers",),
}
"""Arguments that users may mean by a wrong keyword, where the spelling does not suggest them."""


def checks_keywords(settings: Iterable[str] = ()) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator that makes a function refuse unknown keyword arguments; the error names the right one.

    ``settings``: keywords that the function takes as ``**settings``.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        keyword_kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        arguments = []
        for parameter in signature(function).parameters.values():
            if parameter.kind in keyword_kinds and parameter.name != "self":
                arguments.append(parameter.name)
        arguments += settings

        @wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            for name in kwargs:
                if name not in arguments:
                    raise _unknown_argument(function.__name__, name, arguments)
            return function(*args, **kwargs)

        return checked

    return decorate


def _unknown_argument(function: str, name: str, arguments: Sequence[str]) -> UsageError:
    """Return the error for a keyword that is not among the arguments of a function."""
    nearest = [argument for argument in _SYNONYMS.get(name, ()) if argument in arguments]
    if not nearest:
        nearest = get_close_matches(name, arguments, n=2, cutoff=0.6)
    if nearest:
        hint = f"Did you mean {' or '.join(nearest)}?"
    else:
        hint = f"Its arguments: {', '.join(arguments)}"
    # Session has the only constructor whose arguments are checked.
    callable_name = "Session" if function == "__init__" else function
    return UsageError(f"{callable_name}() has no argument {name!r}", hint)


def check_count(name: str, value: Any, least: int = 0) -> None:
    """Check that an argument is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}={value!r}", f"Pass a whole number of at least {least}.")


def check_type(name: str, value: Any, types: tuple[type, ...], expected: str) -> None:
    """Check that an argument has one of the given types; ``expected`` says in a message what to pass."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise UsageError(f"{name}={value!r:.60}", f"Pass {expected}.")


def check_folder(name: str, value: Any) -> None:
    """Check that an argument names a folder or file, and is not empty."""
    check_type(name, value, (str, Path), "a path")
    if not str(value).strip():
        raise UsageError(f"{name} is empty", "Pass a path, such as 'results'.")


def as_folders(name: str, value: Any) -> list[str | Path]:
    """Return one folder, or a non-empty list or tuple of folders, as a list."""
    folders = [value] if isinstance(value, str | Path) else value
    if not isinstance(folders, list | tuple) or not folders:
        raise UsageError(f"{name}={value!r:.60}", "Pass a path, or a list of paths.")
    for folder in folders:
        check_folder(name, folder)
    return list(folders)


def as_text_list(texts: Any, name: str = "texts") -> list[Any]:
    """Return texts as a list, each a string or a ``TextInput`` that can be encoded in UTF-8.

    Raises:
        UsageError: ``texts`` is a single string, a mapping or a table, or an item is not a text that UTF-8 can encode.
    """
    if isinstance(texts, str | bytes):
        raise UsageError(f"{name} must be a list, not one string", "Pass [text].")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        problem = f"{name} must be a list, not a {type(texts).__name__}"
        raise UsageError(problem, "Pass one of its columns as a list.")
    if not isinstance(texts, Iterable):
        raise UsageError(f"{name} must be a list, not {texts!r:.60}", "Pass a list of strings.")
    text_list = list(texts)
    for position, text in enumerate(text_list):
        _check_text(text, f"{name}[{position}]")
    return text_list


def _check_text(text: Any, where: str) -> None:
    """Raise a ``UsageError`` unless a value is a text that can be encoded in UTF-8."""
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
