"""What ``mirrorbench analyze`` prints and writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mirrorbench.analysis.study import Session
    from mirrorbench.runs.cells import Cell


def figure_formats(text: str) -> tuple[str, ...]:
    """Formats from ``pdf,svg``; none for ``none``. Without matplotlib the default is none, with a word about it.

    Raises:
        UsageError: an unknown format, or one that was asked for and cannot be made.
    """
    from mirrorbench.analysis.canvas import check_formats, have_matplotlib
    from mirrorbench.cli.options import split_names

    if not text and not have_matplotlib():
        typer.echo("No figure: matplotlib is not installed (pip install 'mirrorbench[figures]').", err=True)
        return ()
    return () if text == "none" else check_formats(split_names([text or "pdf"]))


def provenance(session: Session) -> dict[str, Any]:
    """Where an analysis's numbers come from: encoders, task, protocol, seed, version."""
    return {
        "task": session.task,
        "seed": session.seed,
        "protocol": session.protocol,
        "encoders": [_encoder(session, cell) for cell in session.plan().cells],
    }


def _encoder(session: Session, cell: Cell) -> dict[str, Any]:
    pooling = cell.pooling
    return {
        "encoder": session.label(cell.spec),
        "spec": str(cell.spec),
        "weights": cell.model.key,
        "corpus": cell.model.corpus.name if cell.model.corpus else None,
        "readout": [pooling.mode, pooling.layers, pooling.max_length] if pooling else None,
        "precision": cell.precision,
    }


def leave(
    stem: Path,
    rows: Sequence[Mapping[str, Any]],
    document: Mapping[str, Any],
    draw: Callable[[], Figure],
    formats: Sequence[str],
    table: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Print a table, write the numbers and draw the figure.

    Args:
        stem: path of the files without a suffix.
        rows: of the CSV file; printed too, unless there is a ``table``.
        document: what else goes into the JSON file.
        draw: makes the figure.
        formats: of the figure.
        table: what to print instead of ``rows``.
    """
    from mirrorbench import __version__
    from mirrorbench.analysis import canvas
    from mirrorbench.analysis.report import cell_text, write_numbers
    from mirrorbench.cli.output import print_rows

    stem = stem.with_name(re.sub(r"[^\w.=,-]", "_", stem.name))  # a task's name may hold options after a colon
    lines = rows if table is None else table
    if lines:
        print_rows([name.replace("_", " ") for name in lines[0]], [[cell_text(v) for v in r.values()] for r in lines])
    made = {"version": __version__, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    files = write_numbers(stem, rows, {"analysis": stem.name, **document, **made})
    if formats:
        with canvas.style():
            files += canvas.save(draw(), stem, formats)
    typer.echo(f"written: {', '.join(map(str, files))}", err=True)


def leave_failures(session: Session) -> None:
    """Say which encoders failed and why; exit code 1 if any did."""
    for failure in session.failures:
        typer.echo(f"Failed: {failure.spec} on {failure.task}: {failure.reason}\n{failure.hint}".rstrip(), err=True)
    if session.failures:
        raise typer.Exit(1)
