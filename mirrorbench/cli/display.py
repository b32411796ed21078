"""Options, formats and printing that commands share; imported for every ``--help``, so it imports little."""

from __future__ import annotations

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
PRECISION_HELP = (
    "Of tuning: auto (on CUDA bf16, before Ampere fp16; else fp32), fp32, bf16 or fp16."
)
EVAL_PRECISION_HELP = "Of evaluation: auto (fp32), fp32, bf16 or fp16."
PROTOCOL_HELP = "paper: as published; released: as the authors' code does it."


def _load_plugins(files: list[Path] | None) -> list[Path] | None:
    if files:
        from mirrorbench.runs.registry import plugins

        for file in files:
            plugins().add_file(file)
    return files


def _checked_notes(level: str) -> str:
    """Check a level of notes before anything is computed."""
    from mirrorbench.reports.table import Table

    return Table("", (), ()).with_notes(level).shown if level else ""


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
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="MIRRORBENCH_DATA",
        help="Where data files are kept.",
        show_default="platform's data directory",
    ),
]
Offline = Annotated[
    bool,
    typer.Option("--offline", help="Do not use the network; missing data or models are errors."),
]
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
Precision = Annotated[str, typer.Option(help=PRECISION_HELP, autocompletion=complete("precisions"))]
EvalPrecision = Annotated[
    str, typer.Option(help=EVAL_PRECISION_HELP, autocompletion=complete("precisions"))
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="markdown, latex, html, csv, json, or a plugin's; its options follow: latex:columns=2.",
        show_default="by the ending of --output; drawn; Markdown into a pipe",
        autocompletion=complete("renderers"),
    ),
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
Notes = Annotated[
    str,
    typer.Option(
        "--notes",
        metavar="LEVEL",
        callback=_checked_notes,
        help="Below the table: none, short (six lines) or all.",
        show_default="short; all in a file",
        autocompletion=complete("notes"),
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def encoders_option(help_: str, default: str) -> Any:
    """``--encoder``, which may be repeated; ``default`` is the text shown for what is taken if none is given."""
    return typer.Option(
        "--encoder",
        "-e",
        metavar="SPEC",
        help=help_,
        show_default=default,
        autocompletion=complete("encoders"),
    )


def tasks_option(help_: str, default: str) -> Any:
    """``--tasks``, whose values ``split_names`` takes apart; ``default`` is the text shown if none is given."""
    return typer.Option(
        "--tasks",
        "-t",
        metavar="NAME,...",
        help=help_,
        show_default=default,
        autocompletion=complete("tasks"),
    )


def say(text: str = "", err: bool = False, nl: bool = True) -> None:
    """Print a text with control characters escaped."""
    typer.echo(printable(text), err=err, nl=nl)


class _Console(Console):
    """A console that escapes control characters of texts; colours and moves of the cursor by rich pass."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


console, stderr = _Console(), _Console(stderr=True)
_NARROWEST = 24
"""Characters in which a text of several words is still read."""
_GAP = 2
"""Characters between two columns of a listing."""


def print_wrapped(label: str, text: str, err: bool = False) -> None:
    """Print a text behind its label; a terminal breaks it between words, and indents what follows."""
    if not console.is_terminal:
        say(label + text, err=err)
        return
    lines = wrap(
        text,
        max(console.width - len(label), _NARROWEST),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines or [""]):
        say((" " * len(label) if number else label) + line, err=err)


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a listing: drawn on a terminal; elsewhere tab-separated, where nothing is wrapped.

    On a terminal names, which are in the first column, are never cut, and other cells break between words. Columns
    that leave no room for that are left out, the widest one first.
    """
    if not console.is_terminal:
        for row in (head, *rows):
            say("\t".join(row))
        return
    columns = list(zip(head, *rows, strict=True))
    filled = [i for i, cells in enumerate(columns) if i == 0 or any(cells[1:])]
    longest = [max(map(len, column)) for column in columns]
    least = [longest[0], *map(_least_width, columns[1:])]
    shown = _columns_that_fit(filled, least, console.width)
    room = console.width - _drawn_width(shown, least)
    table = Grid(box=None, pad_edge=False, header_style="bold")
    for i in shown:
        width = min(longest[i], least[i] + max(room, 0))
        room -= width - least[i]
        table.add_column(head[i], overflow="fold", width=width)
    for row in rows:
        # Text, since a name may hold square brackets, which are markup.
        table.add_row(*(Text(row[i]) for i in shown))
    console.print(table)
    if left_out := [head[i] for i in filled if i not in shown]:
        names = ", ".join(left_out)
        print_wrapped(
            "", f"(no room in {console.width} columns for: {names}; --json has all)", True
        )


def _columns_that_fit(columns: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return the columns that stay in a listing, of which the first always does and the widest goes first."""
    shown = list(columns)
    while len(shown) > 1 and _drawn_width(shown, least) > width:
        shown.remove(max(shown[1:], key=lambda i: least[i]))
    return shown


def _drawn_width(columns: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[i] for i in columns) + _GAP * (len(columns) - 1)


def _least_width(cells: Sequence[str]) -> int:
    """Return the width that a column needs: of its longest word, and of enough words to be read in few lines."""
    longest_word = max((len(word) for cell in cells for word in cell.split()), default=0)
    longest_cell = max(map(len, cells))
    return max(longest_word, min(longest_cell, _NARROWEST))


def print_numbers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of numbers, named in its first column: drawn on a terminal, Markdown into a file or a pipe."""
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
    """Turn Ctrl-C inside into a message, with the notes of what was interrupted, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        # Not through rich, which swallows all later lines if it is interrupted while it prints.
        say(" ".join([message, *getattr(interrupt, "__notes__", ())]), err=True)
        raise typer.Exit(130) from None


def on_interrupt_go_on(folder: Path) -> Any:
    """Turn Ctrl-C inside into the message that the same command goes on from the results in ``folder``."""
    return on_interrupt(
        f"Interrupted. Results so far are in {folder}; run the same command again to continue."
    )


def chosen_format(
    text: str, output: Path | None, renderers: Registry[Renderer]
) -> tuple[str, dict[str, Value]]:
    """Return the format asked for, by name or by the output's ending (Markdown for none), and its options.

    Options are a renderer's keyword-only arguments whose default is true, false, a number or a text.

    Raises:
        UsageError: an unknown ending or option, or a value of the wrong type.
    """
    name, _, tail = text.partition(":")
    endings = {ending: entry.name for entry in renderers for ending in entry.value.endings}
    if output and not name:
        if (ending := output.suffix.lower() or ".md") not in endings:
            raise unknown_name("ending of an output", ending, list(endings))
        name = endings[ending]
    options: dict[str, Value] = {}
    if not tail:
        return name, options
    parameters = signature(renderers[name].render).parameters.values()
    known = {p.name: type(p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}
    for option, value in parse_params(tail, text):
        if option not in known:
            raise unknown_name(f"option of the format {name}", option, list(known))
        options[option] = str(value) if known[option] is str else value
        if type(options[option]) is not known[option]:
            raise UsageError(
                f"--format {text}: {option}={value} is not of type {known[option].__name__}"
            )
    return name, options


def print_table(table: Table, notes: str = "") -> None:
    """Print a table with its notes, by default short ones: drawn on a terminal, Markdown into a file or a pipe."""
    from mirrorbench.reports.renderers import draw, markdown

    table = table.with_notes(notes or "short")
    if console.is_terminal:
        draw(table, console)
    else:
        say(markdown(table), nl=False)


def summary(lacks: Iterable[Lack]) -> Iterator[str]:
    """Yield lines on missing data and models: names by category, hosts, remedies."""
    lacks = list(lacks)
    named = {
        c: list(dict.fromkeys(lack.name for lack in lacks if lack.category == c))
        for c in ("models", "data")
    }
    for category, names in named.items():
        if names:
            yield f"  {category:7} {', '.join(names)}"
    hosts = list(dict.fromkeys(host for lack in lacks for host in lack.hosts))
    if hosts:
        yield f"No answer from {', '.join(hosts)}."
    yield "What to do:"
    again = "the same command" if hosts else "the same command without --offline"
    yield f"  with a network  {again}" + (
        ", or mirrorbench data fetch NAME ..." if named["data"] else ""
    )
    files = ["data: mirrorbench data import DIR"] if named["data"] else []
    files += (
        ["a model: --encoder ./path/to/model, or HF_HOME=DIR for another cache"]
        if named["models"]
        else []
    )
    yield f"  with the files  {'; '.join(files)}"
    yield "  with neither    mirrorbench run: the model and the data inside the package"
