"""Options, formats and printing that commands share; imported for every ``--help``, so it imports little."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from mirrorbench.cli.completion import complete
from mirrorbench.core.errors import Lack, UsageError, unknown_name
from mirrorbench.core.quoting import printable
from mirrorbench.core.specs import Value, parse_params

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Registry
    from mirrorbench.reports.table import Table
    from mirrorbench.runs.registry import Renderer

ENCODER_HELP = "BACKBONE[+METHOD][:KEY=VALUE,...]; BACKBONE is a short name (mirrorbench list encoders), a hub id or a directory"
DEVICE_HELP = "auto, cpu, cuda, cuda:N or mps."
PRECISION_HELP = "Precision of the tuning: auto (bf16 on CUDA, fp16 before Ampere; else fp32), fp32, bf16 or fp16."
EVAL_PRECISION_HELP = "Precision of the evaluation: auto (fp32), fp32, bf16 or fp16."
PROTOCOL_HELP = "paper: as published; released: as in the authors' code."


def _load_plugins(files: list[Path] | None) -> list[Path] | None:
    """Load the files of ``--plugin``, as a callback of Typer; return them unchanged."""
    if files:
        from mirrorbench.runs.registry import plugins

        for file in files:
            plugins().add_file(file)
    return files


def _checked_notes(level: str) -> str:
    """Return a level of notes, or raise ``UsageError`` before anything is computed; empty for the default."""
    from mirrorbench.reports.table import Table

    if not level:
        return ""
    # A table checks the level.
    empty_table = Table("", (), ())
    return empty_table.with_notes(level).shown


PluginFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        callback=_load_plugins,
        is_eager=True,
        help="Load a Python file as a plugin; may be repeated.",
    ),
]
"""The option ``--plugin FILE.py`` of a command, which loads files as plugins.

The command of a plugin declares a parameter with this type and the default ``None``, and need not use the value (a list
of paths, or ``None``). The files are loaded before other options are read, into the process-wide plugins, which
``mirrorbench.Session`` and the functions of ``mirrorbench`` use.

Raises:
    PluginError: a file is missing, fails, or is not a plugin (exit code 2).

Example:
    >>> import mirrorbench
    >>> import typer
    >>> from typer.testing import CliRunner
    >>> from mirrorbench.plugin import PluginFiles, say
    >>> app = typer.Typer()
    >>> @app.command()
    ... def has_metric(name: str, plugin: PluginFiles = None) -> None:
    ...     say("yes" if name in mirrorbench.Session().plugins.metrics else "no")
    >>> CliRunner().invoke(app, ["spearman"]).output
    'yes\\n'
    >>> print(CliRunner().invoke(app, ["spearman", "--plugin", "missing.py"]).exception)
    no plugin file missing.py
"""
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="MIRRORBENCH_DATA",
        help="Folder where data files are kept.",
        show_default="the platform's data directory",
    ),
]
"""The option ``--data-dir DIR`` of a command: the folder where data files are kept.

The command of a plugin declares a parameter with this type and the default ``None``. The value is a path, from the
option or the environment variable ``MIRRORBENCH_DATA``; ``None`` stands for the platform's data directory. Pass it to
``DataStore``, or as ``data_dir`` to the functions of ``mirrorbench``.

Example:
    >>> import typer
    >>> from typer.testing import CliRunner
    >>> from mirrorbench.plugin import DataDir, DataStore, say
    >>> app = typer.Typer()
    >>> @app.command()
    ... def where(data_dir: DataDir = None) -> None:
    ...     say(str(DataStore(data_dir).root))
    >>> CliRunner().invoke(app, ["--data-dir", "my-data"]).output
    'my-data\\n'
"""
Offline = Annotated[
    bool,
    typer.Option("--offline", help="Do not use the network; missing data or models are errors."),
]
"""The flag ``--offline`` of a command: do not use the network.

The command of a plugin declares a parameter with this type and the default ``False``, and passes the value, a boolean,
as ``offline`` to the functions of ``mirrorbench`` or to ``DataStore``. The flag alone does not prevent a command's own
code from using the network.

Example:
    >>> import typer
    >>> from typer.testing import CliRunner
    >>> from mirrorbench.plugin import DataStore, Offline, say
    >>> app = typer.Typer()
    >>> @app.command()
    ... def check(offline: Offline = False) -> None:
    ...     store = DataStore(offline=offline)
    ...     say("data on this machine" if store.offline else "data may be fetched")
    >>> CliRunner().invoke(app, ["--offline"]).output
    'data on this machine\\n'
