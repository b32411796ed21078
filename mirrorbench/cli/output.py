"""How commands print: listings, JSON, lines as they are, and what Ctrl-C says."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A listing: drawn on a terminal; elsewhere tab-separated, where nothing is wrapped or cut off."""
    if not sys.stdout.isatty():
        for row in (head, *rows):
            typer.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in head:
        table.add_column(column, overflow="fold", no_wrap=column != head[-1])
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # a name may hold square brackets, which are markup
    Console().print(table)


def print_json(value: Any) -> None:
    """A value as JSON."""
    import json

    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_or_write(text: str, output: Path | None) -> None:
    """A text to standard output, or into a file."""
    from mirrorbench.core.files import writing

    if output:
        with writing(output) as sink:
            sink.write(text.encode())
    else:
        typer.echo(text, nl=False)


def in_bytes(n: float) -> str:
    """A number of bytes as people read it: ``1.2 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


@contextmanager
def on_interrupt(message: str) -> Iterator[None]:
    """Ctrl-C inside is one message and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        # Not through rich: where it was interrupted while it printed, it keeps every later line to itself.
        typer.echo(message, err=True)
        raise typer.Exit(130) from None


def on_interrupt_go_on(folder: Path) -> Any:
    """Ctrl-C inside says that the same command goes on from what lies in ``folder``."""
    return on_interrupt(f"Interrupted. What is done is stored in {folder}; the same command goes on from there.")
