"""The command line called in the process of the tests, so that torch is imported only once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from helpers.processes import start
from helpers.toy_plugin import PLUGIN
from mirrorbench.cli import main
from mirrorbench.runs import registry as plugin_manager


@dataclass(frozen=True)
class Said:
    """A command's exit code and output."""

    code: int
    out: str
    err: str

    def assert_works(self, *messages: str) -> Said:
        """Check exit code 0 and messages on standard output."""
        assert self.code == 0, self.err
        for message in messages:
            assert message in self.out
        return self

    def assert_fails(self, code: int, *messages: str, out: str | None = None) -> Said:
        """Check the exit code, messages on standard error, and, if given, all of standard output."""
        assert self.code == code, self.err
        for message in messages:
            assert message in self.err
        assert out in (None, self.out)
        return self


Command = Callable[..., Said]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    path = tmp_path / "work"
    path.mkdir()
    monkeypatch.chdir(path)
    monkeypatch.setenv("LETTERS_FOLDER", str(path))
    return path


@pytest.fixture
def mirrorbench(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """A function that runs the command in ``folder``; any exception but an exit is a traceback."""

    def run(*arguments: str) -> Said:
        plugin_manager.plugins.cache_clear()
        monkeypatch.setattr(sys, "argv", ["mirrorbench", *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Said(code, said.out, said.err)

    yield run
    plugin_manager.plugins.cache_clear()


@pytest.fixture
def toys(mirrorbench: Command) -> Command:
    """The command with the toy plugin, by default ``run``."""
    return lambda *arguments, command="run": mirrorbench(
        command, "--plugin", str(PLUGIN), *arguments
    )


@pytest.fixture
def process(folder: Path) -> Callable[..., subprocess.Popen[str]]:
    """A function that starts the command in a process group of its own, as a terminal does."""

    return partial(start, "mirrorbench", cwd=folder)
