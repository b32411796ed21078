"""Entry points of plugins and of their commands, without those that the user disabled.

``MIRRORBENCH_DISABLE_PLUGINS`` holds names separated by commas, each of an installed package (``mirrorbench-methods``)
or of an entry point of the two groups.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import EntryPoint, entry_points

PLUGINS = "mirrorbench"
"""The group of entry points that name modules with hooks."""
COMMANDS = "mirrorbench.commands"
"""The group of entry points that name the commands of plugins."""
DISABLE = "MIRRORBENCH_DISABLE_PLUGINS"


def plugin_points() -> list[EntryPoint]:
    """Return the entry points of plugins that are not disabled, sorted by name."""
    points = [point for point in entry_points(group=PLUGINS) if not is_disabled(point)]
    return sorted(points, key=lambda point: point.name)


def command_points() -> list[EntryPoint]:
    """Return the entry points of commands, without disabled ones and those of disabled plugins."""
    disabled_packages = {
        top_package(point) for point in entry_points(group=PLUGINS) if is_disabled(point)
    }
    points = []
    for point in entry_points(group=COMMANDS):
        if not is_disabled(point) and top_package(point) not in disabled_packages:
            points.append(point)
    return points


def top_package(point: EntryPoint) -> str:
    """Return the top-level package or module of an entry point."""
    return point.module.partition(".")[0]


def is_disabled(point: EntryPoint) -> bool:
    """Return whether the user disabled an entry point, by its name or the name of its package."""
    names = disabled_names()
    if point.name in names:
        return True
    packages = {_normalised(name) for name in names}
    return point.dist is not None and _normalised(point.dist.name) in packages


def disabled_names() -> frozenset[str]:
    """Return the names that the user disabled."""
    names = os.environ.get(DISABLE, "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def unknown_disabled_names() -> list[str]:
    """Return the disabled names that belong to no installed plugin or command, sorted."""
    points = [*entry_points(group=PLUGINS), *entry_points(group=COMMANDS)]
    names = {point.name for point in points}
    packages = {_normalised(point.dist.name) for point in points if point.dist is not None}
    unknown = []
    for name in disabled_names():
        if name not in names and _normalised(name) not in packages:
            unknown.append(name)
    return sorted(unknown)


def _normalised(package: str) -> str:
    """Return the name of a package in the form in which package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()
