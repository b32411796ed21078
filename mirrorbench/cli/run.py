"""``mirrorbench run``: train, evaluate and print the leaderboard. Without arguments: the embedded model on the embedded data."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli import display
from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    DataDir,
    Device,
    EvalPrecision,
    Notes,
    Offline,
    PluginFiles,
    summary,
)
from mirrorbench.core.errors import MirrorbenchError, StorageError, UsageError
from mirrorbench.core.specs import split_names

if TYPE_CHECKING:
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.plan import Plan
    from mirrorbench.session import Session

EMBEDDED_SEEDS = 3
"""Runs of each tuned encoder on the data inside the package, where no encoder and no task is named."""

MARK = "Made by mirrorbench run, which replaces it."
"""Last line of the tables that ``run`` writes beside results.

A file without it is the user's own, or was edited, and stays: the table then gets another name.
"""


def _folder(name: str | Path) -> Path:
    """Return the folder of a name; Python takes an empty one for the working directory."""
    if not name:
        raise UsageError("--output is empty", "Name a folder for the results.")
    return Path(name)


_GridName = Annotated[
    str | None,
    typer.Argument(
        metavar="GRID.yaml",
        help="A grid file, or the name of one that comes with the package (mirror-bert-table12); "
        "options replace what it says, --encoder the backbones.",
        autocompletion=complete("grids"),
    ),
]
_Encoders = Annotated[
    list[str] | None,
    display.encoders_option(
        f"{display.ENCODER_HELP}, also with @REVISION; a bare backbone is several rows. May be repeated.",
        "tiny, the model inside the package",
    ),
]
_Tasks = Annotated[
    list[str] | None,
    display.tasks_option(
        "Tasks and suites. Some tasks take options: bli-en-fr:train=1k,self_learning=5.",
        "quick, the data inside the package",
    ),
]
_Seeds = Annotated[
    int | None,
    typer.Option(
        min=1, help="Runs of each tuned encoder.", show_default="1; 3 without --encoder and --tasks"
    ),
]
_CorpusName = Annotated[
    str,
    typer.Option(
        help="What to tune on: a corpus, a file as for tune (FILE#COLUMN), or hf:OWNER/NAME@COMMIT/SPLIT#COLUMN; several "
        "joined by +.",
        show_default="each task's own",
        autocompletion=complete("corpora"),
    ),
]
_Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        metavar="NAME,...",
        help="Column of the texts in the file of --corpus; two columns are pairs.",
    ),
]
_Protocol = Annotated[
    str,
    typer.Option(
        help=display.PROTOCOL_HELP, show_default="paper", autocompletion=complete("protocols")
    ),
]
_Baselines = Annotated[
    bool,
    typer.Option(
        "--baselines",
        help="Add rows of other methods without labels: transformed vectors, static ones, other tunings.",
    ),
]
_Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="A smoke run: only the first items of each task. The results are not valid task scores, "
        "and are stored in a separate folder.",
        show_default="all",
    ),
]
_Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", parser=_folder, help="Where results go.")
]
_Executor = Annotated[
    str,
    typer.Option(
        metavar="NAME[:KEY=VALUE,...]",
        help="Where to compute: local, or what a plugin adds (ray, slurm).",
        autocompletion=complete("executors"),
    ),
]
_Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Worker processes.",
        show_default="this process, or one for each GPU of --device cuda",
    ),
]
_Address = Annotated[
    str, typer.Option(help="Where the executor's cluster is.", show_default="a local one")
]
_Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic", help="On a GPU: only algorithms that repeat bit for bit; slower."
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the plan and what is done; compute nothing.")
]


def run(
    grid: _GridName = None,
    encoder: _Encoders = None,
    tasks: _Tasks = None,
    seeds: _Seeds = None,
    corpus: _CorpusName = "",
    column: _Columns = None,
    protocol: _Protocol = "",
    baselines: _Baselines = False,
    limit: _Limit = None,
    precision: display.Precision = "auto",
    eval_precision: EvalPrecision = "auto",
    deterministic: _Deterministic = False,
    dry_run: _DryRun = False,
    device: Device = "auto",
    executor: _Executor = "local",
    workers: _Workers = None,
    address: _Address = "",
    data_dir: DataDir = None,
    offline: Offline = False,
    output: _Output = Path("results"),
    notes: Notes = "",
    quiet: display.Quiet = False,
    plugin: PluginFiles = None,
) -> None:
    """Train, evaluate and print the leaderboard. Without arguments: the embedded model on the embedded data.

    `mirrorbench run --encoder roberta --tasks sts`

    `mirrorbench run -e ./my-model -e ./my-model+mirror:dropout=0.2 -t stsb,sickr --seeds 3`

    `mirrorbench run mirror-bert-table12 --encoder tiny --dry-run`
    """
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.session import Session
    from mirrorbench.storage.results import limited

    names = split_names(tasks or [])
    if tasks and not names:
        raise UsageError(
            "--tasks names no task", "mirrorbench list tasks; without --tasks: the embedded ones."
        )
    if column:
        if not corpus:
            raise UsageError("--column needs a file in --corpus", "Add --corpus FILE.")
        corpus = f"{corpus}#{','.join(split_names(column))}"
    if not (grid or encoder or names):
        seeds = seeds or EMBEDDED_SEEDS
    with display.on_interrupt_go_on(output), progress_display(quiet) as reporter:
        session = Session(
            output,
            data_dir=data_dir,
            device=device,
            precision=precision,
            eval_precision=eval_precision,
            offline=offline or dry_run,
            deterministic=deterministic,
            executor=executor,
            workers=workers,
            address=address,
            reporter=reporter,
        )
        reporter.stage("planning", "the run")
        planned = session.plan(
            encoder or (),
            names,
            seeds=seeds,
            corpus=corpus,
            protocol=protocol,
            grid=grid or "",
            baselines=baselines,
            fetch=not dry_run,
            limit=limit or 0,
        )
        if dry_run:
            _print_plan(planned, session, offline)
            return
        board = session.execute(planned)
    folder, tables = limited(output, limit or 0), []
    if board.results:
        display.print_table(board.table, "none" if quiet else notes)
        tables = _write_tables(_all_stored(session, board, folder), folder)
    reporter.finish(board, folder, tables)
    raise typer.Exit(1 if board.failures else 0)


def _write_tables(board: Leaderboard, folder: Path) -> list[str]:
    """Write a table beside its results, as Markdown and as LaTeX; return the names of the files."""
    names = []
    try:
        for suffix, format_, comment in (
            (".md", "markdown", f"<!-- {MARK} -->"),
            (".tex", "latex", f"% {MARK}"),
        ):
            file = _free(folder, suffix, comment)
            display.print_or_write(f"{board.render(format_)}\n{comment}\n", file)
            names.append(file.name)
    except (OSError, StorageError) as error:  # no reason to fail: the cells are stored
        display.say(f"leaderboard.md and leaderboard.tex were not updated: {error}", err=True)
    return names


def _free(folder: Path, suffix: str, comment: str) -> Path:
    """Return the first of ``leaderboard.md``, ``leaderboard-1.md`` ... that is new, or ends with ``run``'s comment."""
    files = (folder / f"leaderboard{f'-{number}' if number else ''}{suffix}" for number in count())
    ours = comment.encode()
    return next(
        f
        for f in files
        if not os.path.lexists(f) or (f.is_file() and f.read_bytes().rstrip().endswith(ours))
    )


