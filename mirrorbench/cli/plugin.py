"""``mirrorbench list``, ``plugins`` and ``plugin new``: what is registered, by whom, and a package to start from."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.display import Json, PluginFiles, print_json, print_rows
from mirrorbench.core.errors import UsageError

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

plugin_app = typer.Typer(
    name="plugin", help="Packages of your own with encoders, tasks and augmentations.", no_args_is_help=True
)

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FILES = ("pyproject.toml", "README.md", "$module/__init__.py", "$module/pets.yaml", "$module/pets.tsv",
          "tests/test_plugin.py")  # fmt: skip
"""What the package holds; the template of each is the file of its name in ``cli/templates``."""

Listed = StrEnum(
    "Listed",
    "encoders backbones methods poolings losses tasks suites augmentations corpora metrics renderers executors tables",
)
"""What can be listed."""


@plugin_app.callback()
def _root() -> None:
    pass


_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the plugin: letters, digits, hyphens.")]
_Output = Annotated[Path, typer.Option(
    "--output", "-o", metavar="DIR", help="Folder in which the package's own folder is made.")]  # fmt: skip


@plugin_app.command()
def new(name: _Name, output: _Output = Path()) -> None:
    """Write a package with an encoder, a task from a card, a task from code and an augmentation, and its test.

    `mirrorbench plugin new my-lab && pip install -e mirrorbench-my-lab && pytest mirrorbench-my-lab`
    """
    folder = _write(name.removeprefix("mirrorbench-"), output)
    typer.echo(f"{folder}: a plugin with an encoder, two tasks and an augmentation.")
    typer.echo(f"Install it:   pip install -e {folder}")
    typer.echo(f"Test it:      pytest {folder}")
    typer.echo(f"Run it:       mirrorbench run --encoder {name}-letters --tasks {name}-pets,{name}-code")


def _write(name: str, parent: Path) -> Path:
    """Write the package ``mirrorbench-<name>`` into a new folder of that name."""
    from importlib.resources import files
    from string import Template

    from mirrorbench.core.files import writing

    if not _NAME.fullmatch(name):
        hint = "Lower-case letters, digits and single hyphens, e.g. my-lab."
        raise UsageError(f"{name!r} is no name for a plugin", hint)
    folder = parent / f"mirrorbench-{name}"
    if folder.exists():
        raise UsageError(f"{folder} is there already", "Choose another name, or another --output.")
    values = {"name": name, "key": name.replace("-", "_"), "module": f"mirrorbench_{name.replace('-', '_')}"}
    for target in _FILES:
        template = files("mirrorbench.cli") / "templates" / f"{Path(target).name}.tmpl"
        with writing(folder / Template(target).substitute(values)) as sink:
            sink.write(Template(template.read_text(encoding="utf-8")).substitute(values).encode("utf-8"))
    return folder


def list_registered(kind: Listed, as_json: Json = False, plugin: PluginFiles = None) -> None:
    """What is registered, and by which plugin."""
    from mirrorbench.runs.builtin import plugins

    _print(_rows(kind, plugins()), as_json)
    if kind is Listed.encoders and not as_json:
        typer.echo(
            "\nEvery backbone is an encoder too, alone or with a method: a short name (mirrorbench list backbones), "
            "OWNER/NAME\nof the hub, or ./DIRECTORY; roberta+mirror (mirrorbench list methods).",
            err=True,
        )


def list_plugins(as_json: Json = False, plugin: PluginFiles = None) -> None:
    """Installed plugins, where they come from, and their hooks."""
    from mirrorbench.runs.builtin import plugins

    _print(plugins().listing(), as_json)


def _rows(kind: Listed, registered: Plugins) -> list[dict[str, Any]]:
    if kind is Listed.suites:
        from mirrorbench.data.cardfile import builtin_suites

        return [{"name": name, "tasks": list(tasks)} for name, tasks in builtin_suites().items()]
    if kind is Listed.tables:
        from mirrorbench.reports.papers.tables import paper_tables

        return [{"name": name, "title": t.title, "where": t.where} for name, t in paper_tables(registered).items()]
    if kind is Listed.backbones:
        from mirrorbench.models.backbones import BACKBONES, is_here

        return [
            {
                "name": b.name, "label": b.label, "hub id": b.hub_id, "family": b.family, "language": b.language,
                "size": f"{b.millions:g}M" if b.millions else "", "licence": b.licence + (", gated" if b.gated else ""),
                "cached": "yes" if is_here(b) else "no",
            }
            for b in BACKBONES.values()
        ]  # fmt: skip
    rows = []
    for entry in getattr(registered, kind.value):
        row: dict[str, Any] = {"name": entry.name}
        if kind is Listed.tasks:
            task = entry.value
            row |= {"level": task.level, "languages": list(task.languages), "metric": task.main_metric}
        rows.append(row | {"description": entry.description, "plugin": entry.origin})
    return rows


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        cells = [[", ".join(v) if isinstance(v, list) else str(v) for v in row.values()] for row in rows]
        print_rows(list(rows[0]), cells)
    else:
        typer.echo("None.")
