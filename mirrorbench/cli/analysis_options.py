"""Options that the kinds of ``mirrorbench analyze`` share, and the encoders and task that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mirrorbench.analysis.session import Session

Encoders = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder", "-e", metavar="SPEC", show_default="tiny, the model inside the package",
        help="As for `run`; a bare backbone is the ladder. May be repeated.",
    ),
]  # fmt: skip
TaskName = Annotated[
    str, typer.Option("--task", "-t", metavar="NAME", help="Picks texts, level, language and tuning corpus.")
]
TextsFrom = Annotated[
    str, typer.Option("--texts", metavar="NAME|FILE", help="A corpus or text file.", show_default="the task's texts")
]
CorpusName = Annotated[str, typer.Option(help="Corpus name or text file to tune on.", show_default="the task's own")]
Seed = Annotated[int, typer.Option(help="Of the tuning and of random samples.")]
ProtocolName = Annotated[str, typer.Option(help="paper: as published; released: as the authors' code does it.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Results = Annotated[Path, typer.Option("--results", help="Where results are; what is missing is computed into it.")]
Folders = Annotated[list[Path] | None, typer.Argument(help="Folders of results.", show_default="results")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where numbers and figures go.")]
Formats = Annotated[
    str, typer.Option("--format", "-f", metavar="NAME,...", help="pdf, svg, png, or none.", show_default="pdf")
]
HERE = Path("analysis")


@contextmanager
def opened_session(
    encoders: list[str], task: str, corpus: str, seed: int, protocol: str, device: str, data_dir: Path | None,
    offline: bool,
) -> Iterator[Session]:  # fmt: skip
    """Encoders, task and device of a command, with a display of what goes on."""
    from mirrorbench.analysis.session import Session
    from mirrorbench.cli.display import reporter
    from mirrorbench.data.store import DataStore
    from mirrorbench.devices import pick_device
    from mirrorbench.plugins import plugins
    from mirrorbench.specs import parse_spec

    specs = tuple(dict.fromkeys(parse_spec(text) for text in encoders))
    data = DataStore(data_dir, offline=offline)
    session = Session(plugins(), data, pick_device(device), specs, task, corpus, seed, protocol, offline)
    with reporter(len(session.plan().cells)) as display:
        session.reporter = display
        yield session
