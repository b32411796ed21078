"""``mirrorbench list`` and ``mirrorbench plugins``: what is registered, and by whom."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from mirrorbench.cli.options import Json, PluginFiles
from mirrorbench.cli.output import print_json, print_rows

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


Listed = StrEnum(
    "Listed", "encoders backbones methods tasks suites augmentations corpora metrics renderers executors tables"
)
"""What can be listed."""


def list_registered(kind: Listed, as_json: Json = False, plugin: PluginFiles = None) -> None:
    """What is registered, and by which plugin."""
    from mirrorbench.runs.builtin import plugins

    _print(_rows(kind, plugins()), as_json)


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

        return [{"name": name, "title": t.title, "where": t.where} for name, t in paper_tables().items()]
    if kind is Listed.backbones:
        from mirrorbench.models.backbones import BACKBONES

        return [{"name": b.name, "label": b.label, "hub id": b.hub_id} for b in BACKBONES.values()]
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
