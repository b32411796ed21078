from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from mirrorbench.core.errors import StorageError
from mirrorbench.storage.checksums import CHECKSUMS, damaged_files, write_checksums
from mirrorbench.storage.files import building, sync_tree, unwritable, writing


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
    directory = 0o777 & ~umask
    file = 0o666 & ~umask
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
