"""Checks of the arguments of public functions: each wrong one is a ``UsageError`` that says what to pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
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


def check_texts(texts: Sequence[Any], name: str = "texts") -> None:
    """Check that texts are strings or inputs, each of characters that have a code in UTF-8."""
    if isinstance(texts, str):
        raise UsageError(f"{name} are a list, and got one string", "Pass [text].")
    for position, text in enumerate(texts):
        if isinstance(text, TextInput):
            text = text.text
        if not isinstance(text, str):
            problem = f"{name}[{position}] is a {type(text).__name__}, not a text"
            raise UsageError(problem, "Pass strings; leave empty cells out, or pass ''.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            code = f"U+{ord(text[error.start]):04X}"
            raise UsageError(
                f"{name}[{position}] holds {code}, half of a character, at {error.start}: {shown(text)}",
                "Decode its bytes as UTF-8, or pass text.encode(errors='ignore').decode().",
            ) from None