"""
EncoderSpecText = Annotated[
    str,
    typer.Option(
        "--encoder",
        "-e",
        metavar="SPEC",
        help=f"{ENCODER_HELP}.",
        autocompletion=complete("encoders"),
    ),
]
Device = Annotated[str, typer.Option(help=DEVICE_HELP, autocompletion=complete("devices"))]
"""The option ``--device NAME`` of a command: where to compute.

The command of a plugin declares a parameter with this type and the default ``"auto"``; the parameter must be called
``device``, since the option has its name. The value, ``auto`` (CUDA, else Apple's MPS, else the CPU), ``cpu``,
``cuda``, ``cuda:N`` or ``mps``, is not checked here: pass it as ``device`` to the functions of ``mirrorbench``, which
raise a ``UsageError`` for another name, or for a device that the machine does not have.

Example:
    >>> import mirrorbench
    >>> import typer
    >>> from typer.testing import CliRunner
    >>> from mirrorbench.plugin import Device, say
    >>> app = typer.Typer()
    >>> @app.command()
    ... def dimensions(encoder: str, device: Device = "auto") -> None:
    ...     vectors = mirrorbench.load(encoder, device=device).encode(["a cat"])
    ...     say(f"{encoder} has {vectors.shape[1]} dimensions")
    >>> CliRunner().invoke(app, ["tiny", "--device", "cpu"]).output
    'tiny has 256 dimensions\\n'
"""
Precision = Annotated[str, typer.Option(help=PRECISION_HELP, autocompletion=complete("precisions"))]
EvalPrecision = Annotated[
    str, typer.Option(help=EVAL_PRECISION_HELP, autocompletion=complete("precisions"))
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="markdown, latex, html, csv, json, or a plugin's; options follow the name: latex:columns=2.",
        show_default="by the ending of --output; else drawn on a terminal, Markdown in a pipe",
        autocompletion=complete("renderers"),
    ),
]
TextColumn = Annotated[
    str, typer.Option("--column", "-c", metavar="NAME", help="Column with the texts.")
]
Margin = Annotated[
    float | None,
    typer.Option(
        "--margin",
        metavar="M",
        help="Also test whether encoders are equal within M, such as .01.",
        show_default="none",
    ),
]
OfProtocol = Annotated[
    str,
    typer.Option(
        help="Only results under this protocol.",
        show_default="any",
        autocompletion=complete("protocols"),
    ),
]
Protocol = Annotated[str, typer.Option(help=PROTOCOL_HELP, autocompletion=complete("protocols"))]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")]


def _results_folder(name: str | Path) -> Path:
    """Return the path of ``--output``, which must not be empty: ``Path("")`` would be the working directory."""
    if not name:
        raise UsageError("--output is empty", "Name a folder for the results.")
    return Path(name)


ResultsFolder = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", parser=_results_folder, help="Folder for results."
    ),
]
Notes = Annotated[
    str,
    typer.Option(
        "--notes",
        metavar="LEVEL",
        callback=_checked_notes,
        help="Notes below the table: none, short (six lines) or all.",
        show_default="short; all in a file",
        autocompletion=complete("notes"),
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def encoders_option(help_: str, default: str) -> Any:
    """Return the option ``--encoder``, which may be repeated; the help shows ``default`` as its default."""
    return typer.Option(
        "--encoder",
        "-e",
        metavar="SPEC",
        help=help_,
        show_default=default,
        autocompletion=complete("encoders"),
    )


def tasks_option(help_: str, default: str) -> Any:
    """Return the option ``--tasks``, whose values ``split_names`` splits; the help shows ``default`` as its default."""
    return typer.Option(
        "--tasks",
        "-t",
        metavar="NAME,...",
        help=help_,
        show_default=default,
        autocompletion=complete("tasks"),
    )


def say(text: str = "", err: bool = False, nl: bool = True) -> None:
    r"""Print a text with control characters escaped, as ``\u001b`` for an escape character.

    Commands of plugins call it instead of ``print``: texts of data files and of the hub can then neither change the
    terminal's colours nor hide what follows. Newlines and tabs are printed as they are.

    Args:
        text: the text; by default an empty line.
        err: whether to print to standard error, as for progress and remarks (default: standard output).
        nl: whether to end with a newline (default true).

    Example:
        >>> from mirrorbench.plugin import say
        >>> say("3 letters")
        3 letters
        >>> say("a" + chr(27) + "[31m red text")
        a\u001b[31m red text
    """
    typer.echo(printable(text), err=err, nl=nl)


class _Console(Console):
    """A console that escapes control characters in texts, but not those that rich adds for colours and the cursor."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    @property
    def is_terminal(self) -> bool:
        """Whether the output goes to a terminal.

        Where it does not, tables are not cut to a width, and progress is a line from time to time. ``FORCE_COLOR``, which
        build servers and notebooks set, does not make a pipe a terminal. Commands that a notebook runs (``!mirrorbench``,
        whose kernel sets ``JPY_PARENT_PID``) have a pseudo-terminal without a cursor.
        """
        return self.file.isatty() and "JPY_PARENT_PID" not in os.environ


console = _Console()
stderr = _Console(stderr=True)
_NARROWEST = 24
"""Width in characters at which a text of several words is still readable."""
_GAP = 2
"""Characters between two columns of a listing."""


def print_wrapped(label: str, text: str, err: bool = False) -> None:
    """Print a text after its label; on a terminal, wrap it between words and align its lines."""
    if not console.is_terminal:
        say(label + text, err=err)
        return
    width = max(console.width - len(label), _NARROWEST)
    lines = wrap(text, width, break_long_words=False, break_on_hyphens=False)
    margin = label
    for line in lines or [""]:
        say(margin + line, err=err)
        margin = " " * len(label)


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a listing: as a table on a terminal; elsewhere tab-separated and not wrapped.

    On a terminal, the names in the first column are never cut, and other cells are wrapped between words. If the
    terminal is too narrow for that, columns are left out, the widest one first.
    """
    if not console.is_terminal:
        for row in (head, *rows):
            say("\t".join(row))
        return
    # From here on, columns are referred to by number. Empty ones are not shown, except for the names.
    columns = list(zip(head, *rows, strict=True))
    filled = [i for i, cells in enumerate(columns) if i == 0 or any(cells[1:])]
    # A column is at least as wide as is readable, and at most as wide as its longest cell; the names have that width.
    full_widths = [max(map(len, cells)) for cells in columns]
    least_widths = [full_widths[0], *map(_least_width, columns[1:])]
    shown = _columns_that_fit(filled, least_widths, console.width)

    table = Grid(box=None, pad_edge=False, header_style="bold")
    # Characters that are left in a line go to the first columns that can use them; none are if the names alone fill it.
    spare = max(console.width - _drawn_width(shown, least_widths), 0)
    for i in shown:
        width = min(full_widths[i], least_widths[i] + spare)
        spare -= width - least_widths[i]
        table.add_column(head[i], overflow="fold", width=width)
    for row in rows:
        # Text, not markup: a name may contain square brackets.
        table.add_row(*(Text(row[i]) for i in shown))
    console.print(table)
    left_out = [head[i] for i in filled if i not in shown]
    if left_out:
        names = ", ".join(left_out)
        note = f"(no room in {console.width} columns for: {names}; --json has all)"
        print_wrapped("", note, err=True)


def _columns_that_fit(columns: Sequence[int], widths: Sequence[int], width: int) -> list[int]:
    """Return the columns that fit into a width: always the first one; of the others, the widest are left out first."""
    shown = list(columns)
    while len(shown) > 1 and _drawn_width(shown, widths) > width:
        shown.remove(max(shown[1:], key=lambda i: widths[i]))
    return shown


def _drawn_width(columns: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[i] for i in columns) + _GAP * (len(columns) - 1)


def _least_width(cells: Sequence[str]) -> int:
    """Return the width that a column needs for its longest word, and for enough words in a line to be readable."""
    longest_word = max((len(word) for cell in cells for word in cell.split()), default=0)
    longest_cell = max(map(len, cells))
    return max(longest_word, min(longest_cell, _NARROWEST))


def print_numbers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print numbers with names in the first column: as a table on a terminal, as Markdown into a file or a pipe."""
    if console.is_terminal:
        table = Grid(box=None, pad_edge=False, header_style="bold")
        for column in head:
            table.add_column(column, justify="left" if column == head[0] else "right")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
        return
    from tabulate import tabulate

    sides = ["left", *["right"] * (len(head) - 1)]
    say(tabulate(rows, head, tablefmt="pipe", colalign=sides, disable_numparse=True))


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    import json

    say(json.dumps(value, indent=2, ensure_ascii=False))


def print_or_write(text: str, output: Path | None) -> None:
    """Print a text to standard output, or write it into a file."""
    from mirrorbench.storage.files import writing

    if output:
        with writing(output) as sink:
            sink.write(text.encode())
    else:
        say(text, nl=False)


@contextmanager
def on_interrupt(message: str) -> Iterator[None]:
    """Turn Ctrl-C inside into exit code 130 and a message, to which the interrupted code may have added notes."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        # Not through rich, which swallows all later lines if it is interrupted while it prints.
        say(" ".join([message, *getattr(interrupt, "__notes__", ())]), err=True)
        raise typer.Exit(130) from None


def on_interrupt_go_on(folder: Path) -> Any:
    """Turn Ctrl-C inside into the message that the same command continues from the results in ``folder``."""
    return on_interrupt(
        f"Interrupted. Results so far are in {folder}; run the same command again to continue."
    )


def chosen_format(
    text: str, output: Path | None, renderers: Registry[Renderer]
) -> tuple[str, dict[str, Value]]:
    """Return the name of a table's format and the values of its options, from ``--format`` and ``--output``.

    ``text`` is the value of ``--format``, ``NAME:OPTIONS``. Without a name, the ending of the output gives the format:
    Markdown for an output without an ending. The format is empty if there is no output either. Options are a renderer's
    keyword-only arguments whose default is true, false, a number or a text.

    Raises:
        UsageError: an unknown ending or option, a value of the wrong type, or options without a format.
    """
    name, _, option_text = text.partition(":")
    if output and not name:
        name = _format_of_ending(output.suffix.lower() or ".md", renderers)
    # Without options, an unknown name is returned too.
    if not option_text:
        return name, {}
    # The type of an option is that of its default.
    types = {}
    for parameter in signature(renderers[name].render).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            types[parameter.name] = type(parameter.default)
    options: dict[str, Value] = {}
    for option, value in parse_params(option_text, text):
        if option not in types:
            raise unknown_name(f"option of the format {name}", option, list(types))
        expected_type = types[option]
        # A text that looks like a number was parsed as one.
        typed_value = str(value) if expected_type is str else value
        # Not isinstance, for which true would be a whole number.
        if type(typed_value) is not expected_type:
            problem = f"{option}={value} is not of type {expected_type.__name__}"
            raise UsageError(f"--format {text}: {problem}")
        options[option] = typed_value
    return name, options


def _format_of_ending(ending: str, renderers: Registry[Renderer]) -> str:
    """Return the format whose files have an ending; ``UnknownNameError`` without one."""
    formats: dict[str, str] = {}
    for entry in renderers:
        formats |= dict.fromkeys(entry.value.endings, entry.name)
    if ending not in formats:
        raise unknown_name("ending of an output", ending, list(formats))
    return formats[ending]


def print_table(table: Table, notes: str = "") -> None:
    """Print a table with notes, short ones if ``notes`` is empty: drawn on a terminal, else as Markdown."""
    from mirrorbench.reports.renderers import draw, markdown

    table = table.with_notes(notes or "short")
    if console.is_terminal:
        draw(table, console)
    else:
        say(markdown(table), nl=False)


def lines_on_lacks(lacks: Iterable[Lack]) -> Iterator[str]:
    """Yield lines on missing data and models: their names, the hosts that did not answer, and what to do."""
    lacks = list(lacks)
    models = _without_repeats(lack.name for lack in lacks if lack.category == "models")
    data = _without_repeats(lack.name for lack in lacks if lack.category == "data")
    hosts = _without_repeats(host for lack in lacks for host in lack.hosts)
    if models:
        yield f"  models  {', '.join(models)}"
    if data:
        yield f"  data    {', '.join(data)}"
    if hosts:
        yield f"No answer from {', '.join(hosts)}."
    yield "What to do:"
    # A host that did not answer was asked, so the command was not offline.
    command = "the same command" if hosts else "the same command without --offline"
    if data:
        command += ", or mirrorbench data fetch NAME ..."
    yield f"  with a network  {command}"
    options = []
    if data:
        options.append("data: mirrorbench data import DIR")
    if models:
        options.append("a model: --encoder ./path/to/model, or HF_HOME=DIR for another cache")
    yield f"  with the files  {'; '.join(options)}"
    yield "  with neither    mirrorbench run: the model and the data inside the package"


def _without_repeats(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
