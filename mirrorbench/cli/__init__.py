"""The ``mirrorbench`` command. One file a sub-command; what is heavy is imported inside the commands."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from mirrorbench.cli import (
    analyze,
    cache,
    compare,
    data,
    doctor,
    encode,
    leaderboard,
    listing,
    paper,
    plugin,
    run,
    tune,
)
from mirrorbench.errors import MirrorbenchError, PluginError, UsageError

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
app.add_typer(analyze.app, name="analyze")
app.add_typer(data.app, name="data")
app.command("list")(listing.list_registered)
app.command("plugins")(listing.list_plugins)
app.add_typer(plugin.app, name="plugin")
app.add_typer(cache.app, name="cache")
app.command("doctor")(doctor.doctor)


def _add_plugin_commands() -> None:
    """Commands of installed plugins; without any plugin nothing is loaded for this."""
    if not entry_points(group="mirrorbench"):
        return
    from mirrorbench.plugins import plugins

    for entry in plugins().commands:
        if isinstance(entry.value, typer.Typer):
            app.add_typer(entry.value, name=entry.name, help=entry.description or None)
        else:
            app.command(entry.name, help=entry.description or None)(entry.value)


def main() -> None:
    """Run the command line: exit code 0 for success, 1 for something that failed, 2 for bad usage."""
    debug = os.environ.get("MIRRORBENCH_DEBUG") == "1"
    try:
        _add_plugin_commands()
        app()
    except MirrorbenchError as error:
        if debug:
            raise
        report(error)
        sys.exit(2 if isinstance(error, UsageError | PluginError) else 1)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nothing is left to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def report(error: MirrorbenchError) -> None:
    """Print an error to standard error: what is wrong, then what to do."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(("Error: ", "bold red"), error.message))
    if error.hint:
        console.print(Text(error.hint))
