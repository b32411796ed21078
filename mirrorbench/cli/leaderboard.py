"""``mirrorbench leaderboard``: render stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirrorbench.cli.options import PluginFiles, split_names


def leaderboard(
    results: Annotated[list[Path] | None, typer.Argument(help="Folders of results.", show_default="results")] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--tasks", "-t", metavar="NAME,...", help="Columns.", show_default="all"),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="markdown, latex, csv, json, or a plugin's.",
            show_default="drawn, or Markdown into a pipe",
        ),
    ] = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    title: Annotated[str, typer.Option(help="The table's title or caption.")] = "",
    plugin: PluginFiles = None,
) -> None:
    """Render stored results as a table.

    `mirrorbench leaderboard results --format latex --output table.tex`
    """
    from mirrorbench.atomic import writing
    from mirrorbench.cli.display import print_table
    from mirrorbench.errors import UsageError
    from mirrorbench.leaderboard.table import build_table
    from mirrorbench.plan import expand_tasks
    from mirrorbench.plugins import plugins
    from mirrorbench.store import read_results

    registered = plugins()
    folders = results or [Path("results")]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder of results {folder}", "Make some: mirrorbench run")
    found = [result for folder in folders for result in read_results(folder)]
    names = expand_tasks(split_names(tasks), registered) if tasks else ()
    found = [result for result in found if not names or result.task in names]
    if not found:
        raise UsageError(f"no results in {', '.join(map(str, folders))}", "Make some: mirrorbench run")
    table = build_table(found, registered, names, title=title)
    if not format_ and output is None:
        print_table(table)
        return
    text = registered.renderers[format_ or "markdown"](table)
    if output is None:
        typer.echo(text, nl=False)
    else:
        with writing(output) as sink:
            sink.write(text.encode())
