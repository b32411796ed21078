from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mirrorbench import leases
from mirrorbench.errors import StorageError
from mirrorbench.leases import Leases

HOLDER = """
import sys, time
from pathlib import Path
from mirrorbench.leases import Leases
lease = Leases(Path(sys.argv[1])).take("a")
assert lease is not None
print("held", flush=True)
time.sleep(120)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_one_holds_it_until_it_ends(tmp_path: Path) -> None:
    one, other = Leases(tmp_path / "leases"), Leases(tmp_path / "leases")
    held = one.take("a")
    assert held is not None
    with held:
        assert other.take("a") is None
        assert f"process {os.getpid()} on" in other.holder("a")
        with other.take("b") or pytest.fail("another name is another lease"):
            pass
    assert other.holder("a") == ""
    with other.take("a") or pytest.fail("it was released"):
        assert one.take("a") is None
    assert list((tmp_path / "leases").iterdir()) == []


def test_a_process_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    process, mine = holder(tmp_path), Leases(tmp_path)
    assert mine.take("a") is None
    process.kill()
    process.wait()
    with mine.take("a") or pytest.fail("its holder is dead"):
        pass


def test_a_holder_that_cannot_be_asked_loses_it_when_it_stops_refreshing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on another machine: only the file tells. A stopped process refreshes nothing."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    script = HOLDER.replace("lease =", "import mirrorbench.leases; mirrorbench.leases.LEASE_SECONDS = 1.0; lease =")
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        process.send_signal(signal.SIGSTOP)
        mine = Leases(tmp_path)
        assert mine.take("a") is None  # its process is there, after all
        began = time.monotonic()
        while (lease := mine.take("a")) is None:
            assert time.monotonic() - began < 60
            time.sleep(0.05)
        with lease:
            pass
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="only Linux tells")
def test_a_holder_that_was_killed_and_not_waited_for_holds_nothing(tmp_path: Path) -> None:
    process = holder(tmp_path)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    with Leases(tmp_path).take("a") or pytest.fail("its holder is a zombie"):
        pass
    process.wait()


def test_waiting_ends_when_the_holder_ends(tmp_path: Path) -> None:
    process = holder(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with Leases(tmp_path).wait("a"):
        pass


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(StorageError, match=f"Cannot write to {tmp_path / 'results'}: Not a directory"):
        Leases(tmp_path / "results" / ".leases").take("a")
