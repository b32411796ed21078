"""The ``mirrorbench`` command. One file a sub-command; what is heavy is imported inside the commands."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mirrorbench.core.devices import lost_device
from mirrorbench.core.errors import MirrorbenchError, PluginError, UsageError
from mirrorbench.core.files import unwritable
from mirrorbench.core.shown import NO_TEXTS, printable

COMMANDS: dict[str, Any] = {
    "run": "run.run",
    "tune": "tune.tune",
    "encode": "encode.encode",
    "leaderboard": "leaderboard.leaderboard",
    "compare": "compare.compare",
    "paper": "paper.paper",
    "list": "plugin.list_registered",
    "doctor": "doctor.doctor",
    "analyze": "analyze.analyze_app",
    "data": "data.data_app",
    "plugin": "plugin.plugin_app",
    "cache": "cache.cache_app",
}
"""Where each command is, and once it was asked for the command itself; plugins add theirs."""


MOST_IN_ONE_PANEL = 6
_PANELS = {
    "What": "encoder tasks task seeds seed corpus protocol baselines limit results run table metric without_overlap "
    "allow_mixed suite level language here column held_out words_in_context span_columns texts show x log samples word",
    "How": "precision eval_precision deterministic dry_run intervals ties sort method",
    "Where": "device executor workers address data_dir offline plugin",
    "Output": "output notes quiet format_ title as_json force merge",
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}
"""Where an option stands in the help of a command with many."""


class _Commands(TyperGroup):
    """Imports a command when it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": COMMANDS})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name."""
        found = COMMANDS.get(cmd_name)
        if isinstance(found, str):
            module, _, attribute = found.partition(".")
            found = _command(cmd_name, getattr(import_module(f"mirrorbench.cli.{module}"), attribute))
            COMMANDS[cmd_name] = found
        return found


app = typer.Typer(
    name="mirrorbench",
    cls=_Commands,
    help="Turn pretrained language models into text encoders, and show in the papers' tables what that gained.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _leave_texts_out(leave: bool) -> None:
    if leave:
        os.environ[NO_TEXTS] = "1"  # for workers too


def _version(show: bool) -> None:
    if show:
        from mirrorbench.core.identity import __version__

        typer.echo(f"mirrorbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    no_texts: Annotated[
        bool, typer.Option("--no-texts", callback=_leave_texts_out, help="Print and store no texts of yours.")
    ] = False,
) -> None:
    pass


def add_plugin_commands() -> None:
    """Add the commands of plugins; one that is not a command, or whose name is taken, is skipped with a warning."""
    from mirrorbench.core.plugins import PluginWarning
    from mirrorbench.runs.builtin import plugins

    for entry in plugins().commands:
        try:
            if entry.name in COMMANDS:
                raise ValueError("mirrorbench has a command of this name")
            described = {"help": entry.description} if entry.description else {}
            COMMANDS[entry.name] = _command(entry.name, entry.value, **described)
        except Exception as error:
            problem = f"command {entry.name!r} of plugin {entry.origin} skipped: {error}"
            warnings.warn(problem, PluginWarning, stacklevel=2)


def _command(name: str, value: Any, **described: Any) -> Any:
    """What Typer makes of a function or an application; it looks at the arguments' types now."""
    alone = typer.Typer(rich_markup_mode="markdown")
    if isinstance(value, typer.Typer):
        alone.add_typer(value, name=name, **described)
    else:
        alone.command(name, **described)(value)
    command = typer.main.get_group(alone).commands[name]
    for one in (command, *getattr(command, "commands", {}).values()):
        options = [param for param in one.params if param.param_type_name == "option"]
        for param in options if len(options) > MOST_IN_ONE_PANEL else ():
            param.rich_help_panel = param.rich_help_panel or _PANEL_OF.get(param.name)
    return command


def main() -> None:
    """Run the command line: exit code 0 for success, 1 for something that failed, 2 for bad usage."""
    debug = os.environ.get("MIRRORBENCH_DEBUG") == "1"
    _open_streams()
    try:
        with _plain_warnings():
            if entry_points(group="mirrorbench"):  # without any plugin nothing is loaded for this
                add_plugin_commands()
            try:
                app()
            finally:
                sys.stdout.flush()
    except (MirrorbenchError, RuntimeError) as error:
        told = error if isinstance(error, MirrorbenchError) else lost_device(error)
        if debug or told is None:
            raise
        report(told)
        sys.exit(2 if isinstance(told, UsageError | PluginError) else 1)
    except OSError as error:
        if debug or error.filename or not error.errno:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # takes what could not be printed, when Python ends
        if not isinstance(error, BrokenPipeError):  # the program that reads our output (head, less) has ended
            report(unwritable("Not all could be written", error, "write elsewhere"))
        sys.exit(1)


def _open_streams() -> None:
    """Open a standard stream that is closed as /dev/null: its descriptor would be that of the next file opened.

    Characters that cannot be printed, such as those of file names that are not UTF-8, are escaped.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings of this package are one line inside, without file and line number."""
    usual = warnings.formatwarning

    def line_of(message: Warning | str, category: type[Warning], *where: Any, **line: Any) -> str:
        ours = category.__module__.partition(".")[0] == "mirrorbench"
        return f"Warning: {printable(str(message))}\n" if ours else usual(message, category, *where, **line)

    warnings.formatwarning = line_of
    try:
        yield
    finally:
        warnings.formatwarning = usual


def report(error: MirrorbenchError) -> None:
    """Print an error to standard error: what is wrong, then what to do."""
    from rich.text import Text

    from mirrorbench.cli.display import stderr

    stderr.print(Text.assemble(("Error: ", "bold red"), error.message), soft_wrap=True)
    if error.hint:
        stderr.print(Text(error.hint), soft_wrap=True)
