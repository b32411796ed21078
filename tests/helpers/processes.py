"""Python modules in separate processes, started as a terminal does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def start(module: str, *arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """Start ``python -m MODULE`` in a process group of its own.

    Args:
        module: the program.
        arguments: its arguments.
        cwd: its working directory.
        environment: variables besides those of this process.

    Returns:
        The process, with both streams as text in pipes.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=os.environ | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_hear_ctrl_c,
    )


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that a process does; it fails if the process ends before, or after minutes."""
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _hear_ctrl_c() -> None:
    """Undo that a shell has tests in the background, and their children, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
