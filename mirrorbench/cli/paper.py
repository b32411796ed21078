"""``mirrorbench paper``: the papers' tables, published and measured side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.options import DEVICE_HELP, PRECISION_HELP, DataDir, Offline, PluginFiles, Protocol, Standalone

if TYPE_CHECKING:
    from mirrorbench.reports.papers.measured import MeasuredTable
    from mirrorbench.reports.papers.rendering import Content
    from mirrorbench.reports.papers.tables import FactTable

DEFAULT_SEEDS = 1
"""As in ``mirrorbench run``; the papers average three (paper 1, footnote 6)."""


_TableName = Annotated[
    str, typer.Argument(help="A table (mirror-bert/table3) or a paper (mirrorwic).", show_default="list all")
]
_Backbone = Annotated[
    str,
    typer.Option("--encoder", "-e", metavar="BACKBONE", help="This backbone in every row.", show_default="the paper's"),
]
_Format = Annotated[
    str,
    typer.Option("--format", "-f", help="markdown, latex, csv or json.", show_default="drawn, or Markdown into a pipe"),
]


def paper(
    table: _TableName = "",
    results: Annotated[Path, typer.Option("--results", "-o", help="The folder of results.")] = Path("results"),
    run: Annotated[bool, typer.Option("--run", help="Measure the cells that are missing first.")] = False,
    encoder: _Backbone = "",
    seeds: Annotated[int, typer.Option(min=1, help="With --run: runs of each tuned encoder.")] = DEFAULT_SEEDS,
    protocol: Protocol = "paper",
    format_: _Format = "",
    standalone: Standalone = False,
    device: Annotated[str, typer.Option(help=f"With --run: {DEVICE_HELP}")] = "auto",
    precision: Annotated[str, typer.Option(help=f"With --run: {PRECISION_HELP}")] = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    plugin: PluginFiles = None,
) -> None:
    """The papers' tables and figures: published, measured, difference. Without arguments: which there are.

    `mirrorbench paper mirror-bert/table3`

    `mirrorbench paper mirror-bert/table7 --run --encoder tiny`
    """  # fmt: skip
    from mirrorbench.cli.display import progress_display
    from mirrorbench.cli.output import on_interrupt_go_on
    from mirrorbench.core.errors import UsageError
    from mirrorbench.reports.papers.reading import PAPERS
    from mirrorbench.reports.papers.rendering import check_paper_format
    from mirrorbench.session import Session

    settings: dict[str, Any] = {"data_dir": data_dir, "device": device, "precision": precision, "offline": offline}
    if not table or table in PAPERS:
        if run or format_ or standalone:
            raise UsageError("--run, --format and --standalone need a table", "mirrorbench paper lists them.")
        _list(Session(results, **settings).papers(table, encoder=encoder, protocol=protocol))
        return
    if standalone and format_ != "latex":
        raise UsageError("--standalone is for --format latex")
    if format_:
        check_paper_format(format_)  # before anything is measured
    failed = False
    if run:
        with on_interrupt_go_on(results), progress_display() as display:
            session = Session(results, reporter=display, **settings)
            outcome = session.run_paper(table, encoder=encoder, seeds=seeds, protocol=protocol)
        display.finish(outcome, results)
        failed = bool(outcome.failures)
    _print(Session(results, **settings).paper(table, encoder=encoder, protocol=protocol), format_, standalone)
    raise typer.Exit(1 if failed else 0)


def _list(tables: Mapping[str, MeasuredTable | FactTable]) -> None:
    """Every table with the number of its cells that are measured."""
    from mirrorbench.cli.output import print_rows
    from mirrorbench.reports.papers.tables import FactTable

    rows = []
    for name, table in tables.items():
        if isinstance(table, FactTable):
            rows.append([name, "-", table.title])
        else:
            done, total = table.counts
            rows.append([name, f"{done} of {total}" if total else "-", table.table.title])
    print_rows(["table", "measured", "title"], rows)


def _print(content: Content, format_: str, standalone: bool) -> None:
    """In a format; without one drawn on a terminal, as Markdown where another program reads."""
    from mirrorbench.cli.display import console
    from mirrorbench.reports.papers.rendering import as_table, render_paper
    from mirrorbench.reports.renderers import draw

    if format_ or not console.is_terminal:
        options = {"standalone": True} if standalone else {}
        typer.echo(render_paper(content, format_ or "markdown", **options), nl=False)
    else:
        draw(as_table(content), console)
