from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from mirrorbench.core import files
from mirrorbench.core.checksums import CHECKSUMS, damaged_files, write_checksums
from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.core.files import Leases, beside, building, sync_tree, unwritable, writing

HOLDER = """
import socket, sys, time
from pathlib import Path
from mirrorbench.core import files
files.LEASE_SECONDS = {seconds}
if {host!r}:
    socket.gethostname = lambda: {host!r}
lease = files.Leases(Path(sys.argv[1])).take({name!r})
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


def on_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot exchange two names in one step (NFS, SMB)."""
    import filelock._soft

    monkeypatch.setattr(filelock._soft, "exchange_names", lambda *names: False)


def seconds_until_taken(folder: Path) -> float:
    mine, began = Leases(folder), time.monotonic()
    with mine.wait("a"):
        assert mine.holder("a").startswith(f"process {os.getpid()} on ")
        return time.monotonic() - began


def test_lease_excludes_others_until_released(tmp_path: Path) -> None:
    one, other = Leases(tmp_path / "leases"), Leases(tmp_path / "leases")
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
    assert seconds_until_taken(tmp_path) < 30 < files.LEASE_SECONDS


def test_lease_expires_without_refreshes(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process refreshes nothing; one that was killed before it wrote its name neither."""
    monkeypatch.setattr(files, "LEASE_SECONDS", 1.0)
    hold(1.0).send_signal(signal.SIGSTOP)
    assert Leases(tmp_path).take("a") is None  # its process is there, after all
    assert seconds_until_taken(tmp_path) < 30
    (tmp_path / "a.lease").touch()
    assert 1 < seconds_until_taken(tmp_path) < 30


@pytest.mark.slow
def test_remote_lease_expires_only_without_refreshes(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a holder with another host name only the refreshes count, not whether a process of its number is here."""
    on_a_network(monkeypatch)
    monkeypatch.setattr(files, "LEASE_SECONDS", 1.0)
    process, mine = hold(1.0, "node7"), Leases(tmp_path)
    assert mine.holder("a") == f"process {process.pid} on node7"
    began = time.monotonic()
    while time.monotonic() - began < 1.6:  # it lives on, refreshing
        assert mine.take("a") is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert (
        mine.take("a") is None
    )  # no process of that number is here; that says nothing about node7
    assert 0.3 < seconds_until_taken(tmp_path) < 30


def test_file_blocking_the_lease_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("mirrorbench did not create it")
    with pytest.raises(
        StorageError, match=f"Cannot write to {tmp_path / 'results'}: Not a directory"
    ):
        Leases(tmp_path / "results" / ".leases").take("a")


def test_checksum_list_identifies_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    contents = {"a.txt": b"a", "deep/ü b.txt": b""}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in contents.items()]
    for _ in range(2):  # a list does not list itself
        write_checksums(tmp_path)
        assert (tmp_path / CHECKSUMS).read_text(encoding="utf-8").splitlines() == lines
    (tmp_path / "new.txt").write_bytes(b"what is not on the list cannot be wrong")
    for content in (b"a", b"b"):
        (tmp_path / "a.txt").write_bytes(content)
        assert damaged_files(tmp_path) == ("" if content == b"a" else "a.txt")
        if shutil.which("sha256sum"):
            checked = subprocess.run(
                ["sha256sum", "--check", "--status", CHECKSUMS], cwd=tmp_path, check=False
            )
            assert (checked.returncode == 0) == (content == b"a")
    (tmp_path / "deep" / "ü b.txt").unlink()
    assert damaged_files(tmp_path) == "a.txt, deep/ü b.txt"
    (tmp_path / CHECKSUMS).write_bytes(b"\xff")
    assert damaged_files(tmp_path) == f"no {CHECKSUMS}"
    (tmp_path / CHECKSUMS).unlink()
    assert damaged_files(tmp_path) == f"no {CHECKSUMS}"


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_written_files_and_folders_respect_the_umask(
    tmp_path: Path, umask: int, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(partial(os.umask, os.umask(umask)))
    with writing(tmp_path / "a" / "file") as sink:
        sink.write(b"x")
    with building(tmp_path / "model", ".part-", "", "") as folder:
        (folder / "inside").mkdir()
        (folder / "inside" / "weights").touch(0o600)  # as safetensors does
        sync_tree(folder)
        os.replace(folder, tmp_path / "model")
    modes = {
        path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777
        for path in tmp_path.rglob("*")
    }
    directory, file = 0o777 & ~umask, 0o666 & ~umask
    assert modes == {
        "a": directory,
        "a/file": file,
        "model": directory,
        "model/inside": directory,
        "model/inside/weights": file,
    }


@pytest.mark.parametrize(
    ("error", "reason", "hint"),
    [
        (errno.ENOSPC, "No space left on device", "Free some space, or go elsewhere."),
        (errno.EROFS, "Read-only file system", "Nothing can be written there: go elsewhere."),
        (errno.EACCES, "Permission denied", "You may not write there: go elsewhere."),
        (errno.ENOTDIR, "Not a directory", "A file is where a folder must be: go elsewhere."),
        (
            errno.EDQUOT,
            "quota exceeded",
            "Your quota is used up: free some space, or go elsewhere.",
        ),
        (errno.EIO, "Input/output error", "Go elsewhere."),
    ],
)
def test_write_error_hints_match_the_cause(error: int, reason: str, hint: str) -> None:
    told = unwritable("x is not written", OSError(error, os.strerror(error)), "go elsewhere")
    assert told.message.startswith("x is not written: ")
    assert reason in told.message
    assert told.hint == hint


def test_operating_system_write_errors_are_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    in_the_way = (
        r"(File exists|Not a directory)\.\nA file is where a folder must be: name another folder\."
    )
    for target, told in (
        ("file", in_the_way),
        ("x" * 300, r"File name too long\.\nUse a shorter name\."),
    ):
        with pytest.raises(StorageError, match=told), writing(tmp_path / target / "a"):
            pytest.fail("it cannot be written")
    with pytest.raises(SafetensorError) as raised:
        save_file({"a": np.ones(3)}, tmp_path / "file" / "weights")
    assert re.fullmatch(f"x: {in_the_way}", str(unwritable("x", raised.value)))
    with pytest.raises(OSError, match="requested and") as short:
        np.zeros(10_000).tofile("/dev/full")
    assert str(unwritable("x", short.value)).startswith(
        "x: No space left on device.\nFree some space"
    )


def test_writing_follows_links_and_supports_pipes(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "table").write_text("old")
    for name, aim in (("link", "there/table"), ("dangling", "there/new")):
        (tmp_path / name).symlink_to(aim)
        with writing(tmp_path / name) as sink:
            sink.write(name.encode())
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / aim).read_text() == name
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    with writing(tmp_path / "pipe") as sink:
        sink.write(b"through it")
    assert reader.communicate()[0] == b"through it"
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(StorageError, match="No space left"), writing(Path("/dev/full")) as sink:
        sink.write(b"x")
    assert {file.name for file in tmp_path.iterdir()} == {"there", "link", "dangling", "pipe"}


