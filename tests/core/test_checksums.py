from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from mirrorbench.core.files import CHECKSUMS, damaged_files, write_checksums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_bytes(b"a")
    (tmp_path / "deep" / "ü b.txt").write_bytes(b"")
    write_checksums(tmp_path)
    return tmp_path


def test_the_list_names_every_file_and_is_whole(folder: Path) -> None:
    lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    assert lines == [
        f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in (("a.txt", b"a"), ("deep/ü b.txt", b""))
    ]
    assert damaged_files(folder) == ""
    write_checksums(folder)  # a list does not list itself
    assert (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines() == lines


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no program sha256sum here")
@pytest.mark.parametrize("content", [b"a", b"b"])
def test_sha256sum_is_of_the_same_mind(folder: Path, content: bytes) -> None:
    (folder / "a.txt").write_bytes(content)
    checked = subprocess.run(["sha256sum", "--check", "--status", CHECKSUMS], cwd=folder, check=False)
    assert (checked.returncode == 0) == (damaged_files(folder) == "") == (content == b"a")


def test_what_is_wrong_is_named(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"b")
    (folder / "new.txt").write_bytes(b"what is not on the list cannot be wrong")
    assert damaged_files(folder) == "a.txt"
    (folder / "deep" / "ü b.txt").unlink()
    assert damaged_files(folder) == "a.txt, deep/ü b.txt"
    (folder / CHECKSUMS).write_bytes(b"\xff")
    assert damaged_files(folder) == f"no {CHECKSUMS}"
    (folder / CHECKSUMS).unlink()
    assert damaged_files(folder) == f"no {CHECKSUMS}"
