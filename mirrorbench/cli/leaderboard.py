"""``mirrorbench leaderboard``: render stored results as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirrorbench.cli import display
from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    Format,
    Notes,
    OfProtocol,
    Output,
    PluginFiles,
    chosen_format,
    encoders_option,
    tasks_option,
)

_Results = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Folders of results, or a table written by --format json.", show_default="results"
    ),
]
_Tasks = Annotated[list[str] | None, tasks_option("Columns: tasks and suites.", "all")]
_Encoders = Annotated[
    list[str] | None,
    encoders_option(
        "Rows, by label or spec; a spec selects all rows that match it (bert: every row of BERT).",
        "all",
    ),
]
_TableName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Take rows and columns from a table of the papers (mirrorbench paper lists them).",
        autocompletion=complete("tables"),
    ),
]
_Metric = Annotated[
    str, typer.Option(help="Show this metric.", show_default="each task's main metric")
]
_Intervals = Annotated[
    bool, typer.Option("--intervals", help="Add confidence intervals over test items.")
]
_Ties = Annotated[
    bool,
    typer.Option(
        "--ties", help="Mark (†) scores that are not separable from the best of their column."
    ),
]
_WithoutOverlap = Annotated[
    bool,
    typer.Option(
        "--without-overlap",
        help="Score without the test items whose texts occur in a tuning corpus.",
    ),
]
_AllowMixed = Annotated[
    bool,
    typer.Option(
        "--allow-mixed", help="Allow results of different data, models or protocols in one table."
    ),
]
_Sort = Annotated[
    str,
    typer.Option(
        metavar="COLUMN",
        help="Sort rows by their score in this column, best first: a task, or avg.",
        show_default="by backbone, as in a run",
    ),
]
_Title = Annotated[str, typer.Option(help="The table's title or caption.")]


def leaderboard(
    results: _Results = None,
    tasks: _Tasks = None,
    encoder: _Encoders = None,
    table: _TableName = "",
    metric: _Metric = "",
    protocol: OfProtocol = "",
    intervals: _Intervals = False,
    ties: _Ties = False,
    without_overlap: _WithoutOverlap = False,
    allow_mixed: _AllowMixed = False,
    format_: Format = "",
    notes: Notes = "",
    output: Output = None,
    sort: _Sort = "",
    title: _Title = "",
    plugin: PluginFiles = None,
) -> None:
    """Render stored results as a table.

    `mirrorbench leaderboard results --format latex:columns=2,percent=true,label=tab:sts --output table.tex`

    `mirrorbench leaderboard results more-results -t sts,simlex -e bert --ties --output leaderboard.html`
    """
    from mirrorbench.session import Session

    session = Session()
    renderers = session.plugins.renderers
    chosen, options = chosen_format(format_, output, renderers)
    # Look the format up, so that an unknown one is an error before anything is read.
    renderers[chosen or "markdown"]
    board = session.leaderboard(
        results or (),
        tasks or (),
        encoders=encoder or (),
        table=table,
        metric=metric,
        protocol=protocol,
        intervals=intervals,
        ties=ties,
        without_overlap=without_overlap,
        allow_mixed=allow_mixed,
        sort=sort,
        title=title,
    )
    # Without a format the table is printed: drawn on a terminal, else as Markdown.
    if not chosen:
        display.print_table(board.table, notes)
        return
    # The default of --notes: all in a file and in JSON, else short.
    if not notes:
        notes = "all" if output or chosen == "json" else "short"
    display.print_or_write(board.render(chosen, notes, **options), output)
