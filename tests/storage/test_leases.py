"""Leases on shared folders."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from helpers.held_leases import Hold, hold

from mirrorbench.core.errors import StorageError
from mirrorbench.storage import leases
from mirrorbench.storage.leases import Leases

__all__ = ["hold"]


def on_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot exchange two names in one step (NFS, SMB)."""
    import filelock._soft

    monkeypatch.setattr(filelock._soft, "exchange_names", lambda *names: False)


def seconds_until_taken(folder: Path) -> float:
    mine = Leases(folder)
    began = time.monotonic()
    with mine.wait("a"):
        assert mine.holder("a").startswith(f"process {os.getpid()} on ")
        return time.monotonic() - began


def test_lease_excludes_others_until_released(tmp_path: Path) -> None:
    one = Leases(tmp_path / "leases")
    other = Leases(tmp_path / "leases")
    with one.take("a") or pytest.fail("it is free"):
        assert other.take("a") is None
        assert f"process {os.getpid()} on" in other.holder("a")
        with other.take("b") or pytest.fail("another name is another lease"):
            pass
    assert other.holder("a") == ""
    with other.take("a") or pytest.fail("it was released"):
        assert one.take("a") is None
    assert list((tmp_path / "leases").iterdir()) == []


@pytest.mark.parametrize("waited_for", [True, False])
def test_killed_process_loses_its_lease(
    tmp_path: Path, hold: Hold, waited_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it stays a zombie, and on a network."""
    if not waited_for:
        on_a_network(monkeypatch)
    process = hold()
    assert Leases(tmp_path).take("a") is None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if waited_for else os.WNOWAIT))
    assert seconds_until_taken(tmp_path) < 30 < leases.LEASE_SECONDS


def test_lease_expires_without_refreshes(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process refreshes nothing; one that was killed before it wrote its name neither."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    hold(1.0).send_signal(signal.SIGSTOP)
    assert Leases(tmp_path).take("a") is None  # its process is there, after all
    assert seconds_until_taken(tmp_path) < 30
    (tmp_path / "a.lease").touch()
    assert 1 < seconds_until_taken(tmp_path) < 30


@pytest.mark.slow
def test_remote_lease_expires_only_without_refreshes(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a holder on another host only its refreshes count, not whether this machine has a process of its number."""
    on_a_network(monkeypatch)
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    process = hold(1.0, "node7")
    mine = Leases(tmp_path)
    assert mine.holder("a") == f"process {process.pid} on node7"
    began = time.monotonic()
    while time.monotonic() - began < 1.6:  # it lives on, refreshing
        assert mine.take("a") is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    # This machine has no process of that number; that says nothing about node7.
    assert mine.take("a") is None
    assert 0.3 < seconds_until_taken(tmp_path) < 30


def test_file_blocking_the_lease_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("mirrorbench did not create it")
    with pytest.raises(
        StorageError, match=f"Cannot write to {tmp_path / 'results'}: Not a directory"
    ):
        Leases(tmp_path / "results" / ".leases").take("a")
