"""The ``mirrorbench`` command.

Each sub-command has a module, which imports heavy libraries only when the command runs. A command is a function or an
application of Typer. Its module is imported when the command is called; ``--help`` shows the first line of the module's
docstring without importing it. A plugin adds a command with an entry point of the group ``mirrorbench.commands``.
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
    "card": "card.card",
    "leaderboard": "leaderboard.leaderboard",
    "compare": "compare.compare",
    "list": "listing.list_registered",
    "data": "data.data_app",
    "analyze": "analyze.analyze_app",
    "cache": "cache.cache_app",
    "doctor": "doctor.doctor",
    "evaluate": "evaluate.evaluate",
    "same": "same.same",
    "paper": "paper.paper",
    "plugin": "scaffold.plugin_app",
}
"""Module and attribute of each command, or the command itself after its import; also those of plugins, once imported."""

MOST_IN_ONE_PANEL = 6
"""Maximum number of options that a help page shows without panels."""
_PANELS = {
    "What": "encoder encoders tasks task seeds seed corpus protocol baselines limit results run table metric "
    "without_overlap allow_mixed suite level language here kind column columns held_out words_in_context span_columns "
    "texts data cosine tuned_on evaluate show x log samples word",
    "How": "precision eval_precision deterministic dry_run intervals ties margin sort method",
    "Where": "device executor workers address data_dir offline plugin",
    "Output": "output keep items notes quiet format_ title as_json force merge",
}
"""Panels in the help of a command with many options, with the parameters of their options."""


class _Commands(TyperGroup):
    """The group of all commands, which imports a command only when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": COMMANDS})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the built-in commands, then of those of plugins."""
        return [*COMMANDS, *sorted(commands_of_plugins().keys() - COMMANDS.keys())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command called ``cmd_name``, built in or of a plugin, else ``None``; its module is imported later.

        Raises:
            UsageError: the command is that of a plugin that the user disabled.
        """
        command = COMMANDS.get(cmd_name)
        # A text stands for a command that was not called yet. Its module is imported by the call.
        if isinstance(command, str):
            module, _, attribute = command.partition(".")
            return LateCommand(cmd_name, f"mirrorbench.cli.{module}", attribute)
        if command is not None:
            return command
        point = commands_of_plugins().get(cmd_name)
        if point is not None:
            return LateCommand(cmd_name, point.module, point.attr, third_party=True)
        # There is no such command, or it is disabled. While the shell completes a line, errors must not be printed.
        if ctx.resilient_parsing:
            return None
        for disabled in entry_points(group=GROUP, name=cmd_name):
            plugin = disabled.dist.name if disabled.dist else disabled.module
            problem = f"the command {cmd_name} of the plugin {plugin} is disabled"
            raise UsageError(problem, f"Remove it from {DISABLE}.")
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
        """Return the command itself, after importing its module; it takes its place in ``COMMANDS``.

        Raises:
            PluginError: the module of a plugin fails.
        """
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
        """Return the context of the command itself."""
        return self.loaded().make_context(info_name, args, parent, **extra)


def _summary(module: str) -> str:
    """Return the first line of a module's docstring, without the name of the command before it.

    The file of the module is read, not imported. Without a file or a docstring the summary is empty.
    """
    file = _source_file(module)
    if file is None:
        return ""
    source = file.read_text(encoding="utf-8", errors="replace")
    # Blank lines and comments, the opening quotes, the name of the command, and the summary up to the end of the line.
    match = re.match(r'(?:\s|#.*\n)*r?"""(?:``[^`]*``: )?(.)(.*?)(?:"""|\n)', source)
    if match is None:
        return ""
    first_letter, rest = match.groups()
    return first_letter.upper() + rest


def _source_file(module: str) -> Path | None:
    path = module.replace(".", "/")
    for folder in sys.path:
        for file in (Path(folder, f"{path}.py"), Path(folder, path, "__init__.py")):
            if file.is_file():
                return file
    return None


app = typer.Typer(
    name="mirrorbench",
    cls=_Commands,
    help="Turn pretrained language models into text encoders, and measure the gain in the papers' tables.",
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
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    no_texts: Annotated[
        bool,
        typer.Option(
            "--no-texts", callback=_leave_texts_out, help="Never print or store your texts."
        ),
    ] = False,
) -> None:
    pass


def _command(name: str, value: Any) -> Any:
    """Return the command that Typer creates from a function or an application."""
    group = typer.Typer(rich_markup_mode="markdown")
    if isinstance(value, typer.Typer):
        group.add_typer(value, name=name)
    else:
        group.command(name)(value)
    command = typer.main.get_group(group).commands[name]
    _arrange_help(command)
    for subcommand in getattr(command, "commands", {}).values():
        _arrange_help(subcommand)
    return command


def _arrange_help(command: Any) -> None:
    """Put the options of a command into panels if there are many, and show each default in one pair of brackets."""
    options = [param for param in command.params if param.param_type_name == "option"]
    if len(options) > MOST_IN_ONE_PANEL:
        for param in options:
            param.rich_help_panel = param.rich_help_panel or _panel(param.name)
    for param in command.params:
        _show_default_in_one_bracket(param)


def _panel(parameter: str) -> str | None:
    """Return the panel of a parameter; ``None`` for an option of a plugin's command, which has no panel."""
    for panel, parameters in _PANELS.items():
        if parameter in parameters.split():
            return panel
    return None


def _show_default_in_one_bracket(param: Any) -> None:
    """Show the description of a default as it is; Typer would put parentheses around it."""
    description = param.show_default
    if isinstance(description, str):
        param._get_default_string = lambda **context: description


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
        # A RuntimeError of torch may mean that the GPU is lost; any other one is a bug and keeps its traceback.
        problem = error if isinstance(error, MirrorbenchError) else lost_device(error)
        if debug or problem is None:
            raise
        report(problem)
        sys.exit(2 if isinstance(problem, UsageError | PluginError) else 1)
    except OSError as error:
        # An error in printing has a number (full disk, broken pipe) but no file name; any other is raised as it is.
        is_from_printing = bool(error.errno) and not error.filename
        if debug or not is_from_printing:
            raise
        # When Python ends, it prints what is left in the buffer: to /dev/null, or it would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        # A broken pipe is not an error to report: the program that reads our output (head, less) has ended.
        if not isinstance(error, BrokenPipeError):
            problem = unwritable(
                "Only a part of the output could be written", error, "write elsewhere"
            )
            report(problem)
        sys.exit(1)


def _open_streams() -> None:
    """Open closed standard streams as /dev/null, and escape characters that cannot be printed."""
    # Otherwise the next file opened would get the descriptor of a closed stream.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print warnings of this package in one line inside, without file and line number."""
    default_format = warnings.formatwarning

    def format_warning(
        message: Warning | str, category: type[Warning], *where: Any, **line: Any
    ) -> str:
        package = category.__module__.partition(".")[0]
        if package == "mirrorbench":
            return f"Warning: {printable(str(message))}\n"
        return default_format(message, category, *where, **line)

    warnings.formatwarning = format_warning
    try:
        yield
    finally:
        warnings.formatwarning = default_format


def report(error: MirrorbenchError) -> None:
    """Print an error to standard error: what is wrong, then what to do."""
    from rich.text import Text

    from mirrorbench.cli.display import stderr

    stderr.print(Text.assemble(("Error: ", "bold red"), error.message), soft_wrap=True)
    if error.hint:
        stderr.print(Text(error.hint), soft_wrap=True)
