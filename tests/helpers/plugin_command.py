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


def folder_of(plugin: ModuleType) -> Path:
    """Return the folder from which a module is imported; in a checkout, its ``pyproject.toml`` is there, too."""
    file = Path(plugin.__file__ or "")
    depth = plugin.__name__.count(".")
    if file.name == "__init__.py":
        depth += 1
    return file.parents[depth]


def commands_of(plugin: ModuleType) -> dict[str, EntryPoint]:
    """Return the commands in a plugin's ``pyproject.toml``."""
    project = folder_of(plugin) / "pyproject.toml"
    points = (
        tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"]
        if project.is_file()
        else {}
    )
    return {name: EntryPoint(name, value, GROUP) for name, value in points.get(GROUP, {}).items()}


if __name__ == "__main__":  # workers that are spawned import this module again
    loaded_with(import_module(sys.argv.pop(1)))
    main()
