"""``mirrorbench run``: tune and evaluate encoders, and print the leaderboard; without arguments, a small built-in example."""

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
    ResultsFolder,
    lines_on_lacks,
)
from mirrorbench.core.errors import MirrorbenchError, StorageError, UsageError
from mirrorbench.core.specs import split_names

if TYPE_CHECKING:
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.plan import Plan
    from mirrorbench.session import Session

EMBEDDED_SEEDS = 3
"""Number of seeds of each tuned encoder if neither an encoder nor a task is named."""

MARK = "Made by mirrorbench run, which replaces it."
"""Last line of the tables that ``run`` writes beside results.

A file without this line belongs to the user or was edited. It is kept, and the table gets another name.
"""


_GridName = Annotated[
    str | None,
    typer.Argument(
        metavar="GRID.yaml",
        help="A grid file, or the name of a grid in the package (mirror-bert-table12). Options override what it says; "
        "--encoder replaces its backbones.",
        autocompletion=complete("grids"),
    ),
]
_Encoders = Annotated[
    list[str] | None,
    display.encoders_option(
        f"{display.ENCODER_HELP}, also with @REVISION. A bare backbone gives several rows. May be repeated.",
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
        min=1,
        help="Number of runs of each tuned encoder.",
        show_default="1; 3 without --encoder and --tasks",
    ),
]
_CorpusName = Annotated[
    str,
    typer.Option(
        help="Texts to tune on: a corpus, a file as for tune (FILE#COLUMN), or hf:OWNER/NAME@COMMIT/SPLIT#COLUMN. Several "
        "are joined by +.",
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
        help="Column with the texts in the file of --corpus; two columns give pairs.",
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
        help="Add rows of other unsupervised methods: transformed vectors, static vectors, other ways of tuning.",
    ),
]
_Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Smoke run on only the first N items of each task. The results are not valid task scores "
        "and are stored in a separate folder.",
        show_default="all",
    ),
]
_Executor = Annotated[
    str,
    typer.Option(
        metavar="NAME[:KEY=VALUE,...]",
        help="Where to compute: local, or an executor of a plugin (ray, slurm).",
        autocompletion=complete("executors"),
    ),
]
_Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of worker processes.",
        show_default="none; with --device cuda, one for each GPU",
    ),
]
_Address = Annotated[
    str, typer.Option(help="Address of the executor's cluster.", show_default="a local one")
]
_Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic", help="On a GPU, use only algorithms that repeat bit for bit; slower."
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the plan and which results exist; compute nothing.")
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
    output: ResultsFolder = Path("results"),
    notes: Notes = "",
    quiet: display.Quiet = False,
    plugin: PluginFiles = None,
) -> None:
    """Tune and evaluate encoders, and print the leaderboard; without arguments, a small built-in example.

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
    # The example inside the package is small enough for several seeds.
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
    # The results of a smoke run (--limit) lie in a folder of their own.
    folder = limited(output, limit or 0)
    tables = []
    if board.results:
        display.print_table(board.table, "none" if quiet else notes)
        # The files beside the results hold all of them, also those of earlier runs.
        tables = _write_tables(_all_stored(session, board, folder), folder)
    reporter.finish(board, folder, tables)
    raise typer.Exit(1 if board.failures else 0)


def _write_tables(board: Leaderboard, folder: Path) -> list[str]:
    """Write a table beside its results, as Markdown and as LaTeX; return the names of the files that were written."""
    formats = (
        (".md", "markdown", f"<!-- {MARK} -->"),
        (".tex", "latex", f"% {MARK}"),
    )
    names = []
    try:
        for suffix, format_, comment in formats:
            file = _table_file(folder, suffix, comment)
            display.print_or_write(f"{board.render(format_)}\n{comment}\n", file)
            names.append(file.name)
    except (OSError, StorageError) as error:
        # The results are stored, so the run itself has not failed.
        display.say(f"leaderboard.md and leaderboard.tex were not updated: {error}", err=True)
    return names


def _table_file(folder: Path, suffix: str, comment: str) -> Path:
    """Return the first of ``leaderboard.md``, ``leaderboard-1.md`` ... that does not exist or ends with ``comment``."""
    file = folder / f"leaderboard{suffix}"
    for number in count(1):
        if not os.path.lexists(file):
            break
        if file.is_file() and file.read_bytes().rstrip().endswith(comment.encode()):
            break
        file = folder / f"leaderboard-{number}{suffix}"
    return file


def _all_stored(session: Session, board: Leaderboard, folder: Path) -> Leaderboard:
    """Return the leaderboard of all results in a folder; that of the run if it has all, or if one cannot be read."""
    from mirrorbench.reports.selection import folder_leaderboard
    from mirrorbench.storage.results import read_results

    ids_of_run = {result.cell_id for result in board.results}
    try:
        stored_ids = {result.cell_id for result in read_results(folder)}
        if stored_ids <= ids_of_run:
            return board
        return folder_leaderboard(folder, session.plugins)
    except MirrorbenchError as error:
        display.say(
            f"leaderboard.md and leaderboard.tex hold only the results of this run: {error.message}",
            err=True,
        )
        return board


def _print_plan(plan: Plan, session: Session, offline: bool) -> None:
    """Print the cells of a plan, each with its state, then counts, device, precisions and what is not available."""
    # Each group of cells shares a model, which is tuned once.
    n_todo = 0
    for cells in plan.groups.values():
        model = cells[0].model
        if model.corpus:
            display.say(f"{model.spec} seed {model.seed}: tune on {model.corpus.name}, then score")
        else:
            display.say(f"{model.spec}: score")
        for cell in cells:
            is_done = session.folders.results.find(cell) is not None
            state = "done" if is_done else "to do"
            if not is_done:
                n_todo += 1
            display.say(f"  {state:6} {cell.spec}  {cell.task}  [{cell.id[:12]}]")
    # Cells that cannot run for another reason than missing data or models, which follow at the end.
    for failure in plan.failures:
        if not failure.lacks:
            display.say(f"  cannot {failure.spec}  {failure.task}: {failure.reason}")
            if failure.hint:
                display.say(f"         {failure.hint}")
    n_cells = len(plan.cells)
    cells_in_all = "1 cell" if n_cells == 1 else f"{n_cells} cells"
    display.say(
        f"{cells_in_all}: {n_cells - n_todo} done, {n_todo} to do, {len(plan.failures)} cannot run"
    )
    display.say("; ".join([f"device: {session.compute.planned_device}", *_precisions(plan)]))
    unavailable = [failure for failure in plan.failures if failure.lacks]
    if unavailable:
        place = "" if offline else " here (the run fetches them)"
        display.say(f"{len(unavailable)} cannot run, since these are not available{place}:")
        for line in lines_on_lacks(lack for failure in unavailable for lack in failure.lacks):
            display.say(line)


def _precisions(plan: Plan) -> list[str]:
    """Return the precisions in which the plan tunes and evaluates, in words."""
    if not plan.cells:
        return []
    evaluation = {cell.precision for cell in plan.cells}
    tuning = set()
    for cell in plan.cells:
        for model in cell.model.with_members():
            # An untuned model has no precision of tuning.
            if model.precision:
                tuning.add(model.precision)
    phrases = []
    if tuning:
        phrases.append(f"tuned in {' and '.join(sorted(tuning))}")
    phrases.append(f"evaluated in {' and '.join(sorted(evaluation))}")
    return phrases
