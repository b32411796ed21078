"""Every ``mirrorbench`` command on any page, and every example in a help text, is one that the command line takes.

Here the grammar alone is looked at: commands, options, encoder specs, tasks and suites. ``test_pages_run`` runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import typer.main
from helpers.documentation_pages import PAGES, ROOT, own_commands, parsed, sections

from mirrorbench.cli import COMMANDS, LateCommand, app
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec, split_names
from mirrorbench.runs.grids import find_grid
from mirrorbench.runs.registry import expand_tasks

# Names that a page's own plugin brings, or that stand for a file of the reader's.
OWN = re.compile(
    r"\./|mteb-|faq|pets|vehicles|generality|scws|senses|uses|my-lab-|my-task|letters|static-|grid\.yaml|GRID\.yaml|^layers$"
)


ALL = {
    f"{page.relative_to(ROOT)}: {command}": command
    for page in PAGES
    for command in own_commands(page.read_text(encoding="utf-8"))
}

OF_PLUGINS = ("simcse", "esimcse", "ct", "tsdae", "promptbert", "diffcse")
"""Methods of the packages in plugins/."""


def unknown(command: str, plugins: Plugins) -> list[str]:
    """Methods, tasks and grids that a command names and that nobody knows; raises where it cannot be read at all."""
    name, values = parsed(command)
    found = []
    for key in ("encoder", "encoders", "one", "other", "first", "second"):
        given = values.get(key)
        for text in filter(None, [given] if isinstance(given, str) else given or []):
            spec = parse_spec(str(text))
            if spec.method and spec.method not in plugins.methods and spec.method not in OF_PLUGINS:
                found.append(spec.method)
    for key in ("tasks", "task"):
        given = values.get(key)
        named = [
            part
            for part in split_names([given] if isinstance(given, str) else given or [])
            if not OWN.match(part)
        ]
        if name != "leaderboard":
            found += [
                task for task in expand_tasks(named, plugins) if plugins.tasks[task].name != task
            ]
    grid = values.get("grid")
    if name == "run" and grid and not OWN.search(str(grid)) and not find_grid(str(grid)).is_file():
        found.append(str(grid))
    return found


def test_documented_commands_are_valid(plugins: Plugins) -> None:
    """But those of plugins, which ``test_pages_run`` and ``test_plugins_page`` look at, with the plugins."""
    assert len(ALL) > 60
    wrong = {}
    for where, command in ALL.items():
        if not command.startswith(("mirrorbench mteb ", "mirrorbench my-lab ")):
            try:
                wrong[where] = unknown(command, plugins)
            except (Exception, SystemExit) as error:
                wrong[where] = repr(error)
    assert {where: what for where, what in wrong.items() if what} == {}


def every_command(name: str = "mirrorbench", command: Any = None) -> Iterator[tuple[str, Any]]:
    """All commands and groups of commands, with their names."""
    command = command or typer.main.get_command(app)
    command = command.loaded() if isinstance(command, LateCommand) else command
    yield name, command
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for one in command.list_commands(context):
            yield from every_command(f"{name} {one}", command.get_command(context, one))


def test_reference_page_documents_every_command_and_option() -> None:
    """An option that a command only names is described above it, for its group or for all commands."""
    page = {
        heading.strip("`"): text
        for heading, text in sections(ROOT / "docs" / "commands.md").items()
    }
    page["mirrorbench"] = page["Commands"]
    missing = []
    with patch.dict(COMMANDS):  # without what plugins add
        commands = dict(every_command())
    assert commands.keys() == page.keys() - {"", "Commands"}
    for name, command in commands.items():
        if " ".join(command.help.split("\n\n")[0].split()) not in page[name]:
            missing.append(f"{name}: {command.help}")
        shared = " ".join(re.findall("^- shared: (.*)$", page[name], re.M))
        for parameter in command.params:
            is_option = parameter.param_type_name == "option"
            shown = (
                max(parameter.opts, key=len) if is_option else parameter.metavar or parameter.name
            )
            described = re.compile(rf"^- `(?:-\w, )?{re.escape(shown)}(?![\w-])[^`]*`: \S", re.M)
            above = (
                page["Commands"] + page[name.rpartition(" ")[0]] if f"`{shown}`" in shared else ""
            )
            if shown != "--help" and not described.search(page[name] + above):
                missing.append(f"{name} {shown}")
    assert not missing
