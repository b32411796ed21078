"""Fixtures for the tests of any plugin: the module that a fixture ``plugin`` returns, installed or not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest

from helpers.plugin_command import folder_of, loaded_with
from helpers.processes import start
from mirrorbench.cli import COMMANDS, main
from mirrorbench.core.plugins import Plugins
from mirrorbench.runs import registry as plugin_manager

Command = Callable[..., subprocess.Popen[str]]
Said = Callable[..., tuple[int, str, str]]
PATIENCE = 120.0
"""Seconds after which a command has failed."""


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tests from the data and cache of the user."""
    monkeypatch.setenv("MIRRORBENCH_DATA", str(tmp_path / "default-data"))
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / "default-cache"))
    for name in ("MIRRORBENCH_STRICT_PLUGINS", "MIRRORBENCH_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def plugins(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugins]:
    """The process-wide plugins, loaded anew; processes that the test starts find it and this package."""
    found = (
        folder_of(plugin),
        Path(__file__).resolve().parents[1],
        os.environ.get("PYTHONPATH", ""),
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, found)))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    plugin_manager.plugins.cache_clear()
    yield loaded_with(plugin)
    plugin_manager.plugins.cache_clear()


@pytest.fixture
def command(plugin: ModuleType, plugins: Plugins, tmp_path: Path) -> Command:
    """A function that starts ``mirrorbench`` with the plugin, as a terminal does; keywords are variables."""

    def mirrorbench(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        program = ("helpers.plugin_command", plugin.__name__)
        return start(*program, *arguments, cwd=tmp_path, **environment)

    return mirrorbench


@pytest.fixture
def said(
    plugins: Plugins,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Said:
    """A function that runs ``mirrorbench`` in this process with the plugin; returns exit code and both streams."""
    monkeypatch.chdir(tmp_path)

    def mirrorbench(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mirrorbench", *arguments])
        code: object = 0
        with patch.dict(COMMANDS):  # without what plugins add
            try:
                main()
            except SystemExit as stop:
                code = stop.code
        out, err = capsys.readouterr()
        return int(code or 0), out, err

    return mirrorbench
