"""The command line with a plugin that need not be installed: ``python -m harness.command MODULE ...``."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType

from mirrorbench.core.plugins import Plugins
from mirrorbench.runs.builtin import plugins


def loaded_with(plugin: ModuleType) -> Plugins:
    """The process-wide plugins, and among them one that registers itself only where it is installed.

    Its name is what it would be then: the module ``mirrorbench_ray`` is ``ray``, as ``mirrorbench plugin new`` has it.
    """
    loaded = plugins()
    if plugin not in loaded:
        loaded.add(plugin, plugin.__name__.removeprefix("mirrorbench_"))
    return loaded


if __name__ == "__main__":  # workers that are spawned import this module again
    from mirrorbench.cli import add_plugin_commands, main

    loaded_with(import_module(sys.argv.pop(1)))
    if not entry_points(group="mirrorbench"):  # where there are some, main does it
        add_plugin_commands()
    main()
