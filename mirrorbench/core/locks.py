"""Leases: who is at work on what, among processes and machines that share a folder.

A lease is a file that its holder refreshes. It ends when the holder releases it; when the holder's process is dead,
which another process of the same machine sees at once; or when nobody has refreshed it for ``LEASE_SECONDS`` of the
waiting process's own clock, so that clocks that disagree do no harm. It saves work and guards nothing: every file is
written under a temporary name and renamed, and who was only suspended may go on and write the same bytes once more.

The file is made with ``O_CREAT | O_EXCL`` (filelock's ``SoftFileLease``), which is atomic on local file systems, NFS
from version 3, Lustre, GPFS, BeeGFS and SMB; not on folders that a synchroniser copies about (Dropbox, rsync), nor on
object stores mounted as folders.

A lease that a dead process left is taken over by filelock, which exchanges two names in one step so that of several
who want it one gets it. What filelock does not take over is dealt with here: it takes a process that has ended for a
living one until its parent has looked at it, and a lease without a word for held; and where names cannot be exchanged
(NFS, SMB) it waits for ever.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import StorageError

if TYPE_CHECKING:
    from filelock import OwnerRecord, SoftFileLease

LEASE_SECONDS = 120.0
"""Longer than network file systems keep a file's times in memory (a minute on NFS)."""
POLL_SECONDS = 0.2
EMPTY_SECONDS = 5.0
"""How long a lease may be without a word in it: its holder writes at once, unless it died just then. As long one that
was written over may stay: filelock takes it over in two seconds if it can."""
ABANDONED = b"its holder has ended\n"
"""What is written over the lease of a holder that has ended."""

INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""Of Linux outside all containers (PROC_PID_INIT_INO); filelock puts others behind the name of the machine."""


class Leases:
    """The leases of a folder.

    Args:
        folder: where their files lie; made with the first lease, and left there, since another process may be about
            to put one in.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[str, SoftFileLease] = {}  # each remembers since when it has seen no refresh
        self._since: dict[tuple[str, str], tuple[tuple[int, int], float]] = {}  # of ``_unchanged``

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
                if not self._cleared(name):
                    return None
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

    def _cleared(self, name: str) -> bool:
        """Whether a lease was removed whose holder has ended, or has not refreshed it for long.

        What can be left to filelock is: the lease of who has ended is written over, through the open file that was
        judged. If another process has taken it over meanwhile, its lease is another file, and the words go to one that
        has no name any more. It is removed if it still lies there long after filelock would have taken it over.
        """
        path, owner = self.folder / f"{name}.lease", self._lease(name).owner
        with suppress(OSError):  # gone, another user's, or on a system that moves no file that is open
            with path.open("r+b") as file:  # to open is to ask the server, where a network file system remembers
                words, judged = file.read(), _state(os.fstat(file.fileno()))
                if words != ABANDONED and self._holder_has_ended(name, words, owner, judged):
                    file.seek(0)
                    file.write(ABANDONED)
                    file.truncate()
                    return False
            patience = EMPTY_SECONDS if words == ABANDONED else 1.25 * LEASE_SECONDS
            return self._unchanged(name, "silent", judged) > patience and _removed(path, judged)
        return False

    def _holder_has_ended(self, name: str, words: bytes, owner: OwnerRecord | None, judged: tuple[int, int]) -> bool:
        if not words:
            return self._unchanged(name, "empty", judged) > EMPTY_SECONDS
        if owner is None or not owner.token or owner.token.encode() not in words:  # taken over between two looks
            return False
        return _has_ended(owner)

    def _unchanged(self, name: str, what: str, state: tuple[int, int]) -> float:
        """Seconds of this process's own clock since a lease was first seen in a state that it is still in."""
        now = time.monotonic()
        seen, since = self._since.get((name, what), (state, now))
        self._since[name, what] = state, since if seen == state else now
        return now - self._since[name, what][1]

    def _lease(self, name: str) -> SoftFileLease:
        from filelock import SoftFileLease

        if name not in self._seen:
            # Not bound to a thread: who takes a lease may hand it to a generator that ends elsewhere.
            path = self.folder / f"{name}.lease"
            self._seen[name] = SoftFileLease(path, lease_duration=LEASE_SECONDS, thread_local=False)
        return self._seen[name]


def _state(found: os.stat_result) -> tuple[int, int]:
    """What differs between two leases of one name, and between one and the same before and after it was refreshed."""
    return found.st_ino, found.st_mtime_ns


def _removed(path: Path, judged: tuple[int, int]) -> bool:
    """Remove a lease that is still in the state in which it was judged.

    Where names cannot be exchanged two may do so at once; who finds that it has moved another's lease moves it back.
    """
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    path.rename(aside)
    moved = _state(aside.stat()) == judged
    if not moved:
        with suppress(OSError):  # a third process was faster, or there are no links
            os.link(aside, path)
    aside.unlink()
    return moved


def _has_ended(owner: OwnerRecord) -> bool:
    """Whether the holder is a process of this machine that has ended, as far as Linux tells.

    Until its parent has looked at it the system knows its number, so that it passes for alive; Ray's daemon leaves
    killed workers so for minutes.
    """
    host, mark, space = owner.hostname.partition("?")
    if host != socket.gethostname():
        return False
    try:  # a container may share the machine's name, and counts processes of its own
        here = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return False
    if not (space == f"pidns-{here:x}" if mark else here == INITIAL_PID_NAMESPACE):
        return False
    try:
        state = Path(f"/proc/{owner.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return state.rpartition(")")[2].split()[:1] == ["Z"]
