"""Listings: drawn on a terminal, plain tab-separated lines where another program reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a listing; off a terminal nothing is wrapped or cut off."""
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
