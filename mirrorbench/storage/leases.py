"""Leases in shared folders, by which processes and machines divide work."""

from __future__ import annotations

import os
import socket
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mirrorbench.storage.files import open_regular, unwritable

if TYPE_CHECKING:
    from filelock import OwnerRecord, SoftFileLease

LEASE_SECONDS = 120.0
"""Seconds without a refresh after which a lease ends; network file systems (NFS) cache times for up to a minute."""
POLL_SECONDS = 0.2
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""The inode of the process namespace of Linux outside all containers (PROC_PID_INIT_INO)."""
_FileState = tuple[int, int]
"""Inode and time of the last write of a file."""


class _Sighting(NamedTuple):
    """What this process saw of the file of another process's lease since its last refresh."""

    state: _FileState
    """State of the file."""
    since: float
    """Time at which this process first saw it in this state, by ``time.monotonic``."""


class Leases:
    """The leases of a folder, by which processes and machines that share it divide work.

    A lease is a file that its holder refreshes: filelock's ``SoftFileLease``, made with ``O_CREAT | O_EXCL``. This is
    atomic on local and network file systems, but not in synchronised folders or object stores. Leases avoid duplicate
    work; they are not locks. Files are written under a temporary name and renamed, so that work done twice is harmless.

    A lease ends when it is released, when its holder's process has ended (seen at once on the same machine), or when it
    was not refreshed for ``LEASE_SECONDS`` by the clock of the waiting process. filelock takes over leases that ended,
    with two exceptions, which are removed here: leases of zombies, which filelock takes for running processes (Ray
    leaves killed workers as zombies for minutes), and leases on file systems that cannot exchange two names (NFS, SMB),
    where filelock waits for ever.

    The folder is never removed: another process may be about to create a lease in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # One object for each lease, since it remembers how long it has seen no refresh.
        self._leases: dict[str, SoftFileLease] = {}
        self._sightings: dict[str, _Sighting] = {}

    def take(self, name: str) -> AbstractContextManager[object] | None:
        """Take the lease called ``name``, which a ``with`` block releases; ``None`` if another process holds it."""
        from filelock import LeaseSettingsMismatch, Timeout

        lease = self._lease(name)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Try once more if the lease was held, but its holder has ended.
            for _ in range(2):
                with suppress(Timeout):
                    return lease.acquire(timeout=0)
                if not self._remove_ended(name):
                    break
            return None
        except (OSError, LeaseSettingsMismatch) as error:
            raise unwritable(f"Cannot write to {self.folder.parent}", error) from error

    def wait(self, name: str) -> AbstractContextManager[object]:
        """Take the lease called ``name`` as soon as it is free."""
        lease = self.take(name)
        while lease is None:
            time.sleep(POLL_SECONDS)
            lease = self.take(name)
        return lease

    def holder(self, name: str) -> str:
        """Return the holder that the file of a lease names: ``process 123 on node7``; empty if there is none."""
        owner = self._lease(name).owner
        if not owner:
            return ""
        # filelock appends a mark of the process namespace to the name of the host.
        host = owner.hostname.partition("?")[0]
        return f"process {owner.pid} on {host}"

    def is_fresh(self, name: str) -> bool:
        """Return whether a lease was refreshed within ``LEASE_SECONDS``, by the clocks of machine and file system."""
        with suppress(OSError):
            return time.time() - self._path(name).stat().st_mtime < LEASE_SECONDS
        return False

    def _remove_ended(self, name: str) -> bool:
        """Remove a lease if its holder has ended, or has not refreshed it for longer than filelock waits.

        Return whether it was removed.
        """
        path = self._path(name)
        now = time.monotonic()
        # An OSError means that the file is gone or another user's, or that the system does not remove open files.
        with suppress(OSError):
            state = _state(path)
            owner = self._lease(name).owner
            # Since when this process has seen the lease in this state, i.e. not refreshed.
            sighting = self._sightings.get(name)
            if sighting is None or sighting.state != state:
                sighting = _Sighting(state, now)
                self._sightings[name] = sighting
            is_silent = now - sighting.since > 1.25 * LEASE_SECONDS
            has_ended = is_silent or (owner is not None and _has_ended(owner))
            # Another process may have taken the lease since the file was read.
            if has_ended and _state(path) == state:
                path.unlink()
                return True
        return False

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.lease"

    def _lease(self, name: str) -> SoftFileLease:
        from filelock import SoftFileLease

        if name not in self._leases:
            # Not bound to a thread: a generator that holds a lease may end in another thread.
            self._leases[name] = SoftFileLease(
                self._path(name), lease_duration=LEASE_SECONDS, thread_local=False
            )
        return self._leases[name]


def _state(path: Path) -> _FileState:
    # A network file system answers from its memory unless the file is opened.
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
    return status.st_ino, status.st_mtime_ns


def _has_ended(owner: OwnerRecord) -> bool:
    """Return whether the holder of a lease ran on this machine and in this container, and has ended.

    A zombie counts as ended. False if it is unknown.
    """
    import psutil

    # filelock names the process namespace of a holder unless it is the initial one.
    host, _, namespace = owner.hostname.partition("?pidns-")
    # Process ids of another namespace mean other processes. /proc exists only on Linux; elsewhere there are none.
    with suppress(OSError):
        inode = Path("/proc/self/ns/pid").stat().st_ino
        this_namespace = "" if inode == _INITIAL_PID_NAMESPACE else f"{inode:x}"
        if namespace != this_namespace:
            return False
    if host != socket.gethostname():
        return False
    try:
        return bool(psutil.Process(owner.pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
