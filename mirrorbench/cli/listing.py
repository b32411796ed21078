"""``mirrorbench list``: show what is registered, and by which plugin; encoders: all names for --encoder."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    DataDir,
    Json,
    PluginFiles,
    print_json,
    print_rows,
    print_wrapped,
    say,
)
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import LEVELS

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

Listed = StrEnum(
    "Listed",
    "encoders backbones methods poolings losses tasks task_kinds parsers suites augmentations corpora metrics "
    "renderers executors grids readers analyses tables plugins",
)
"""The lists that the command prints."""


_Listed = Annotated[
    Listed, typer.Argument(metavar="KIND", help=", ".join(Listed) + ".", show_choices=False)
]
_Suite = Annotated[
    str, typer.Option("--suite", help="Tasks of this suite.", autocompletion=complete("suites"))
]
_Level = Annotated[
    str,
    typer.Option(
        "--level",
        help="Tasks of this level: word, phrase, sentence or wic.",
        autocompletion=complete("levels"),
    ),
]
_Language = Annotated[
    str,
    typer.Option(
        "--language", metavar="CODE", help="Tasks in this language, alone or with another."
    ),
]
_Here = Annotated[bool, typer.Option("--here", help="Tasks whose data are here, in --data-dir.")]


def list_registered(
    listed: _Listed,
    suite: _Suite = "",
    level: _Level = "",
    language: _Language = "",
    here: _Here = False,
    data_dir: DataDir = None,
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """Show what is registered, and by which plugin; encoders: all names for --encoder.

    `mirrorbench list tasks --level wic --language de`
    """
    from mirrorbench.runs.registry import plugins

    if listed is not Listed.tasks and (suite or level or language or here):
        raise UsageError(
            "--suite, --level, --language and --here choose tasks", "mirrorbench list tasks"
        )
    rows = (
        _tasks(plugins(), data_dir, suite, level, language, here)
        if listed is Listed.tasks
        else _rows(listed, plugins())
    )
    _print(rows, as_json)
    if listed is Listed.encoders and not as_json:
        say(err=True)
        print_wrapped(
            "",
            "A backbone stands alone (a ladder of rows) or with a method: roberta+mirror. OWNER/NAME of the hub and "
            "./DIRECTORY are backbones too.",
            err=True,
        )


def _tasks(
    registered: Plugins, data_dir: Path | None, suite: str, level: str, language: str, here: bool
) -> list[dict[str, Any]]:
    from mirrorbench.core.errors import unknown_name
    from mirrorbench.data.card_files import builtin_suites
    from mirrorbench.data.store import DataStore

    suites, store, rows = builtin_suites(), DataStore(data_dir), []
    wanted = {"suites": suite, "level": level, "languages": language}
    seen: dict[str, set[str]] = {"suites": set(suites), "level": set(LEVELS), "languages": set()}
    for entry in sorted(registered.tasks, key=lambda entry: entry.name):
        task, card = entry.value, getattr(entry.value, "card", None)
        row = {
            "name": entry.name,
            "level": [task.level],
            "languages": list(task.languages),
            "metric": task.main_metric,
            "suites": [name for name, members in suites.items() if entry.name in members],
            "description": card.title if card else entry.description,
            "plugin": entry.origin,
        }
        seen["languages"].update(task.languages)
        is_here = not here or card is None or set(store.status(card).values()) == {"present"}
        if is_here and all(not name or name in row[key] for key, name in wanted.items()):
            rows.append(row | {"level": task.level})
    for key, name in wanted.items():
        if name and name not in seen[key]:
            raise unknown_name(key.removesuffix("s"), name, sorted(seen[key]))
    return rows


def _rows(listed: Listed, registered: Plugins) -> list[dict[str, Any]]:
    if listed is Listed.plugins:
        return registered.listing()
    if listed is Listed.suites:
        from mirrorbench.data.card_files import cards_folder, read_suites

        suites = read_suites(cards_folder() / "suites.yaml")
        return [
            {"name": name, "measures": s.measures, "tasks": list(s.tasks)}
            for name, s in suites.items()
        ]
    if listed is Listed.tables:
        from mirrorbench.reports.selection import layouts

        return [
            {"name": name, "title": t.title, "where": t.where}
            for name, t in layouts(registered).items()
        ]
    if listed is Listed.backbones:
        from mirrorbench.models.backbones import BACKBONES, is_here

        return [
            {
                "name": b.name,
                "label": b.label,
                "hub id": b.hub_id,
                "family": b.family,
                "language": b.language,
                "size": f"{b.millions:g}M" if b.millions else "",
                "licence": b.licence + (", gated" if b.gated else ""),
                "cached": "yes" if is_here(b) else "no",
            }
            for b in BACKBONES.values()
        ]
    if listed is Listed.encoders:
        from mirrorbench.models.backbones import BACKBONES

        backbones = [b for b in BACKBONES.values() if b.name not in registered.encoders]
        known = [
            *(("system", e.name, e.description, e.origin) for e in registered.encoders),
            *(("backbone", b.name, b.label, "mirrorbench.models.backbones") for b in backbones),
            *(("method", f"+{e.name}", e.description, e.origin) for e in registered.methods),
        ]
        return [
            {"name": name, "type": type_, "description": d, "plugin": origin}
            for type_, name, d, origin in known
        ]
    return [
        {"name": entry.name, "description": entry.description, "plugin": entry.origin}
        for entry in getattr(registered, listed.value)
    ]


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        cells = [
            [", ".join(v) if isinstance(v, list) else str(v) for v in row.values()] for row in rows
        ]
        print_rows(list(rows[0]), cells)
    else:
        say("None.")
