"""``mirrorbench leaderboard``: render stored results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.options import PluginFiles, Standalone, encoders_option, tasks_option
from mirrorbench.cli.output import print_or_write

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

_Results = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders of results, or a table as --format json wrote it.", show_default="results"),
]
_Tasks = Annotated[list[str] | None, tasks_option("Columns: tasks and suites.", "all")]
_Encoders = Annotated[
    list[str] | None,
    encoders_option("Rows; what a spec leaves open may be anything (bert: every row of BERT). May be repeated.", "all"),
]
_TableName = Annotated[
    str, typer.Option(metavar="NAME", help="Rows and columns of a table of the papers (mirrorbench paper lists them).")
]
_Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="markdown, latex, html, csv, json, or a plugin's.",
        show_default="by the output's name; drawn; or Markdown into a pipe",
    ),
]


def leaderboard(
    results: _Results = None,
    tasks: _Tasks = None,
    encoder: _Encoders = None,
    table: _TableName = "",
    metric: Annotated[str, typer.Option(help="Show this metric.", show_default="each task's main one")] = "",
    protocol: Annotated[str, typer.Option(help="Only results under this protocol.", show_default="any")] = "",
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add confidence intervals over test items (not in latex).")
    ] = False,
    ties: Annotated[bool, typer.Option("--ties", help="Mark (†) what is not separable from a column's best.")] = False,
    without_overlap: Annotated[
        bool, typer.Option("--without-overlap", help="Score without the test items whose texts were tuned on.")
    ] = False,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Also results of other data, models or protocols in one table.")
    ] = False,
    format_: _Format = "",
    siunitx: Annotated[bool, typer.Option("--siunitx", help="latex: align numbers by siunitx's S columns.")] = False,
    standalone: Standalone = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    title: Annotated[str, typer.Option(help="The table's title or caption.")] = "",
    plugin: PluginFiles = None,
) -> None:
    """Render stored results as a table.

    `mirrorbench leaderboard results --format latex --siunitx --output table.tex`

    `mirrorbench leaderboard results more-results -t sts,simlex -e bert --ties --output leaderboard.html`
    """
    from mirrorbench.cli.display import print_table
    from mirrorbench.session import Session

    session = Session()
    options = {name: True for name, given in (("siunitx", siunitx), ("standalone", standalone)) if given}
    ending = _ENDINGS.get(output.suffix.lower(), "markdown") if output else ""
    chosen = format_ or ending or ("latex" if options else "")
    renderer = _renderer(chosen or "markdown", options, session.workspace.plugins)
    board = session.leaderboard(
        results or (), tasks or (), encoders=encoder or (), table=table, metric=metric, protocol=protocol,
        intervals=intervals, ties=ties, without_overlap=without_overlap, allow_mixed=allow_mixed, title=title,
    )  # fmt: skip
    if chosen:
        print_or_write(renderer(board.table, **options), output)
    else:
        print_table(board.table)


_ENDINGS = {".md": "markdown", ".tex": "latex", ".html": "html", ".htm": "html", ".csv": "csv", ".json": "json"}
"""What the name of an output says of its format; Markdown for any other."""


def _renderer(name: str, options: Iterable[str], plugins: Plugins) -> Callable[..., str]:
    """The renderer of a format, once it is known to take the options."""
    from inspect import signature

    from mirrorbench.core.errors import UsageError

    renderer: Callable[..., str] = plugins.renderers[name]
    for option in options:
        if option not in signature(renderer).parameters:
            having = [e.name for e in plugins.renderers if option in signature(e.value).parameters]
            raise UsageError(f"the format {name} has no --{option}", f"It belongs to: {', '.join(having)}")
    return renderer
