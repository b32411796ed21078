"""Leases on shared folders, by which processes and machines divide work."""

from __future__ import annotations

import os
import socket
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.storage.files import open_regular, unwritable

if TYPE_CHECKING:
    from filelock import OwnerRecord, SoftFileLease

LEASE_SECONDS = 120.0
"""Seconds without a refresh after which a lease ends; network file systems cache times for up to a minute (NFS)."""
POLL_SECONDS = 0.2
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""The inode of the process namespace of Linux outside all containers (PROC_PID_INIT_INO)."""


class Leases:
    """The leases of a folder, by which processes and machines that share it divide work.

    A lease is a file that its holder refreshes: filelock's ``SoftFileLease``, made with ``O_CREAT | O_EXCL``, which is
    atomic on local and network file systems, not on folders that are synchronised or object stores. It saves work and
    guards nothing: files are written under a temporary name and renamed, so that work done twice does no harm.

    It ends when it is released, when its holder's process has ended (seen at once on the same machine), or when nobody
    has refreshed it for ``LEASE_SECONDS`` of the waiting process's own clock. filelock takes such leases over; removed
    here are those of zombies, which it takes for living (Ray leaves killed workers so for minutes), and those on file
    systems that cannot exchange two names (NFS, SMB), where it waits for ever.

    The folder is never removed: another process may be about to put a lease in.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[
            str, SoftFileLease
        ] = {}  # each remembers since when it has seen no refresh
        self._since: dict[
            str, tuple[tuple[int, int], float]
        ] = {}  # state of a lease's file, and first seen when

    def take(self, name: str) -> AbstractContextManager[object] | None:
        """Take the lease called ``name``, which ``with`` releases; ``None`` if another process holds it."""
        from filelock import LeaseSettingsMismatch, Timeout

        lease = self._lease(name)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for _ in range(2):
                with suppress(Timeout):
                    return lease.acquire(timeout=0)
                if not self._removed(name):
                    break
            return None
        except (OSError, LeaseSettingsMismatch) as error:
            raise unwritable(f"Cannot write to {self.folder.parent}", error) from error

    def wait(self, name: str) -> AbstractContextManager[object]:
        """Take the lease called ``name`` as soon as it is free."""
        while (held := self.take(name)) is None:
            time.sleep(POLL_SECONDS)
        return held

    def holder(self, name: str) -> str:
        """Return the holder of a lease as its file names it: ``process 123 on node7``; empty if there is none."""
        owner = self._lease(name).owner
        return f"process {owner.pid} on {owner.hostname.partition('?')[0]}" if owner else ""

    def is_fresh(self, name: str) -> bool:
        """Return whether a lease was refreshed within ``LEASE_SECONDS``, by the clocks of machine and file system."""
        with suppress(OSError):
            return time.time() - (self.folder / f"{name}.lease").stat().st_mtime < LEASE_SECONDS
        return False

    def _removed(self, name: str) -> bool:
        """Remove a lease whose holder has ended, or has not refreshed it for longer than filelock waits."""
        path, now = self.folder / f"{name}.lease", time.monotonic()
        with suppress(
            OSError
        ):  # gone, another user's, or on a system that removes no file that is open
            state, owner = _state(path), self._lease(name).owner
            seen, since = self._since.get(name, (state, now))
            self._since[name] = state, since if seen == state else now
            silent = now - self._since[name][1] > 1.25 * LEASE_SECONDS
            if (silent or (owner and _has_ended(owner))) and _state(path) == state:
                path.unlink()
                return True
        return False

    def _lease(self, name: str) -> SoftFileLease:
        from filelock import SoftFileLease

        if name not in self._seen:
            path = (
                self.folder / f"{name}.lease"
            )  # not bound to a thread: a generator may end in another one
            self._seen[name] = SoftFileLease(path, lease_duration=LEASE_SECONDS, thread_local=False)
        return self._seen[name]


def _state(path: Path) -> tuple[int, int]:
    with open_regular(
        path
    ) as file:  # to open is to ask the server, where a network file system remembers
        status = os.fstat(file.fileno())
    return status.st_ino, status.st_mtime_ns


def _has_ended(owner: OwnerRecord) -> bool:
    """Whether the holder is a process of this machine (and container) that has ended, waited for or not."""
    import psutil

    host, _, space = owner.hostname.partition("?pidns-")
    with suppress(OSError):  # no such file but on Linux
        here = Path("/proc/self/ns/pid").stat().st_ino
        if space != ("" if here == _INITIAL_PID_NAMESPACE else f"{here:x}"):
            return False
    try:
        return host == socket.gethostname() and bool(
            psutil.Process(owner.pid).status() == psutil.STATUS_ZOMBIE
        )
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
