"""Files and folders that are complete or absent, the cache's folder, and leases on shared folders."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from typing import IO, TYPE_CHECKING

from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.core.quoting import printable

if TYPE_CHECKING:
    from filelock import OwnerRecord, SoftFileLease

TEMPORARY = ".part-"
"""Prefix of the name of a file until it is complete."""
PUT_ASIDE = "old"
"""Name, in a folder beside an output, of the old output until it is replaced."""
_LEASE, _MARK = (
    "lease",
    "UNFINISHED",
)  # in a folder beside an output: who works in it, and that it is ours

LEASE_SECONDS = 120.0
"""Seconds without a refresh after which a lease ends; network file systems cache times for up to a minute (NFS)."""
POLL_SECONDS = 0.2
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""The inode of the process namespace of Linux outside all containers (PROC_PID_INIT_INO)."""

# Why nothing can be written, and what helps; {} is how to name another output or folder.
_IN_THE_WAY = "A file is where a folder must be: {}"
_REMEDIES = {
    errno.ENOSPC: "Free some space, or {}",
    errno.EDQUOT: "Your quota is used up: free some space, or {}",
    errno.EROFS: "Nothing can be written there: {}",
    errno.EACCES: "You may not write there: {}",
    errno.EPERM: "You may not write there: {}",
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.ENAMETOOLONG: "Use a shorter name",
}


def unwritable(
    problem: str, error: Exception, another: str = "name another folder"
) -> StorageError:
    """Return the error for a refused write: the system's reason, and a remedy.

    Args:
        problem: the failed action, as the message begins.
        error: an ``OSError``, or the ``SafetensorError`` that safetensors makes of one.
        another: the user's way to name another place to write to.
    """
    quoted = re.search(r"\(os error (\d+)\)", str(error))
    full = errno.ENOSPC if " requested and " in str(error) else 0  # NumPy's error has no number
    number = int(quoted[1]) if quoted else getattr(error, "errno", None) or full
    reason = os.strerror(number) if quoted or full else getattr(error, "strerror", None) or error
    hint = _REMEDIES.get(number, "{}").format(another)
    return StorageError(f"{problem}: {reason}.", f"{hint[0].upper()}{hint[1:]}.")


def temporary_prefix(target: Path) -> str:
    """Return the start of the names of the temporary files that become a file, and no other in its folder."""
    return f"{TEMPORARY}{sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


@contextmanager
def writing(target: Path, store: Path | None = None, flush: bool = True) -> Iterator[IO[bytes]]:
    """Write a file atomically: a temporary file beside it is renamed once complete, or removed on an error.

    A symbolic link stays, and its target is written; a pipe or a device is written to as it is. The message of a
    ``StorageError`` names ``store``, if given, instead of ``target``. Without ``flush`` a power cut can leave an empty
    file: for files that readers check, and that can be made again.
    """
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as sink:
                yield sink
            return
        destination = Path(os.path.realpath(target))
        temporary = destination.with_name(f"{temporary_prefix(destination)}{token_hex(8)}")
        try:
            destination.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as sink:
                yield sink
                if flush:
                    sink.flush()
                    os.fsync(sink.fileno())
            os.replace(temporary, destination)
            if flush:
                sync_folder(destination.parent)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise unwritable(f"Cannot write {f'to {store}' if store else target}", error) from error


@contextmanager
def building(target: Path, prefix: str, problem: str, another: str) -> Iterator[Path]:
    """Make a new folder beside ``target``, removed at the end unless it was renamed; errors are ``StorageError``."""
    from safetensors import SafetensorError  # what a full disk raises under safetensors

    folder = target.with_name(f"{prefix}{token_hex(8)}")
    try:
        folder.mkdir(parents=True)
        yield folder
    except (OSError, SafetensorError) as error:
        raise unwritable(problem, error, another) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def beside(output: Path) -> Iterator[Path]:
    """Open a hidden folder beside ``output`` for incomplete files, in which no second process works.

    It is removed at the end if it is empty. Files left in it, also by a killed process, stay for the next one that
    writes ``output``. A file in it marks it as ours, not a user's folder of that name.
    """
    folder = place_beside(output)
    try:
        with _claimed(folder, output):
            try:
                yield folder
            finally:
                if _contents(folder) == {_MARK}:
                    (folder / _MARK).unlink()
    finally:
        with suppress(OSError):  # there is something in it, or it is in use again
            folder.rmdir()


def place_beside(output: Path) -> Path:
    """Return the path of the folder of ``beside``; ``..`` stays, since it leads elsewhere behind a symbolic link."""
    return output.parent / f".{os.path.basename(os.path.abspath(output))}.mirrorbench"


def _claimed(folder: Path, output: Path) -> AbstractContextManager[object]:
    """The lease on a folder, which is created and marked as ours; an error where it is a user's, or in use."""
    leases, another = Leases(folder), "name another output"
    try:
        if (
            folder.is_symlink()
            or folder.is_file()
            or (folder.is_dir() and _MARK not in (_contents(folder) or _MARK))
        ):
            raise UsageError(
                f"{folder} exists, and mirrorbench did not create it",
                f"Move it elsewhere, or {another}.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        while (lease := _taken(leases)) is None:
            if leases.is_fresh(_LEASE):
                holder = leases.holder(_LEASE) or "another process"
                raise UsageError(
                    f"{output} is being written by {holder}", f"Wait for it, or {another}."
                )
            time.sleep(
                POLL_SECONDS
            )  # until the lease of a process that was killed on another machine ends
        with ExitStack() as held:
            held.enter_context(lease)
            mark = f"What mirrorbench has not finished of {printable(output.name)}\n"
            (folder / _MARK).write_text(mark, encoding="utf-8")
            return held.pop_all()
    except OSError as error:
        raise unwritable(f"Cannot write {output}", error, another) from error


def _taken(leases: Leases) -> AbstractContextManager[object] | None:
    """The lease, tried again where another process has just removed the folder after its work."""
    try:
        return leases.take(_LEASE)
    except StorageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
    return leases.take(_LEASE)


def _contents(folder: Path) -> set[str]:
    """Names in a folder, those of its lease aside."""
    return {name for name in os.listdir(folder) if not name.startswith(_LEASE)}


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, where the system can (Windows cannot)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:  # some network file systems refuse it, and write names at once
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush files below a folder, then folders, to the disk; files get its permissions (safetensors' are private)."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            with open(Path(parent, name), "rb") as file:
                os.chmod(file.name, folder.stat().st_mode & 0o666)
                os.fsync(file.fileno())
        sync_folder(Path(parent))


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; ``OSError`` for a folder, and for a pipe or device, which would block."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return os.fdopen(handle, "rb")


def cache_root() -> Path:
    """Return the cache folder: ``MIRRORBENCH_CACHE``, or else the platform's cache directory of the user."""
    if configured := os.environ.get("MIRRORBENCH_CACHE"):
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("mirrorbench", appauthor=False))


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


def resolved(path: str | Path) -> Path:
    """Return the absolute path of a file or folder, without links; of a loop of links, which leads nowhere, its own."""
    return Path(os.path.realpath(os.path.expanduser(path)))
