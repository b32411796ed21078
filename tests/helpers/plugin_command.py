"""The command line with a plugin that need not be installed: ``python -m helpers.plugin_command MODULE ...``."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

from mirrorbench.cli import GROUP, commands_of_plugins, main
from mirrorbench.core.plugins import Plugins
from mirrorbench.runs.registry import plugins


def loaded_with(plugin: ModuleType) -> Plugins:
    """Return the process-wide plugins, with one that registers itself only where it is installed.

    Its name is what it would be then: the module ``mirrorbench_ray`` is ``ray``, as ``mirrorbench plugin new`` has it.
    """
    loaded = plugins()
    if plugin not in loaded:
        loaded.add(plugin, plugin.__name__.removeprefix("mirrorbench_"))
        commands_of_plugins().update(commands_of(plugin))
    return loaded


def commands_of(plugin: ModuleType) -> dict[str, EntryPoint]:
    """Return the commands in a plugin's ``pyproject.toml``."""
    project = (
        Path(plugin.__file__ or "").parents[plugin.__file__.endswith("__init__.py")]
        / "pyproject.toml"
    )
    points = (
        tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"]
        if project.is_file()
        else {}
    )
    return {name: EntryPoint(name, value, GROUP) for name, value in points.get(GROUP, {}).items()}


if __name__ == "__main__":  # workers that are spawned import this module again
    loaded_with(import_module(sys.argv.pop(1)))
    main()
