"""Descriptions of errors from code outside this package, such as a plugin's, with the line that raised them."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from mirrorbench.core.errors import MirrorbenchError

_OURS = Path(__file__).resolve().parents[1]
_LIBRARIES = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")
)
_plugin_code: set[Path] = set()
"""Files and package folders of the plugins that this process loaded; they may lie among the libraries."""


def remember_plugin(plugin: Any) -> None:
    """Remember the code of a loaded plugin, so that messages can name its lines."""
    name = plugin.__name__ if isinstance(plugin, ModuleType) else ""
    top_package = name.partition(".")[0]
    module = sys.modules.get(top_package, plugin)
    file = getattr(module, "__file__", None)
    if file is None:
        return
    path = Path(file).resolve()
    _plugin_code.add(path.parent if path.name == "__init__.py" else path)


def describe(error: BaseException) -> str:
    """Return an error in one line: its type, its message, and the line of foreign code that raised it, if any.

    ``KeyError: 'boom' (letters.py, line 12, in encode)``. For an error of this package, return only its message.
    """
    if isinstance(error, MirrorbenchError):
        return " ".join(error.message.split())
    text = f"{type(error).__name__}: {error}"
    one_line = " ".join(text.split()).removesuffix(":")
    place = place_of(error)
    return f"{one_line} ({place})" if place else one_line


def place_of(error: BaseException) -> str:
    """Return file, line and function of the innermost frame of foreign code; empty if an error has no such frame."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign_frames = [frame for frame in frames if _is_foreign(frame.filename)]
    if not foreign_frames:
        return ""
    last = foreign_frames[-1]
    function = "" if last.name == "<module>" else f", in {last.name}"
    return f"{_short_path(last.filename)}, line {last.lineno}{function}"


def defined_at(value: Any) -> str:
    """Return `` (file, line N)`` of a foreign function or method; empty for other code and other values."""
    function = inspect.unwrap(value) if callable(value) else None
    # The code of a method is that of its function.
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None or not _is_foreign(code.co_filename):
        return ""
    return f" ({_short_path(code.co_filename)}, line {code.co_firstlineno})"


def traceback_of(error: BaseException) -> str:
    """Return the traceback of a foreign error, or of the cause of an error of this package; empty without one."""
    cause: BaseException | None = error
    while isinstance(cause, MirrorbenchError):
        cause = cause.__cause__
    if cause is None:
        return ""
    return "".join(traceback.format_exception(cause))


def _is_foreign(filename: str) -> bool:
    """Return whether a file belongs to a plugin or the user, not to this package or a library."""
    path = Path(filename).resolve()
    if any(path.is_relative_to(code) for code in _plugin_code):
        return True
    if not path.is_file() or path.is_relative_to(_OURS):
        return False
    return not any(path.is_relative_to(folder) for folder in _LIBRARIES)


def _short_path(filename: str) -> str:
    """Return a path relative to the working directory if the file is below it, else the path itself."""
    path = Path(filename)
    here = Path(os.getcwd())
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename
