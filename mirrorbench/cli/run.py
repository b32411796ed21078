"""``mirrorbench run``: plan, train, evaluate, store, print the leaderboard."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.options import (
    PRECISIONS,
    PROTOCOLS,
    DataDir,
    Device,
    Offline,
    PluginFiles,
    encoders_option,
    split_names,
    tasks_option,
)
from mirrorbench.core.errors import UsageError

if TYPE_CHECKING:
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.runs.cells import Cell
    from mirrorbench.runs.plan import Plan
    from mirrorbench.runs.results import ResultStore
    from mirrorbench.runs.workspace import Workspace

EMBEDDED_ENCODER, EMBEDDED_SUITE, EMBEDDED_SEEDS = "tiny", "quick", 3

GridName = Annotated[
    str | None,
    typer.Argument(
        metavar="GRID.yaml",
        help="A grid file, or the name of one that comes with the package (mirror-bert-table12); options replace what "
        "it says, --encoder the backbones.",
    ),
]
Encoders = Annotated[
    list[str] | None,
    encoders_option(
        "BACKBONE[@REVISION][+METHOD][:KEY=VALUE,...]; a bare backbone is the ladder. May be repeated.",
        "tiny, the model inside the package",
    ),
]
Tasks = Annotated[
    list[str] | None,
    tasks_option(
        "Tasks and suites. Some tasks take options: bli-en-fr:train=1k,self_learning=5.",
        "quick, the data inside the package",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(min=1, help="Runs of each tuned encoder.", show_default="1; 3 without --encoder and --tasks"),
]
CorpusName = Annotated[
    str,
    typer.Option(
        help="What to tune on: a corpus, a text file, or hf:OWNER/NAME@COMMIT/SPLIT#COLUMN; several joined by +.",
        show_default="each task's own",
    ),
]
Protocol = Annotated[str, typer.Option(help=PROTOCOLS, show_default="paper")]
Precision = Annotated[str, typer.Option(help=PRECISIONS, show_default="auto")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Where results go.")]
Executor = Annotated[
    str,
    typer.Option(metavar="NAME[:KEY=VALUE,...]", help="Where to compute: local, or what a plugin adds (ray, slurm)."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Worker processes.", show_default="this process, or one for each GPU of --device cuda"),
]
Address = Annotated[str, typer.Option(help="Where the executor's cluster is.", show_default="a local one")]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="On a GPU: only algorithms that repeat bit for bit; slower.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the plan, what is done and about how long the rest takes; compute nothing."),
]


def run(
    grid: GridName = None,
    encoder: Encoders = None,
    tasks: Tasks = None,
    seeds: Seeds = None,
    corpus: CorpusName = "",
    protocol: Protocol = "",
    device: Device = "auto",
    precision: Precision = "",
    data_dir: DataDir = None,
    output: Output = Path("results"),
    executor: Executor = "local",
    workers: Workers = None,
    address: Address = "",
    deterministic: Deterministic = False,
    offline: Offline = False,
    dry_run: DryRun = False,
    plugin: PluginFiles = None,
) -> None:
    """Train, evaluate and print the leaderboard. Without arguments: the embedded model on the embedded data.

    `mirrorbench run --encoder roberta --tasks sts`

    `mirrorbench run -e ./my-model -e ./my-model+mirror:dropout=0.2 -t stsb,sickr --seeds 3`

    `mirrorbench run mirror-bert-table12 --encoder tiny --dry-run`
    """  # fmt: skip
    from mirrorbench.cli.output import on_interrupt_go_on
    from mirrorbench.core.specs import parse_spec
    from mirrorbench.runs.workspace import Workspace

    workspace = Workspace.create(
        data_dir,
        output,
        device=device,
        precision=precision or "auto",
        offline=offline or dry_run,
        deterministic=deterministic,
        executor=executor,
        workers=workers,
        address=address,
    )
    chosen = workspace.numeric_precision
    specs = tuple(dict.fromkeys(parse_spec(text) for text in encoder or []))
    names = tuple(split_names(tasks or []))
    if tasks and not names:
        raise UsageError("--tasks names no task", "mirrorbench list tasks; without --tasks: the embedded ones.")
    said = _Said(specs, names, seeds, corpus, protocol, precision and chosen)
    with on_interrupt_go_on(workspace.results.root):
        asked = _plan(grid, said, workspace, fetch=not dry_run)
        if dry_run:
            _show_plan(asked.plan, workspace.results, offline)
            return
        failed = _execute(asked, workspace)
    raise typer.Exit(1 if failed else 0)


@dataclass(frozen=True)
class _Said:
    """What stands on the command line; empty where nothing does."""

    encoders: tuple[EncoderSpec, ...]
    tasks: tuple[str, ...]
    seeds: int | None
    corpus: str
    protocol: str
    precision: str


@dataclass(frozen=True)
class _Asked:
    """A plan and how its table looks."""

    plan: Plan
    tasks: tuple[str, ...]
    title: str = ""


def _plan(grid: str | None, said: _Said, workspace: Workspace, *, fetch: bool) -> _Asked:
    """The plan of a grid file under the options, or of the options alone."""
    from mirrorbench.core.specs import parse_spec
    from mirrorbench.runs.grids import Overrides, find_grid, plan_grid, read_grid
    from mirrorbench.runs.plan import Request, expand_tasks

    if grid is None:
        count = said.seeds or (1 if said.encoders or said.tasks else EMBEDDED_SEEDS)
        names = expand_tasks(said.tasks or [EMBEDDED_SUITE], workspace.plugins)
        encoders = said.encoders or (parse_spec(EMBEDDED_ENCODER),)
        request = Request(encoders, names, tuple(range(count)), said.corpus, said.protocol or "paper")
        return _Asked(workspace.plan(request, fetch=fetch), names)
    for spec in said.encoders:
        if spec.method or spec.params:
            bare = f"--encoder {spec.backbone}"
            raise UsageError(f"--encoder {spec}: beside a grid file it names a backbone and no more", f"Write {bare}")
    seeds = tuple(range(said.seeds or 0))
    overrides = Overrides(said.encoders, said.tasks, seeds, said.corpus, said.protocol, said.precision)
    read = read_grid(find_grid(grid), workspace.plugins, overrides)
    plan = plan_grid(read, workspace, fetch)
    return _Asked(plan, tuple(dict.fromkeys(t for block in read.blocks for t in block.request.tasks)), read.title)


def _execute(asked: _Asked, workspace: Workspace) -> bool:
    """Run a plan with a progress display, print and write its table; whether anything failed."""
    from mirrorbench.cli.display import print_table, reporter
    from mirrorbench.core.files import writing
    from mirrorbench.reports.build import build_table

    plan, root, registered = asked.plan, workspace.results.root, workspace.plugins
    with reporter(len(plan.cells)) as display:
        workspace.reporter = display
        outcome = workspace.execute(plan)
    table = build_table(outcome.results, registered, asked.tasks, plan.rows, outcome.failures, asked.title)
    if outcome.results:
        print_table(table)
        for suffix, renderer in ((".md", "markdown"), (".tex", "latex")):
            with writing(root / f"leaderboard{suffix}") as sink:
                sink.write(registered.renderers[renderer](table).encode())
    display.finish(outcome, root)
    return bool(outcome.failures)


def _show_plan(plan: Plan, store: ResultStore, offline: bool) -> None:
    from mirrorbench.cli.display import say

    done, waiting = 0, []
    for cells in plan.groups.values():
        model = cells[0].model
        what = f"{model.spec}" + (f" seed {model.seed}: tune on {model.corpus.name}" if model.corpus else ":")
        say(f"{what}{', then' if model.corpus else ''} score")
        pending = []
        for cell in cells:
            stored = store.find(cell)
            done += stored is not None
            state = "done" if stored else "to do"
            say(f"  {state:6} {cell.spec}  {cell.task}  [{cell.id[:12]}]")
            if not stored:
                pending.append(cell)
        if pending:
            waiting.append(pending)
    for failure in plan.failures:
        say(f"  cannot {failure.spec}  {failure.task}: {failure.reason}")
    total = len(plan.cells)
    say(f"{total} cell{'' if total == 1 else 's'}: {done} done, {total - done} to do, {len(plan.failures)} impossible")
    if waiting:
        say(_estimate(waiting, store))
    if plan.failures and not offline:
        say("A dry run downloads nothing: what is not here yet counts as impossible; the run itself would fetch it.")


def _estimate(waiting: list[list[Cell]], store: ResultStore) -> str:
    from mirrorbench.core.errors import DataFormatError
    from mirrorbench.runs.estimate import estimate, in_words
    from mirrorbench.runs.results import read_result, result_files

    done = []
    for path in result_files(store.root):
        with suppress(DataFormatError):  # the run would compute it again, and go on
            done.append(read_result(path))
    found = estimate(waiting, done)
    if not found.cells:
        return f"no estimate of the time: {store.root} holds no result of a like cell"
    without = f"; {found.unknown} have no like result and are not in it" if found.unknown else ""
    return (
        f"about {in_words(found.seconds)} for {found.cells} of them, one after the other, by the seconds of like cells "
        f"in {store.root}{without}"
    )
