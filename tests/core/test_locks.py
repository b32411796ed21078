from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import OwnerRecord, Timeout

from mirrorbench.core import locks as leases
from mirrorbench.core.errors import StorageError
from mirrorbench.core.locks import Leases

HOLDER = """
import sys, time
from pathlib import Path
from mirrorbench.core.locks import Leases
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
    shorter = "from mirrorbench.core import locks as leases; leases.LEASE_SECONDS = 1.0; lease ="
    script = HOLDER.replace("lease =", shorter)
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
    mine = Leases(tmp_path)
    began = time.monotonic()
    with mine.wait("a"):
        assert time.monotonic() - began < 60 < leases.LEASE_SECONDS
        assert f"process {os.getpid()} on" in mine.holder("a")
    process.wait()


def test_who_was_taken_for_dead_too_late_takes_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the moment when the holder is seen to have ended and what is done about it, a third takes the lease."""
    process, late, quick = holder(tmp_path), Leases(tmp_path), Leases(tmp_path)
    taken = []

    def judge(owner: OwnerRecord) -> bool:
        process.kill()
        process.wait()
        monkeypatch.undo()
        taken.append(quick.take("a"))
        return True

    monkeypatch.setattr(leases, "_has_ended", judge)
    assert late.take("a") is None
    with taken[0] or pytest.fail("its holder was dead"):
        began = time.monotonic()
        while time.monotonic() - began < 3:  # longer than a lease lasts that names no holder
            assert late.take("a") is None
            time.sleep(0.1)
    assert len(taken) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS and SMB do: two names cannot be exchanged in one step."""
    import filelock._soft

    monkeypatch.setattr(filelock._soft, "exchange_names", lambda *names: False)
    monkeypatch.setattr(leases, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(leases, "EMPTY_SECONDS", 0.5)


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_dead_holder_where_names_cannot_be_exchanged(tmp_path: Path, no_exchange: None, where: str) -> None:
    shorter = "from mirrorbench.core import locks as leases; leases.LEASE_SECONDS = 2.0; lease ="
    if where == "elsewhere":
        shorter = "import socket; socket.gethostname = lambda: 'node7'; " + shorter
    script = HOLDER.replace("lease =", shorter)
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    mine = Leases(tmp_path)
    began = time.monotonic()
    while time.monotonic() - began < 2 * leases.LEASE_SECONDS:
        assert mine.take("a") is None  # it lives, and refreshes
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert mine.take("a") is None
    assert ((tmp_path / "a.lease").read_bytes() == leases.ABANDONED) == (where == "here")
    with mine.wait("a"):
        assert mine.holder("a").startswith(f"process {os.getpid()} on ")
        assert [file.name for file in tmp_path.iterdir()] == ["a.lease"]


def test_a_lease_that_changed_hands_is_moved_back(
    tmp_path: Path, no_exchange: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that remove one silent lease, the slower has moved the quicker one's away."""
    path = tmp_path / "a.lease"
    path.write_text("silent\n")
    mine, quicker = Leases(tmp_path), Leases(tmp_path)
    held = []

    def at_the_last_moment(n: int) -> str:
        monkeypatch.undo()
        path.unlink()
        held.append(quicker.take("a"))
        return "aside"

    began = time.monotonic()
    monkeypatch.setattr(leases.secrets, "token_hex", at_the_last_moment)
    # filelock draws tokens too; what it would do with such a lease is not looked at here.
    monkeypatch.setattr(mine._lease("a"), "acquire", lambda timeout: (_ for _ in ()).throw(Timeout("a")))
    while not held:
        assert mine.take("a") is None
        assert time.monotonic() - began < 30
        time.sleep(0.05)
    with held[0] or pytest.fail("it was free"):
        assert f"process {os.getpid()} on" in mine.holder("a")
        assert [file.name for file in tmp_path.iterdir()] == ["a.lease"]


@pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="only Linux tells")
def test_who_has_ended_is_known_of_processes_that_are_counted_here(tmp_path: Path) -> None:
    process = holder(tmp_path)
    record = Leases(tmp_path)._lease("a").owner
    assert record is not None
    assert not leases._has_ended(record)
    process.kill()
    process.wait()
    assert leases._has_ended(record)
    assert not leases._has_ended(record._replace(hostname=f"{record.hostname}?pidns-1"))  # a container of that name
    assert not leases._has_ended(record._replace(hostname="node7"))


def test_waiting_ends_when_the_holder_ends(tmp_path: Path) -> None:
    process = holder(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    mine = Leases(tmp_path)
    with mine.wait("a"):
        assert f"process {os.getpid()} on" in mine.holder("a")
    assert mine.holder("a") == ""


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(StorageError, match=f"Cannot write to {tmp_path / 'results'}: Not a directory"):
        Leases(tmp_path / "results" / ".leases").take("a")


ELSEWHERE = HOLDER.replace(
    "lease =",
    "import socket; socket.gethostname = lambda: 'node7'; "
    "import mirrorbench.core.locks; mirrorbench.core.locks.LEASE_SECONDS = 4.0; lease =",
)


def test_two_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a holder with another host name only the refreshes count, not whether a process of its number is here."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 4.0)
    process = subprocess.Popen([sys.executable, "-c", ELSEWHERE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        mine = Leases(tmp_path)
        assert mine.holder("a") == f"process {process.pid} on node7"
        began = time.monotonic()
        while time.monotonic() - began < 1.5 * leases.LEASE_SECONDS:  # it lives on, refreshing
            assert mine.take("a") is None
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
    assert mine.take("a") is None  # no process of that number is here; that says nothing about node7
    with mine.wait("a"):
        assert mine.holder("a").startswith(f"process {os.getpid()} on ")


def test_a_holder_that_was_killed_before_it_wrote_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "EMPTY_SECONDS", 0.5)
    (tmp_path / "work.lease").touch()
    waiting = Leases(tmp_path)
    assert waiting.take("work") is None  # its holder may be about to write
    began = time.monotonic()
    with waiting.wait("work"):
        assert 0.5 <= time.monotonic() - began < 30
        assert (tmp_path / "work.lease").stat().st_size
    assert waiting.take("work") is not None
