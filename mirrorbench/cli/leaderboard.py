"""``mirrorbench leaderboard``: render stored results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.display import PluginFiles, Standalone, encoders_option, print_or_write, print_table, tasks_option
from mirrorbench.core.errors import UsageError

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

# fmt: off
_Results = Annotated[list[Path] | None, typer.Argument(
    help="Folders of results, or a table as --format json wrote it.", show_default="results")]
_Tasks = Annotated[list[str] | None, tasks_option("Columns: tasks and suites.", "all")]
_Encoders = Annotated[list[str] | None, encoders_option(
    "Rows; what a spec leaves open may be anything (bert: every row of BERT). May be repeated.", "all")]
_TableName = Annotated[str, typer.Option(
    metavar="NAME", help="Rows and columns of a table of the papers (mirrorbench paper lists them).")]
_Metric = Annotated[str, typer.Option(help="Show this metric.", show_default="each task's main one")]
_Protocol = Annotated[str, typer.Option(help="Only results under this protocol.", show_default="any")]
_Intervals = Annotated[bool, typer.Option(
    "--intervals", help="Add confidence intervals over test items (not in latex).")]
_Ties = Annotated[bool, typer.Option("--ties", help="Mark (†) what is not separable from a column's best.")]
_WithoutOverlap = Annotated[bool, typer.Option(
    "--without-overlap", help="Score without the test items whose texts were tuned on.")]
_AllowMixed = Annotated[bool, typer.Option(
    "--allow-mixed", help="Also results of other data, models or protocols in one table.")]
_Format = Annotated[str, typer.Option(
    "--format", "-f", help="markdown, latex, html, csv, json, or a plugin's.",
    show_default="by the output's name; drawn; or Markdown into a pipe")]
_Siunitx = Annotated[bool, typer.Option("--siunitx", help="latex: align numbers by siunitx's S columns.")]
_Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")]
_Title = Annotated[str, typer.Option(help="The table's title or caption.")]
# fmt: on


def leaderboard(
    results: _Results = None, tasks: _Tasks = None, encoder: _Encoders = None, table: _TableName = "",
    metric: _Metric = "", protocol: _Protocol = "", intervals: _Intervals = False, ties: _Ties = False,
    without_overlap: _WithoutOverlap = False, allow_mixed: _AllowMixed = False, format_: _Format = "",
    siunitx: _Siunitx = False, standalone: Standalone = False, output: _Output = None, title: _Title = "",
    plugin: PluginFiles = None,
) -> None:  # fmt: skip
    """Render stored results as a table.

    `mirrorbench leaderboard results --format latex --siunitx --output table.tex`

    `mirrorbench leaderboard results more-results -t sts,simlex -e bert --ties --output leaderboard.html`
    """
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
    """The renderer of a format; a ``UsageError`` if it does not take the options."""
    from inspect import signature

    renderer: Callable[..., str] = plugins.renderers[name]
    for option in options:
        having = [e.name for e in plugins.renderers if option in signature(e.value).parameters]
        if name not in having:
            raise UsageError(f"the format {name} has no --{option}", f"It belongs to: {', '.join(having)}")
    return renderer