def _all_stored(session: Session, board: Leaderboard, folder: Path) -> Leaderboard:
    """Return the table of all results in a folder, or that of the run if there are no others."""
    from mirrorbench.reports.selection import everything
    from mirrorbench.storage.results import read_results

    try:
        if {result.cell_id for result in read_results(folder)} <= {
            result.cell_id for result in board.results
        }:
            return board
        return everything(folder, session.plugins)
    except MirrorbenchError as error:  # in a file of another run
        display.say(
            f"leaderboard.md and leaderboard.tex hold only the results of this run: {error.message}",
            err=True,
        )
        return board


def _print_plan(plan: Plan, session: Session, offline: bool) -> None:
    left = 0
    for cells in plan.groups.values():
        model = cells[0].model
        tuning = f" seed {model.seed}: tune on {model.corpus.name}, then" if model.corpus else ":"
        display.say(f"{model.spec}{tuning} score")
        done = {
            cell for cell in cells if session.folders.results.find(cell)
        }  # not by id: two specs may mean the same
        left += len(cells) - len(done)
        for cell in cells:
            display.say(
                f"  {'done' if cell in done else 'to do':6} {cell.spec}  {cell.task}  [{cell.id[:12]}]"
            )
    for failure in plan.failures:
        if not failure.lacks:
            display.say(f"  cannot {failure.spec}  {failure.task}: {failure.reason}")
            if failure.hint:
                display.say(f"         {failure.hint}")
    total = len(plan.cells)
    display.say(
        f"{total} cell{'' if total == 1 else 's'}: {total - left} done, {left} to do, {len(plan.failures)} cannot run"
    )
    tuned = {model.precision for cell in plan.cells for model in cell.model.with_members()} - {""}
    stages = [f"tuned in {' and '.join(sorted(tuned))}"] if tuned else []
    stages += (
        [f"evaluated in {' and '.join(sorted({cell.precision for cell in plan.cells}))}"]
        if plan.cells
        else []
    )
    display.say("; ".join((f"device: {session.compute.planned_device}", *stages)))
    if short := [failure for failure in plan.failures if failure.lacks]:
        fetched = "" if offline else " here (the run fetches them)"
        display.say(f"{len(short)} cannot run, since these are not available{fetched}:")
        for line in summary(lack for failure in short for lack in failure.lacks):
            display.say(line)
