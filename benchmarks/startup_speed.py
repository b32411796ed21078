"""Start-up of the command line, with and without compiled modules."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measuring import Table, alternate

COMMANDS = (("--help",), ("list", "tasks"), ("leaderboard", "."))
TRANSFORMERS = ("-c", "from transformers import AutoModel")


def startup(table: Table, rounds: int) -> None:
    """Compare each command with an import of transformers' AutoModel, which none of them needs."""
    table.title(
        "Start-up: there one import of transformers' AutoModel; cold is without compiled Python modules"
    )
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "results")
        empty.mkdir()
        for command in COMMANDS:
            arguments = ("-m", "mirrorbench", *command)
            own, other = alternate(
                [lambda a=arguments: _run(a, empty), lambda: _run(TRANSFORMERS, empty)], rounds
            )
            table.add(f"mirrorbench {' '.join(command)}", "warm", "warm", own, other)
        own, other = alternate(
            [
                lambda: _cold(("-m", "mirrorbench", "--help"), empty),
                lambda: _cold(TRANSFORMERS, empty),
            ],
            1,
            warm_up=False,
        )
        table.add("mirrorbench --help", "cold", "cold", own, other)


def _run(arguments: Sequence[str], folder: Path, **environment: str) -> None:
    """Run one command in a process of its own; only a traceback is an error."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={
            **os.environ,
            "MIRRORBENCH_DATA": str(folder),
            "MIRRORBENCH_CACHE": str(folder),
            **environment,
        },
        capture_output=True,
        text=True,
    )
    if "Traceback" in done.stderr:
        raise SystemExit(done.stderr)


def _cold(arguments: Sequence[str], folder: Path) -> None:
    with tempfile.TemporaryDirectory() as compiled:
        _run(arguments, folder, PYTHONPYCACHEPREFIX=compiled)
