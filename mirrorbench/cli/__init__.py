"""The ``mirrorbench`` command. One file a sub-command; what is heavy is imported inside the commands.

A command is a function or an application of Typer, which is imported when it is called; ``--help`` shows the first line
of its module's docstring. A plugin adds one by an entry point of the group ``mirrorbench.commands``.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, reduce
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mirrorbench.core.devices import lost_device
from mirrorbench.core.entry_points import COMMANDS as GROUP
from mirrorbench.core.entry_points import DISABLE, command_points
from mirrorbench.core.errors import MirrorbenchError, PluginError, UsageError, naming_options
from mirrorbench.core.quoting import NO_TEXTS, printable
from mirrorbench.storage.files import unwritable

COMMANDS: dict[str, Any] = {
    "run": "run.run",
    "tune": "tune.tune",
    "encode": "encode.encode",
    "leaderboard": "leaderboard.leaderboard",
    "compare": "compare.compare",
    "list": "listing.list_registered",
    "data": "data.data_app",
    "analyze": "analyze.analyze_app",
    "cache": "cache.cache_app",
    "doctor": "doctor.doctor",
    "evaluate": "evaluate.evaluate",
    "paper": "paper.paper",
    "plugin": "scaffold.plugin_app",
}
"""Module and attribute of each command, or the command itself once it was imported; plugins add theirs."""

MOST_IN_ONE_PANEL = 6
_PANELS = {
    "What": "encoder tasks task seeds seed corpus protocol baselines limit results run table metric without_overlap "
    "allow_mixed suite level language here column held_out words_in_context span_columns texts show x log samples word",
    "How": "precision eval_precision deterministic dry_run intervals ties sort method",
    "Where": "device executor workers address data_dir offline plugin",
    "Output": "output notes quiet format_ title as_json force merge",
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}
"""The panel of an option in the help of a command with many options."""


class _Commands(TyperGroup):
    """Imports a command when it is called; its help in the list of commands needs no import."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": COMMANDS})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the built-in commands, then of those of plugins."""
        return [*COMMANDS, *sorted(commands_of_plugins().keys() - COMMANDS.keys())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; its module is imported when it is called."""
        command = COMMANDS.get(cmd_name)
        if isinstance(command, str):
            module, _, attribute = command.partition(".")
            return LateCommand(cmd_name, f"mirrorbench.cli.{module}", attribute)
        if command is not None:
            return command
        if point := commands_of_plugins().get(cmd_name):
            return LateCommand(cmd_name, point.module, point.attr, third_party=True)
        if ctx.resilient_parsing:  # a completion says nothing
            return None
        for point in entry_points(group=GROUP, name=cmd_name):
            plugin = point.dist.name if point.dist else point.module
            problem = f"the command {cmd_name} of the plugin {plugin} is disabled"
            raise UsageError(problem, f"Take it out of {DISABLE}.")
        return None


@cache
def commands_of_plugins() -> dict[str, EntryPoint]:
    """Return the entry points of commands by name, except those that the user disabled."""
    return {point.name: point for point in command_points()}


class LateCommand(TyperCommand):
    """A command whose module is imported when it is called."""

    def __init__(
        self, name: str, module: str, attribute: str, *, third_party: bool = False
    ) -> None:
        super().__init__(name, help=_summary(module), rich_markup_mode="markdown")
        self.module = module
        self.attribute = attribute
        self.third_party = third_party

    def loaded(self) -> Any:
        """Import the command itself; what fails in a plugin is a ``PluginError``."""
        try:
            value = reduce(getattr, self.attribute.split("."), import_module(self.module))
            COMMANDS[str(self.name)] = _command(str(self.name), value)
        except (Exception, SystemExit) as error:
            if not self.third_party:
                raise
            reason = f"{type(error).__name__}: {error}"
            problem = f"the command {self.name!r} of {self.module} failed: {reason}"
            raise PluginError(problem, "Update its package, or uninstall it.") from error
        return COMMANDS[str(self.name)]

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Make the context of the command itself."""
        return self.loaded().make_context(info_name, args, parent, **extra)


def _summary(module: str) -> str:
    """Return the first line of a module's docstring, after the name of its command; empty without a file."""
    path = module.replace(".", "/")
    files = (
        Path(folder, file) for folder in sys.path for file in (f"{path}.py", f"{path}/__init__.py")
    )
    source = next(
        (file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()), ""
    )
    match = re.match(r'(?:\s|#.*\n)*r?"""(?:``[^`]*``: )?(.)(.*?)(?:"""|\n)', source)
    return f"{match[1].upper()}{match[2]}" if match else ""


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
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and leave."
        ),
    ] = False,
    no_texts: Annotated[
        bool,
        typer.Option(
            "--no-texts", callback=_leave_texts_out, help="Print and store no texts of yours."
        ),
    ] = False,
) -> None:
    pass


def _command(name: str, value: Any) -> Any:
    """Return the command that Typer makes of a function or an application, whose argument types it reads now."""
    alone = typer.Typer(rich_markup_mode="markdown")
    if isinstance(value, typer.Typer):
        alone.add_typer(value, name=name)
    else:
        alone.command(name)(value)
    command = typer.main.get_group(alone).commands[name]
    for member in (command, *getattr(command, "commands", {}).values()):
        options = [param for param in member.params if param.param_type_name == "option"]
        for param in options if len(options) > MOST_IN_ONE_PANEL else ():
            param.rich_help_panel = param.rich_help_panel or _PANEL_OF.get(param.name)
        for param in member.params:
            _name_default_once(param)
    return command


def _name_default_once(param: Any) -> None:
    """Show the words on a parameter's default in one pair of brackets; Typer puts a second one around them."""
    words = param.show_default
    if isinstance(words, str):
        param._get_default_string = lambda **context: words


def main() -> None:
    """Run the command line: exit code 0 for success, 1 for something that failed, 2 for bad usage."""
    debug = os.environ.get("MIRRORBENCH_DEBUG") == "1"
    _open_streams()
    try:
        with _plain_warnings(), naming_options():
            try:
                app()
            finally:
                sys.stdout.flush()
    except (MirrorbenchError, RuntimeError) as error:
        problem = error if isinstance(error, MirrorbenchError) else lost_device(error)
        if debug or problem is None:
            raise
        report(problem)
        sys.exit(2 if isinstance(problem, UsageError | PluginError) else 1)
    except OSError as error:
        if debug or error.filename or not error.errno:
            raise
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # takes what could not be printed, when Python ends
        if not isinstance(
            error, BrokenPipeError
        ):  # the program that reads our output (head, less) has ended
            report(
                unwritable("Only a part of the output could be written", error, "write elsewhere")
            )
        sys.exit(1)


def _open_streams() -> None:
    """Open closed standard streams as /dev/null, and escape characters that cannot be printed."""
    # The descriptor of a closed stream would be that of the next file opened.
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
        return (
            f"Warning: {printable(str(message))}\n"
            if ours
            else usual(message, category, *where, **line)
        )

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