class TestBeside:
    def test_output_paths_with_links_and_parents_resolve(self, tmp_path: Path) -> None:
        (tmp_path / "deep" / "er").mkdir(parents=True)
        (tmp_path / "link").symlink_to("deep/er")
        for output in (tmp_path / "link" / ".." / "v.npy", tmp_path / "missing" / ".." / "v.npy"):
            with beside(output) as folder:
                (folder / "v").touch()
                os.replace(folder / "v", output)
        assert (tmp_path / "deep" / "v.npy").is_file()
        assert (tmp_path / "v.npy").is_file()

    def test_working_folder_persists_until_empty(self, tmp_path: Path) -> None:
        with suppress(KeyboardInterrupt), beside(tmp_path / "new" / "v.npy") as folder:
            (folder / "half").touch()
            raise KeyboardInterrupt
        assert folder.parent == tmp_path / "new"
        assert folder.name.startswith(".")
        with beside(tmp_path / "new" / "v.npy") as again:
            assert again == folder
            (again / "half").unlink()
        assert list((tmp_path / "new").iterdir()) == []

    @pytest.mark.parametrize("kind", ["file", "folder", "link"])
    def test_foreign_paths_are_refused_and_kept(self, tmp_path: Path, kind: str) -> None:
        with beside(tmp_path / "v.npy") as folder:
            pass
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("years of work")
        makers: dict[str, Callable[..., object]] = {
            "file": shutil.copy,
            "folder": shutil.copytree,
            "link": os.symlink,
        }
        makers[kind](tmp_path / "mine" / ("thesis.tex" if kind == "file" else ""), folder)
        with (
            pytest.raises(UsageError, match="mirrorbench did not create it"),
            beside(tmp_path / "v.npy"),
        ):
            pytest.fail("it is not ours")
        assert (folder if kind == "file" else folder / "thesis.tex").read_text() == "years of work"

    def test_output_locked_by_another_machine_is_refused(
        self, tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "LEASE_SECONDS", 1.0)
        process = hold(1.0, "node7", tmp_path / ".v.npy.mirrorbench", "lease")
        message = rf"v\.npy is being written by process {process.pid} on node7"
        with pytest.raises(UsageError, match=message), beside(tmp_path / "v.npy"):
            pytest.fail("another process is at work")
        process.kill()
        process.wait()
        lease = tmp_path / ".v.npy.mirrorbench" / "lease.lease"
        os.utime(lease, (lease.stat().st_mtime - 10,) * 2)
        with beside(tmp_path / "v.npy"):
            pass
        assert list(tmp_path.iterdir()) == []
