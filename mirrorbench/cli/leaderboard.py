"""``mirrorbench leaderboard``: render stored results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.options import PluginFiles, Standalone, encoders_option, split_names, tasks_option

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.selection import Choice, Selection
    from mirrorbench.reports.table import Table


Results = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders of results, or a table as --format json wrote it.", show_default="results"),
]
Tasks = Annotated[list[str] | None, tasks_option("Columns: tasks and suites.", "all")]
Encoders = Annotated[
    list[str] | None,
    encoders_option("Rows; what a spec leaves open may be anything (bert: every row of BERT). May be repeated.", "all"),
]
TableName = Annotated[
    str, typer.Option(metavar="NAME", help="Rows and columns of a table of the papers (mirrorbench paper lists them).")
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="markdown, latex, html, csv, json, or a plugin's.",
        show_default="by the output's name; drawn; or Markdown into a pipe",
    ),
]


def leaderboard(
    results: Results = None,
    tasks: Tasks = None,
    encoder: Encoders = None,
    table: TableName = "",
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
    format_: Format = "",
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
    from mirrorbench.core.specs import parse_spec
    from mirrorbench.reports.selection import Choice
    from mirrorbench.runs.builtin import plugins
    from mirrorbench.runs.plan import expand_tasks

    registered = plugins()
    wanted = {"siunitx": siunitx, "standalone": standalone}
    options = {name: True for name, given in wanted.items() if given}
    chosen = format_ or _format_of(output) or ("latex" if options else "")
    renderer = _renderer(chosen or "markdown", options, registered)
    choice = Choice(
        expand_tasks(split_names(tasks or []), registered),
        tuple(parse_spec(text) for text in encoder or []),
        protocol=protocol,
        metrics={"": metric} if metric else {},
        allow_mixed=allow_mixed,
    )
    if table:
        choice = _laid_out(choice, table)
    statistics = Statistics(intervals, ties, without_overlap)
    built = _table(results or [Path("results")], choice, statistics, registered)
    built = replace(built, title=title or built.title)
    if chosen:
        _write(renderer(built, **options), output)
    else:
        print_table(built)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
        return
    from mirrorbench.core.files import writing

    with writing(output) as sink:
        sink.write(text.encode())


@dataclass(frozen=True)
class Statistics:
    """What is computed from per-item predictions."""

    intervals: bool
    ties: bool
    without_overlap: bool


def _table(sources: Sequence[Path], choice: Choice, statistics: Statistics, registered: Plugins) -> Table:
    """The table in a file, or of the results in folders."""
    from mirrorbench.core.errors import UsageError
    from mirrorbench.reports.selection import EVERYTHING, select
    from mirrorbench.reports.table import read_table

    files = [path for path in sources if path.is_file()]
    if not files:
        return _computed(select(sources, registered, choice), choice, statistics, registered)
    if len(sources) > 1:
        raise UsageError(f"{files[0]} is a table, and stands for itself", "Name it alone, or folders of results.")
    if choice != EVERYTHING or any(astuple(statistics)):
        raise UsageError(f"{files[0]} is a finished table", "Selections and statistics need folders of results.")
    return read_table(files[0])


def _computed(selection: Selection, choice: Choice, statistics: Statistics, registered: Plugins) -> Table:
    from mirrorbench.reports.build import build_table

    results, notes = list(selection.results), list(selection.notes)
    items = selection.items(registered) if any(astuple(statistics)) else {}
    if statistics.without_overlap:
        from mirrorbench.reports.statistics import contaminated

        results, items, lines = contaminated.without_overlap(results, items, registered)
        notes += lines
    table = build_table(results, registered, choice.tasks, selection.rows)
    if statistics.intervals or statistics.ties:
        from mirrorbench.reports.marking import Marker

        table = Marker(table, items, registered).mark(statistics.intervals, statistics.ties)
    return replace(table, notes=(*table.notes, *notes))


_ENDINGS = {".md": "markdown", ".tex": "latex", ".html": "html", ".htm": "html", ".csv": "csv", ".json": "json"}


def _format_of(output: Path | None) -> str:
    """What a file's name says; Markdown where it says nothing."""
    return _ENDINGS.get(output.suffix.lower(), "markdown") if output else ""


def _renderer(name: str, options: Iterable[str], registered: Plugins) -> Callable[..., str]:
    """The renderer of a format, once it is known to take the options."""
    from mirrorbench.core.errors import UsageError

    renderer: Callable[..., str] = registered.renderers[name]
    for option in options:
        if option not in signature(renderer).parameters:
            having = [e.name for e in registered.renderers if option in signature(e.value).parameters]
            raise UsageError(f"the format {name} has no --{option}", f"It belongs to: {', '.join(having)}")
    return renderer


def _laid_out(choice: Choice, name: str) -> Choice:
    """The choice with the tasks, encoders and metrics of a table of the papers, where it leaves them open."""
    from mirrorbench.core.errors import UsageError
    from mirrorbench.reports.papers.reading import find_table
    from mirrorbench.reports.papers.tables import PaperTable
    from mirrorbench.runs.plan import papers_row

    found = find_table(name)
    targets = list(found.targets().values()) if isinstance(found, PaperTable) else []
    if not targets:
        raise UsageError(f"{name} has no scores that a run could measure", "mirrorbench paper lists the tables.")
    metrics = {task: target.metric for target in targets for task in target.tasks}
    rows = tuple(dict.fromkeys(papers_row(target.spec, choice.protocol) for target in targets))
    return replace(choice, tasks=choice.tasks or tuple(metrics), rows=rows, metrics=choice.metrics or metrics)
