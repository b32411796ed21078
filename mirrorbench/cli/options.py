"""Options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

DEVICE_HELP = "auto, cpu, cuda, cuda:N or mps."
PRECISION_HELP = "auto (bf16 on CUDA, else fp32), fp32 or bf16."
PROTOCOL_HELP = "paper: as published; released: as the authors' code does it."


def _load_plugins(files: list[Path] | None) -> list[Path] | None:
    if files:
        from mirrorbench.runs.builtin import plugins

        for file in files:
            plugins().add_file(file)
    return files


# fmt: off
PluginFiles = Annotated[list[Path] | None, typer.Option(
    "--plugin", metavar="FILE.py", callback=_load_plugins, is_eager=True,
    help="Load a Python file as a plugin; may be repeated.")]
DataDir = Annotated[Path | None, typer.Option(
    "--data-dir", envvar="MIRRORBENCH_DATA", help="Where data files are kept.",
    show_default="platform's data directory")]
Offline = Annotated[bool, typer.Option("--offline", help="Open no socket: what is not here is an error.")]
EncoderSpecText = Annotated[str, typer.Option(
    "--encoder", "-e", metavar="SPEC", help="BACKBONE[+METHOD][:KEY=VALUE,...].")]
Device = Annotated[str, typer.Option(help=DEVICE_HELP)]
Precision = Annotated[str, typer.Option(help=PRECISION_HELP)]
Protocol = Annotated[str, typer.Option(help=PROTOCOL_HELP)]
Standalone = Annotated[bool, typer.Option("--standalone", help="latex: a document that compiles.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
# fmt: on


def encoders_option(help_: str, default: str) -> Any:
    """``--encoder``, which may be repeated; ``default`` is the text shown for what is taken if none is given."""
    return typer.Option("--encoder", "-e", metavar="SPEC", help=help_, show_default=default)


def tasks_option(help_: str, default: str) -> Any:
    """``--tasks``, whose values ``split_names`` takes apart; ``default`` is the text shown if none is given."""
    return typer.Option("--tasks", "-t", metavar="NAME,...", help=help_, show_default=default)
