"""What errors of plugins and libraries say, and where they were raised."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mirrorbench.core import foreign_errors
from mirrorbench.core.errors import PluginError, UsageError
from mirrorbench.core.foreign_errors import describe, place_of, remember_plugin, traceback_of
from mirrorbench.core.specs import parse_spec

SOURCE = """
import numpy

def outer():
    inner()

def inner():
    numpy.zeros(3).reshape(2)

def own():
    from mirrorbench.core.specs import parse_spec
    parse_spec(":")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "letters.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "letters", raising=False)
    monkeypatch.chdir(tmp_path)
    import letters

    return letters


def raised(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError


def test_error_names_the_innermost_line_of_foreign_code(module: ModuleType) -> None:
    """Not the line of the library that the code called."""
    error = raised(module.outer)
    assert place_of(error) == "letters.py, line 8, in inner"
    assert describe(error) == f"ValueError: {error} (letters.py, line 8, in inner)"
    assert "numpy.zeros(3).reshape(2)" in traceback_of(error)


def test_library_and_own_errors_have_no_place(module: ModuleType) -> None:
    """The frame of this test file, which would be foreign code, is removed from the traceback."""
    error = raised(lambda: np.linalg.cholesky(-np.eye(2)))
    error.__traceback__ = error.__traceback__.tb_next.tb_next  # type: ignore[union-attr]
    assert place_of(error) == ""
    wrong = raised(lambda: parse_spec(":"))
    assert isinstance(wrong, UsageError)
    assert (describe(wrong), traceback_of(wrong)) == (" ".join(wrong.message.split()), "")


def test_traceback_is_that_of_the_cause(module: ModuleType) -> None:
    wrapped = PluginError("it failed")
    wrapped.__cause__ = raised(module.outer)
    assert "line 8, in inner" in traceback_of(wrapped)


def test_installed_plugin_is_no_library(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(str(module.__file__)).parent
    monkeypatch.setattr(foreign_errors, "_LIBRARIES", (folder,))
    monkeypatch.setattr(foreign_errors, "_plugin_code", set())
    error = raised(module.outer)
    assert place_of(error) != "letters.py, line 8, in inner"
    remember_plugin(module)
    assert place_of(error) == "letters.py, line 8, in inner"
