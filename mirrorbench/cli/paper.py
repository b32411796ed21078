"""``mirrorbench paper``: the papers' tables, published and measured side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.options import DEVICES, PRECISIONS, DataDir, Offline, PluginFiles, Protocol, Standalone

if TYPE_CHECKING:
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.reports.papers.measured import MeasuredTable
    from mirrorbench.reports.papers.rendering import Content
    from mirrorbench.reports.papers.tables import PaperTable
    from mirrorbench.runs.plan import Request
    from mirrorbench.runs.workspace import Workspace

DEFAULT_SEEDS = 1
"""As in ``mirrorbench run``; the papers average three (paper 1, footnote 6)."""


TableName = Annotated[
    str, typer.Argument(help="A table (mirror-bert/table3) or a paper (mirrorwic).", show_default="list all")
]
Backbone = Annotated[
    str,
    typer.Option("--encoder", "-e", metavar="BACKBONE", help="This backbone in every row.", show_default="the paper's"),
]
Format = Annotated[
    str,
    typer.Option("--format", "-f", help="markdown, latex, csv or json.", show_default="drawn, or Markdown into a pipe"),
]


def paper(
    table: TableName = "",
    results: Annotated[Path, typer.Option("--results", "-o", help="The folder of results.")] = Path("results"),
    run: Annotated[bool, typer.Option("--run", help="Measure the cells that are missing first.")] = False,
    encoder: Backbone = "",
    seeds: Annotated[int, typer.Option(min=1, help="With --run: runs of each tuned encoder.")] = DEFAULT_SEEDS,
    protocol: Protocol = "paper",
    format_: Format = "",
    standalone: Standalone = False,
    device: Annotated[str, typer.Option(help=f"With --run: {DEVICES}")] = "auto",
    precision: Annotated[str, typer.Option(help=f"With --run: {PRECISIONS}")] = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    plugin: PluginFiles = None,
) -> None:
    """The papers' tables and figures: published, measured, difference. Without arguments: which there are.

    `mirrorbench paper mirror-bert/table3`

    `mirrorbench paper mirror-bert/table7 --run --encoder tiny`
    """  # fmt: skip
    from mirrorbench.core.errors import UsageError
    from mirrorbench.core.registry import unknown_name
    from mirrorbench.core.specs import PROTOCOLS, parse_spec
    from mirrorbench.reports.papers.reading import PAPERS, find_table
    from mirrorbench.reports.papers.rendering import check_paper_format
    from mirrorbench.reports.papers.tables import FactTable

    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, list(PROTOCOLS))
    backbone = parse_spec(encoder) if encoder else None
    if not table or table in PAPERS:
        if run or format_ or standalone:
            raise UsageError("--run, --format and --standalone need a table", "mirrorbench paper lists them.")
        _list(table, results, protocol, backbone)
        return
    if standalone and format_ != "latex":
        raise UsageError("--standalone is for --format latex")
    if format_:
        check_paper_format(format_)  # before anything is measured
    found = find_table(table)
    if isinstance(found, FactTable):
        if run:
            raise UsageError(f"{table} describes models or hyper-parameters: there is nothing to run")
        _print(found, format_, standalone)
        return
    failed = False
    if run:
        from mirrorbench.reports.papers.measured import paper_requests
        from mirrorbench.runs.workspace import Workspace

        wanted = paper_requests(found, seeds, protocol, backbone)
        if not wanted:
            raise UsageError(f"{table} has no cell that a run could measure", f"mirrorbench paper {table} says why.")
        workspace = Workspace.create(data_dir, results, device=device, precision=precision, offline=offline)
        failed = _run(wanted, workspace)
    _print(_compared(found, results, protocol, backbone), format_, standalone)
    raise typer.Exit(1 if failed else 0)


def _compared(table: PaperTable, folder: Path, protocol: str, backbone: EncoderSpec | None) -> MeasuredTable:
    from mirrorbench.reports.papers.measured import measured_table
    from mirrorbench.runs.results import read_results

    return measured_table(table, read_results(folder) if folder.is_dir() else (), protocol, backbone)


def _list(paper_name: str, folder: Path, protocol: str, backbone: EncoderSpec | None) -> None:
    """Every table with the number of its cells that are measured in a folder."""
    from mirrorbench.cli.output import print_rows
    from mirrorbench.reports.papers.measured import measured_table
    from mirrorbench.reports.papers.reading import paper_tables
    from mirrorbench.reports.papers.tables import FactTable
    from mirrorbench.runs.results import read_results

    stored = list(read_results(folder)) if folder.is_dir() else []
    rows = []
    for name, table in paper_tables().items():
        if paper_name and not name.startswith(f"{paper_name}/"):
            continue
        measured = "-"
        if not isinstance(table, FactTable):
            done, total = measured_table(table, stored, protocol, backbone).counts
            measured = f"{done} of {total}" if total else "-"
        rows.append([name, measured, table.title])
    print_rows(["table", "measured", "title"], rows)


def _run(wanted: list[Request], workspace: Workspace) -> bool:
    """Plan and run; whether anything failed."""
    from mirrorbench.cli.display import reporter
    from mirrorbench.cli.output import on_interrupt_go_on

    folder = workspace.results.root
    with on_interrupt_go_on(folder):
        plan = workspace.plan(*wanted)
        with reporter(len(plan.cells)) as display:
            workspace.reporter = display
            outcome = workspace.execute(plan)
    display.finish(outcome, folder)
    return bool(outcome.failures)


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
