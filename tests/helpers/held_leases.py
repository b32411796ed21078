"""Leases that another process holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HOLDER = """
import socket, sys, time
from pathlib import Path
from mirrorbench.storage import leases
leases.LEASE_SECONDS = {seconds}
if {host!r}:
    socket.gethostname = lambda: {host!r}
lease = leases.Leases(Path(sys.argv[1])).take({name!r})
assert lease is not None
print("held", flush=True)
time.sleep(120)
"""

Hold = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """Starts a process that holds the lease ``a``, perhaps under the name of another machine."""
    processes = []

    def start(
        seconds: float = 120.0, host: str = "", folder: Path = tmp_path, name: str = "a"
    ) -> subprocess.Popen[str]:
        script = HOLDER.format(seconds=seconds, host=host, name=name)
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
