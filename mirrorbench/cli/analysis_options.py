"""Options that the kinds of ``mirrorbench analyze`` share, and the encoders and task that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.analysis_output import figure_formats
from mirrorbench.cli.options import DataDir, Device, Offline, PluginFiles, Protocol, encoders_option

if TYPE_CHECKING:
    from mirrorbench.analysis.study import Session

Encoders = Annotated[
    list[str] | None,
    encoders_option(
        "As for `run`; a bare backbone is the ladder. May be repeated.", "tiny, the model inside the package"
    ),
]
TaskName = Annotated[
    str, typer.Option("--task", "-t", metavar="NAME", help="Picks texts, level, language and tuning corpus.")
]
TextsFrom = Annotated[
    str, typer.Option("--texts", metavar="NAME|FILE", help="A corpus or text file.", show_default="the task's texts")
]
CorpusName = Annotated[str, typer.Option(help="Corpus name or text file to tune on.", show_default="the task's own")]
Seed = Annotated[int, typer.Option(help="Of the tuning and of random samples.")]
Results = Annotated[Path, typer.Option("--results", help="Where results are; what is missing is computed into it.")]
Folders = Annotated[list[Path] | None, typer.Argument(help="Folders of results.", show_default="results")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where numbers and figures go.")]
Formats = Annotated[
    str, typer.Option("--format", "-f", metavar="NAME,...", help="pdf, svg, png, or none.", show_default="pdf")
]
HERE = Path("analysis")


@dataclass(frozen=True)
class Asked:
    """What every analysis of encoders is asked: which, on what task, and where its files go."""

    encoders: tuple[str, ...]
    task: str
    corpus: str
    seed: int
    protocol: str
    device: str
    data_dir: Path | None
    offline: bool
    output: Path
    formats: tuple[str, ...]

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The encoders, task and device, with a display of what goes on."""
        from mirrorbench.analysis.study import Session
        from mirrorbench.cli.display import reporter
        from mirrorbench.core.devices import pick_device
        from mirrorbench.core.specs import parse_spec
        from mirrorbench.data.store import DataStore
        from mirrorbench.runs.builtin import plugins

        specs = tuple(dict.fromkeys(parse_spec(text) for text in self.encoders))
        data, device = DataStore(self.data_dir, offline=self.offline), pick_device(self.device)
        session = Session(
            plugins(), data, device, specs, self.task, self.corpus, self.seed, self.protocol, self.offline
        )
        with reporter(len(session.plan().cells)) as display:
            session.reporter = display
            yield session


def of_encoders(
    task: str, encoders: Sequence[str] = ("tiny",), encoder: Any = Encoders
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function of ``Asked`` and options of its own: the options of ``Asked`` stand around those.

    Args:
        task: the default task.
        encoders: the default encoders.
        encoder: the option that names them.
    """
    before = _options(encoder=(encoder, None), task=(TaskName, task))
    after = _options(
        corpus=(CorpusName, ""), seed=(Seed, 0), protocol=(Protocol, "paper"), device=(Device, "auto"),
        data_dir=(DataDir, None), offline=(Offline, False), output=(Output, HERE), format_=(Formats, ""),
        plugin=(PluginFiles, None),
    )  # fmt: skip

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def command(encoder: list[str] | None, format_: str, plugin: object, **given: Any) -> None:
            own = {name: given.pop(name) for name in names}
            function(Asked(encoders=tuple(encoder or encoders), formats=figure_formats(format_), **given), **own)

        _, *options = signature(function, eval_str=True).parameters.values()
        names = [option.name for option in options]
        parameters = [*before, *(option.replace(kind=Parameter.KEYWORD_ONLY) for option in options), *after]
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
        command.__annotations__ = {option.name: option.annotation for option in parameters}
        return command

    return decorate


def _options(**declared: tuple[Any, Any]) -> list[Parameter]:
    """Parameters of names, with their types and defaults."""
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in declared.items()
    ]
