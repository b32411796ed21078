"""The ``mirrorbench`` command. One file a sub-command; what is heavy is imported inside the commands."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli import (
    analyze,
    cache,
    compare,
    data,
    doctor,
    encode,
    leaderboard,
    paper,
    plugin,
    run,
    tune,
)
from mirrorbench.core.errors import MirrorbenchError, PluginError, UsageError

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Entry

app = typer.Typer(
    name="mirrorbench",
    help="Turn pretrained language models into text encoders, and show in the papers' tables what that gained.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        from mirrorbench import __version__

        typer.echo(f"mirrorbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


app.command("run")(run.run)
app.command("tune")(tune.tune)
app.command("encode")(encode.encode)
app.command("leaderboard")(leaderboard.leaderboard)
app.command("compare")(compare.compare)
app.command("paper")(paper.paper)
app.add_typer(analyze.analyze_app, name="analyze")
app.add_typer(data.data_app, name="data")
app.command("list")(plugin.list_registered)
app.command("plugins")(plugin.list_plugins)
app.add_typer(plugin.plugin_app, name="plugin")
app.add_typer(cache.cache_app, name="cache")
app.command("doctor")(doctor.doctor)
_OWN = {known.name for known in app.registered_commands} | {known.name for known in app.registered_groups}


def add_plugin_commands() -> None:
    """Add the commands of plugins; one that is not a command, or whose name is taken, is skipped with a warning."""
    from mirrorbench.core.plugins import PluginWarning
    from mirrorbench.runs.builtin import plugins

    for entry in plugins().commands:
        try:
            if entry.name in _OWN:
                raise ValueError("mirrorbench has a command of this name")
            trial = typer.Typer()
            _add_command(trial, entry)
            typer.main.get_command(trial)  # Typer looks at the arguments' types now
        except Exception as error:
            problem = f"command {entry.name!r} of plugin {entry.origin} skipped: {error}"
            warnings.warn(problem, PluginWarning, stacklevel=2)
        else:
            _add_command(app, entry)


def _add_command(to: typer.Typer, entry: Entry[Any]) -> None:
    if isinstance(entry.value, typer.Typer):
        to.add_typer(entry.value, name=entry.name, help=entry.description or None)
    else:
        to.command(entry.name, help=entry.description or None)(entry.value)


def main() -> None:
    """Run the command line: exit code 0 for success, 1 for something that failed, 2 for bad usage."""
    debug = os.environ.get("MIRRORBENCH_DEBUG") == "1"
    try:
        with _plain_warnings():
            if entry_points(group="mirrorbench"):  # without any plugin nothing is loaded for this
                add_plugin_commands()
            app()
    except MirrorbenchError as error:
        if debug:
            raise
        report(error)
        sys.exit(2 if isinstance(error, UsageError | PluginError) else 1)
    except BrokenPipeError:
        # The program that reads our output (head, less) has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings of this package are one line inside, without file and line number."""
    usual = warnings.formatwarning

    def line_of(message: Warning | str, category: type[Warning], *where: Any, **line: Any) -> str:
        ours = category.__module__.partition(".")[0] == "mirrorbench"
        return f"Warning: {message}\n" if ours else usual(message, category, *where, **line)

    warnings.formatwarning = line_of
    try:
        yield
    finally:
        warnings.formatwarning = usual


def report(error: MirrorbenchError) -> None:
    """Print an error to standard error: what is wrong, then what to do."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(("Error: ", "bold red"), error.message))
    if error.hint:
        console.print(Text(error.hint))
