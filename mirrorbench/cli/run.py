"""``mirrorbench run``: plan, train, evaluate, store, print the leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.options import DataDir, Offline, PluginFiles, split_names

if TYPE_CHECKING:
    from mirrorbench.plan import Plan, Request
    from mirrorbench.plugins import Plugins
    from mirrorbench.store import ResultStore

EMBEDDED_ENCODER, EMBEDDED_SUITE, EMBEDDED_SEEDS = "tiny", "quick", 3


def run(
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            "-e",
            metavar="SPEC",
            help="BACKBONE[@REVISION][+METHOD][:KEY=VALUE,...]; a bare backbone is the ladder. May be repeated.",
            show_default="tiny, the model inside the package",
        ),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--tasks",
            "-t",
            metavar="NAME,...",
            help="Tasks and suites.",
            show_default="quick, the data inside the package",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Runs of each tuned encoder.", show_default="1; 3 without --encoder and --tasks"),
    ] = None,
    corpus: Annotated[
        str, typer.Option(help="Corpus name or text file to tune on.", show_default="each task's own")
    ] = "",
    protocol: Annotated[
        str, typer.Option(help="paper: as published; released: as the authors' code does it.")
    ] = "paper",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto (bf16 on CUDA, else fp32), fp32 or bf16.")] = "auto",
    data_dir: DataDir = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where results go.")] = Path("results"),
    offline: Offline = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and what is already done; compute nothing.")
    ] = False,
    plugin: PluginFiles = None,
) -> None:
    """Train, evaluate and print the leaderboard. Without arguments: the embedded model on the embedded data.

    `mirrorbench run --encoder roberta --tasks sts`

    `mirrorbench run -e ./my-model -e ./my-model+mirror:dropout=0.2 -t stsb,sickr --seeds 3`
    """  # fmt: skip
    from mirrorbench.data.store import DataStore
    from mirrorbench.devices import pick_device, pick_precision
    from mirrorbench.plan import Planner, Request, expand_tasks
    from mirrorbench.plugins import plugins
    from mirrorbench.specs import parse_spec
    from mirrorbench.store import ResultStore

    registered = plugins()
    if seeds is None:
        seeds = EMBEDDED_SEEDS if not encoder and not tasks else 1
    specs = tuple(dict.fromkeys(parse_spec(text) for text in encoder or [EMBEDDED_ENCODER]))
    names = expand_tasks(split_names(tasks or [EMBEDDED_SUITE]), registered)
    chosen = pick_device(device)
    request = Request(specs, names, tuple(range(seeds)), corpus, protocol, pick_precision(precision, chosen))
    data = DataStore(data_dir, offline=offline or dry_run)
    store = ResultStore(output)
    planner = Planner(request, registered, data, offline=offline, fetch=not dry_run)
    plan = planner.plan()
    if dry_run:
        _show_plan(plan, store)
        return
    failed = _execute(plan, request, registered, data, store, str(chosen), offline)
    raise typer.Exit(1 if failed else 0)


def _execute(
    plan: Plan,
    request: Request,
    registered: Plugins,
    data: object,
    store: ResultStore,
    device: str,
    offline: bool,
) -> bool:
    """Run a plan with a progress display, print and write its table; whether anything failed."""
    import torch

    from mirrorbench.atomic import writing
    from mirrorbench.cache import Cache
    from mirrorbench.cli.display import print_table, reporter
    from mirrorbench.data.store import DataStore
    from mirrorbench.leaderboard.table import build_table
    from mirrorbench.runner import Runner

    assert isinstance(data, DataStore)
    with reporter(len(plan.cells)) as display:
        runner = Runner(registered, data, store, Cache(), torch.device(device), offline, display)
        try:
            outcome = runner.run(plan)
        except KeyboardInterrupt:
            display.note(f"Interrupted. What is done is stored in {store.root}; the same command goes on from there.")
            raise typer.Exit(130) from None
    table = build_table(outcome.results, registered, request.tasks, plan.rows, outcome.failures)
    if outcome.results:
        print_table(table)
        for suffix, renderer in ((".md", "markdown"), (".tex", "latex")):
            with writing(store.root / f"leaderboard{suffix}") as sink:
                sink.write(registered.renderers[renderer](table).encode())
    display.finish(outcome, store.root)
    return bool(outcome.failures)


def _show_plan(plan: Plan, store: ResultStore) -> None:
    from mirrorbench.cli.display import console

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    done = 0
    for cells in plan.groups.values():
        weights = cells[0].weights
        what = f"{weights.spec}" + (f" seed {weights.seed}: tune on {weights.corpus.name}" if weights.corpus else ":")
        say(f"{what}{', then' if weights.corpus else ''} score")
        for cell in cells:
            stored = store.find(cell)
            done += stored is not None
            state = "done" if stored else "to do"
            say(f"  {state:6} {cell.spec}  {cell.task}  [{cell.id[:12]}]")
    for failure in plan.failures:
        say(f"  cannot {failure.spec}  {failure.task}: {failure.reason}")
    total = len(plan.cells)
    say(f"{total} cells: {done} done, {total - done} to do, {len(plan.failures)} impossible")
