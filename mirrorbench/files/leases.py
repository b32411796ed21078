"""Leases: who is at work on what, among processes and machines that share a folder.

A lease is a file that its holder refreshes. It ends when the holder releases it; when the holder's process is dead,
which another process of the same machine sees at once; or when nobody has refreshed it for ``LEASE_SECONDS`` of the
waiting process's own clock, so that clocks that disagree do no harm. It saves work and guards nothing: every file is
written under a temporary name and renamed, and who was only suspended may go on and write the same bytes once more.

The file is made with ``O_CREAT | O_EXCL`` (filelock's ``SoftFileLease``), which is atomic on local file systems, NFS
from version 3, Lustre, GPFS, BeeGFS and SMB; not on folders that a synchroniser copies about (Dropbox, rsync), nor on
object stores mounted as folders.
"""

from __future__ import annotations

import socket
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.errors import StorageError

if TYPE_CHECKING:
    from filelock import SoftFileLease

LEASE_SECONDS = 120.0
"""Longer than network file systems keep a file's times in memory (a minute on NFS)."""
POLL_SECONDS = 0.2
EMPTY_SECONDS = 5.0
"""How long a lease may be without a word in it: its holder writes at once, unless it died just then."""


class Leases:
    """The leases of a folder.

    Args:
        folder: where their files lie; made with the first lease, and left there, since another process may be about
            to put one in.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[str, SoftFileLease] = {}  # each remembers since when it has seen no refresh
        self._empty: dict[str, float] = {}  # since when, by this process's clock, a lease has been without a word

    def take(self, name: str) -> AbstractContextManager[object] | None:
        """The lease called ``name``, held already and given back by a ``with``; ``None`` if another process holds it.

        Raises:
            StorageError: the folder cannot be written, or the disk is full.
        """
        from filelock import LeaseSettingsMismatch, Timeout

        lease = self._lease(name)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                return lease.acquire(timeout=0)
            except Timeout:
                if not (self._left_by_zombie(lease) or self._left_empty(name)):
                    return None
                lease.force_break()
                return lease.acquire(timeout=0)
        except Timeout:
            return None
        except (OSError, LeaseSettingsMismatch) as error:
            raise StorageError(
                f"Cannot write to {self.folder.parent}: {getattr(error, 'strerror', None) or error}.",
                "Free some space, or name another folder.",
            ) from error

    def wait(self, name: str) -> AbstractContextManager[object]:
        """As ``take``, but wait until the lease is free."""
        while (held := self.take(name)) is None:
            time.sleep(POLL_SECONDS)
        return held

    def holder(self, name: str) -> str:
        """Who holds a lease, as far as its file says: ``process 123 on node7``; empty if nobody does."""
        owner = self._lease(name).owner
        return f"process {owner.pid} on {owner.hostname.partition('?')[0]}" if owner else ""

    def _left_by_zombie(self, lease: SoftFileLease) -> bool:
        """Whether the holder is a process of this machine that has ended and that its parent has not yet looked at.

        The system still knows its number, so it passes for alive; Ray's daemon leaves killed workers so for minutes.
        """
        owner = lease.owner
        if owner is None or owner.hostname.partition("?")[0] != socket.gethostname():
            return False
        try:
            state = Path(f"/proc/{owner.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it is gone altogether, or this is no Linux
            return False
        return state.rpartition(")")[2].split()[:1] == ["Z"]

    def _left_empty(self, name: str) -> bool:
        """Whether a lease has stayed empty: its holder was killed between making the file and writing its name."""
        try:
            empty = not (self.folder / f"{name}.lease").stat().st_size
        except OSError:  # given back meanwhile
            empty = False
        if not empty:
            self._empty.pop(name, None)
            return False
        return time.monotonic() - self._empty.setdefault(name, time.monotonic()) > EMPTY_SECONDS

    def _lease(self, name: str) -> SoftFileLease:
        from filelock import SoftFileLease

        if name not in self._seen:
            # Not bound to a thread: who takes a lease may hand it to a generator that ends elsewhere.
            path = self.folder / f"{name}.lease"
            self._seen[name] = SoftFileLease(path, lease_duration=LEASE_SECONDS, thread_local=False)
        return self._seen[name]
