"""``mirrorbench paper``: show the papers' tables with published and measured numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    DataDir,
    Device,
    EvalPrecision,
    Format,
    Notes,
    Offline,
    Output,
    PluginFiles,
    Precision,
    Protocol,
    Quiet,
    chosen_format,
    console,
    on_interrupt_go_on,
    print_or_write,
    print_rows,
    print_table,
)
from mirrorbench.core.errors import UsageError

if TYPE_CHECKING:
    from mirrorbench.papers.measured_tables import MeasuredTable
    from mirrorbench.papers.table_files import FactTable

_TableName = Annotated[
    str,
    typer.Argument(
        help="A table (mirror-bert/table3) or a paper (mirrorwic).",
        show_default="list all",
        autocompletion=complete("tables"),
    ),
]
_Results = Annotated[
    Path, typer.Option("--results", "-r", help="Folder of results; --run stores new ones there.")
]
_Run = Annotated[
    bool, typer.Option("--run", help="Measure missing cells first, with the options below.")
]
_Backbone = Annotated[
    str,
    typer.Option(
        "--encoder",
        "-e",
        metavar="BACKBONE",
        help="Backbone in every row.",
        show_default="the paper's",
        autocompletion=complete("backbones"),
    ),
]
_Seeds = Annotated[
    int, typer.Option(min=1, help="With --run: number of seeds of each tuned encoder.")
]


def paper(
    table: _TableName = "",
    results: _Results = Path("results"),
    run: _Run = False,
    encoder: _Backbone = "",
    seeds: _Seeds = 1,
    protocol: Protocol = "paper",
    precision: Precision = "auto",
    eval_precision: EvalPrecision = "auto",
    device: Device = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    format_: Format = "",
    notes: Notes = "",
    quiet: Quiet = False,
    output: Output = None,
    plugin: PluginFiles = None,
) -> None:
    """Show a table or figure of the papers: published and measured numbers, and their difference; without one, list all.

    `mirrorbench paper mirror-bert/table3 --output table3.html`

    `mirrorbench paper mirror-bert/table7 --run --encoder tiny`
    """
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.papers.rendering import as_table, check_paper_format, render_paper
    from mirrorbench.runs.registry import plugins
    from mirrorbench.session import Session

    settings: dict[str, Any] = {
        "data_dir": data_dir,
        "device": device,
        "precision": precision,
        "eval_precision": eval_precision,
        "offline": offline,
    }
    # Without a table, or with the name of a paper: list tables.
    if not table or table in plugins().papers:
        if run or format_ or output:
            raise UsageError(
                "--run, --format and --output need a table", "mirrorbench paper lists them."
            )
        _list(Session(results, **settings).papers(table, encoder=encoder, protocol=protocol))
        return
    format_, options = chosen_format(format_, output, plugins().renderers)
    # An unknown format is an error before anything is measured.
    if format_:
        check_paper_format(format_)
    failed = False
    if run:
        with on_interrupt_go_on(results), progress_display(quiet) as reporter:
            session = Session(results, reporter=reporter, **settings)
            outcome = session.run_paper(table, encoder=encoder, seeds=seeds, protocol=protocol)
        reporter.finish(outcome, results)
        failed = bool(outcome.failures)
    # Show the table, with the results that are stored by now.
    if quiet:
        notes = "none"
    content = Session(results, **settings).paper(table, encoder=encoder, protocol=protocol)
    if format_ or not console.is_terminal:
        if not notes:
            notes = "all" if output else "short"
        text = render_paper(content, format_ or "markdown", notes, **options)
        print_or_write(text, output)
    else:
        print_table(as_table(content), notes)
    raise typer.Exit(1 if failed else 0)


def _list(tables: Mapping[str, MeasuredTable | FactTable]) -> None:
    """Print every table with the number of its measured cells; a dash for a table without cells to measure."""
    from mirrorbench.papers.table_files import FactTable

    rows = []
    for name, content in tables.items():
        if isinstance(content, FactTable):
            rows.append([name, "-", content.title])
            continue
        n_measured, n_cells = content.counts
        measured = f"{n_measured} of {n_cells}" if n_cells else "-"
        rows.append([name, measured, content.table.title])
    print_rows(["table", "measured", "title"], rows)
