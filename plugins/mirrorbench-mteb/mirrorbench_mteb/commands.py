"""``mirrorbench mteb``: encoders evaluated by MTEB itself, and stored results in MTEB's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mirrorbench.plugin import (
    DataDir,
    Device,
    Offline,
    PluginFiles,
    UsageError,
    read_results,
    split_names,
)

app = typer.Typer(
    name="mteb",
    no_args_is_help=True,
    help="Encoders evaluated by MTEB itself, and results in MTEB's format.",
)

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for results/MODEL/REVISION/.")
]


@app.callback()
def _root() -> None:
    pass


@app.command("run")
def run(
    spec: Annotated[
        str, typer.Argument(metavar="ENCODER", help="Encoder spec, as for mirrorbench run.")
    ],
    tasks: Annotated[
        list[str],
        typer.Option("--tasks", "-t", metavar="T,...", help="Tasks by MTEB's names, of any type."),
    ],
    output: Output = Path("mteb"),
    device: Device = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    plugin: PluginFiles = None,
) -> None:
    """Evaluate an encoder with MTEB, whose own code loads the data and scores the vectors.

    A task of mirrorbench (`mteb-STS17-en-en`) stands for that one subset, in its test split. Results in the output
    folder are not computed again.

    `mirrorbench mteb run roberta+mirror --tasks STSBenchmark,SICK-R,Banking77Classification`
    """
    from mirrorbench_mteb.evaluation import evaluate
    from mirrorbench_mteb.model import MirrorbenchModel

    chosen = [_task(name) for name in split_names(tasks)]
    model = MirrorbenchModel(spec, device=device, data_dir=data_dir, offline=offline)
    n_failed = 0
    typer.echo("task\tsplit\tsubset\tscore")
    for task in chosen:
        outcome = evaluate(model, task, output, offline)
        for split, subset, score in outcome.scores:
            typer.echo(f"{task.metadata.name}\t{split}\t{subset}\t{score:.4f}")
        if outcome.failure:
            n_failed += 1
            _say(f"{task.metadata.name} failed: {outcome.failure}")
    _say(f"{len(chosen) - n_failed} of {len(chosen)} tasks done. Results: {output / 'results'}")
    if n_failed:
        raise typer.Exit(1)


@app.command("export")
def export_results(
    results: Annotated[
        list[Path] | None, typer.Argument(help="Folders of results.", show_default="results")
    ] = None,
    output: Output = Path("mteb"),
) -> None:
    """Write stored results of mirrorbench as MTEB's JSON files.

    `mirrorbench mteb export results -o mteb`; then, in Python, `mteb.ResultCache("mteb").load_results()`
    """
    from mirrorbench_mteb.export import export

    folders = results or [Path("results")]
    stored = [result for folder in folders for result in read_results(folder)]
    if not stored:
        raise UsageError(
            f"no results in {', '.join(map(str, folders))}", "Make some: mirrorbench run"
        )
    exported = export(stored, output)
    for path in exported.files:
        typer.echo(path)
    for encoder, task, reason in exported.left_out:
        _say(f"left out: {encoder} on {task}: {reason}")
    _say(
        f"{len(stored) - len(exported.left_out)} of {len(stored)} results in {len(exported.files)} files."
    )


def _task(name: str) -> Any:
    """Return the task object of MTEB for a name of MTEB's or of mirrorbench's."""
    from mirrorbench_mteb.catalogue import catalogue
    from mirrorbench_mteb.tasks import get_task

    entry = catalogue().get(name)
    return get_task(entry.task, entry.subset, entry.split) if entry else get_task(name)


def _say(text: str) -> None:
    typer.echo(text, err=True)
