"""``mirrorbench list``: show what is registered, and by which plugin."""

from __future__ import annotations

from collections.abc import Iterable
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

Kind = StrEnum(
    "Kind",
    "encoders backbones methods poolings losses tasks task_kinds parsers suites augmentations corpora metrics "
    "renderers executors grids readers analyses tables plugins",
)
"""The kinds of names that the command lists."""


_KindName = Annotated[
    Kind,
    typer.Argument(
        metavar="KIND",
        help=f"{', '.join(Kind)}. The kind encoders has all names for --encoder.",
        show_choices=False,
    ),
]
_Suite = Annotated[
    str,
    typer.Option("--suite", help="Only tasks of this suite.", autocompletion=complete("suites")),
]
_Level = Annotated[
    str,
    typer.Option(
        "--level",
        help="Only tasks of this level: word, phrase, sentence or wic.",
        autocompletion=complete("levels"),
    ),
]
_Language = Annotated[
    str,
    typer.Option(
        "--language", metavar="CODE", help="Only tasks in this language, alone or with another."
    ),
]
_Here = Annotated[
    bool,
    typer.Option(
        "--here", help="Only tasks whose data are present, in --data-dir or inside the package."
    ),
]


def list_registered(
    kind: _KindName,
    suite: _Suite = "",
    level: _Level = "",
    language: _Language = "",
    here: _Here = False,
    data_dir: DataDir = None,
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """Show what is registered, and by which plugin.

    `mirrorbench list encoders`

    `mirrorbench list tasks --level wic --language de`
    """
    from mirrorbench.runs.registry import plugins

    if kind is not Kind.tasks and (suite or level or language or here):
        raise UsageError(
            "--suite, --level, --language and --here choose tasks", "mirrorbench list tasks"
        )
    if kind is Kind.tasks:
        rows = _tasks(plugins(), data_dir, suite, level, language, here)
    else:
        rows = _rows(kind, plugins())
    _print(rows, as_json)
    if kind is Kind.encoders and not as_json:
        say(err=True)
        print_wrapped(
            "",
            "A backbone is named alone (it gives several rows) or with a method: roberta+mirror. A hub id (OWNER/NAME) "
            "and a ./DIRECTORY are backbones too.",
            err=True,
        )


def _tasks(
    registered: Plugins, data_dir: Path | None, suite: str, level: str, language: str, here: bool
) -> list[dict[str, Any]]:
    """Return a row for each task that matches all options that are not empty.

    Raises:
        UnknownNameError: a suite or level that does not exist, or a language of no task.
    """
    from mirrorbench.data.card_files import builtin_suites
    from mirrorbench.data.store import DataStore

    suites = builtin_suites()
    store = DataStore(data_dir)
    tasks = sorted(registered.tasks, key=lambda entry: entry.name)
    languages = {code for entry in tasks for code in entry.value.languages}
    _check_name("suite", suite, suites)
    _check_name("level", level, LEVELS)
    _check_name("language", language, languages)

    rows = []
    for entry in tasks:
        task = entry.value
        card = getattr(task, "card", None)  # a task from code may have none
        suites_of_task = [name for name, members in suites.items() if entry.name in members]
        if suite and suite not in suites_of_task:
            continue
        if level and level != task.level:
            continue
        if language and language not in task.languages:
            continue
        # The data of a task without a card are in its code, and so always here.
        if here and card is not None and set(store.status(card).values()) != {"present"}:
            continue
        rows.append(
            {
                "name": entry.name,
                "level": task.level,
                "languages": list(task.languages),
                "metric": task.main_metric,
                "suites": suites_of_task,
                "description": card.title if card else entry.description,
                "plugin": entry.origin,
            }
        )
    return rows


def _check_name(kind: str, name: str, names: Iterable[str]) -> None:
    """Raise ``UnknownNameError`` for a name that is not among ``names``; an empty name is an option not given."""
    from mirrorbench.core.errors import unknown_name

    if name and name not in names:
        raise unknown_name(kind, name, sorted(names))


def _rows(kind: Kind, registered: Plugins) -> list[dict[str, Any]]:
    """Return the rows of any kind except tasks."""
    match kind:
        case Kind.plugins:
            return registered.listing()
        case Kind.suites:
            return _suites()
        case Kind.tables:
            return _tables(registered)
        case Kind.backbones:
            return _backbones()
        case Kind.encoders:
            return _encoders(registered)
    return [
        {"name": entry.name, "description": entry.description, "plugin": entry.origin}
        for entry in getattr(registered, kind.value)
    ]


def _suites() -> list[dict[str, Any]]:
    from mirrorbench.data.card_files import cards_folder, read_suites

    suites = read_suites(cards_folder() / "suites.yaml")
    return [
        {"name": name, "measures": suite.measures, "tasks": list(suite.tasks)}
        for name, suite in suites.items()
    ]


def _tables(registered: Plugins) -> list[dict[str, Any]]:
    from mirrorbench.reports.selection import layouts

    return [
        {"name": name, "title": layout.title, "where": layout.where}
        for name, layout in layouts(registered).items()
    ]


def _backbones() -> list[dict[str, Any]]:
    """Return a row for each backbone with a short name; ``cached`` says whether it can be loaded offline."""
    from mirrorbench.models.backbones import BACKBONES, is_available_offline

    rows = []
    for backbone in BACKBONES.values():
        licence = backbone.licence
        if backbone.gated:
            licence += ", gated"
        rows.append(
            {
                "name": backbone.name,
                "label": backbone.label,
                "hub id": backbone.hub_id,
                "family": backbone.family,
                "language": backbone.language,
                "size": f"{backbone.millions:g}M" if backbone.millions else "",
                "licence": licence,
                "cached": "yes" if is_available_offline(backbone) else "no",
            }
        )
    return rows


def _encoders(registered: Plugins) -> list[dict[str, Any]]:
    """Return rows of encoder systems, then of backbones, then of the methods that a backbone takes."""
    from mirrorbench.models.backbones import BACKBONES

    rows = []
    for entry in registered.encoders:
        rows.append(_encoder_row(entry.name, "system", entry.description, entry.origin))
    for backbone in BACKBONES.values():
        # A registered encoder takes precedence over a backbone of the same name.
        if backbone.name not in registered.encoders:
            origin = "mirrorbench.models.backbones"
            rows.append(_encoder_row(backbone.name, "backbone", backbone.label, origin))
    for entry in registered.methods:
        rows.append(_encoder_row(f"+{entry.name}", "method", entry.description, entry.origin))
    return rows


def _encoder_row(name: str, kind: str, description: str, plugin: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "description": description, "plugin": plugin}


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        cells = [[_cell_text(value) for value in row.values()] for row in rows]
        print_rows(list(rows[0]), cells)
    else:
        say("None.")


def _cell_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return str(value)
