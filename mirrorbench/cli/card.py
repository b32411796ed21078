"""``mirrorbench card``: write an encoder's scores into its model card, as the Hugging Face hub shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirrorbench.cli.display import (
    DataDir,
    Device,
    Offline,
    PluginFiles,
    Protocol,
    Quiet,
    ResultsFolder,
    on_interrupt_go_on,
    print_rows,
    say,
    tasks_option,
)
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import split_names

_Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="Directory of the encoder, with its model card (README.md)."
    ),
]
_Tasks = Annotated[list[str] | None, tasks_option("Tasks and suites.", "none")]


def card(
    folder: _Folder,
    tasks: _Tasks = None,
    protocol: Protocol = "paper",
    device: Device = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    output: ResultsFolder = Path("results"),
    quiet: Quiet = False,
    plugin: PluginFiles = None,
) -> None:
    """Write an encoder's scores into its model card, as the Hugging Face hub shows them.

    Only scores on data sets of the hub are written, each with the commit of the data, its interval and the command.
    Scores that are not stored yet are computed.

    `mirrorbench card ./my-encoder --tasks mteb-STSBenchmark`
    """
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.session import Session

    names = split_names(tasks or [])
    if not names:
        raise UsageError("--tasks names no task", "mirrorbench list tasks shows all.")
    with on_interrupt_go_on(output), progress_display(quiet) as reporter:
        session = Session(
            output, data_dir=data_dir, device=device, offline=offline, reporter=reporter
        )
        written = session.card(folder, names, protocol=protocol)
    if written.scores:
        rows = [
            (score.task, score.data.repo, score.metric, f"{score.value:.4f}", score.interval_text)
            for score in written.scores
        ]
        print_rows(("task", "data set", "metric", "score", ""), rows)
    for path in written.files:
        say(f"written: {path}")
    if written.removed:
        scores = "1 score" if written.removed == 1 else f"{written.removed} scores"
        say(f"removed: {scores} of an earlier state of the encoder", err=True)
    for task, reason in written.left_out:
        say(f"left out: {task}: {reason}", err=True)
    raise typer.Exit(0 if written.scores else 1)
