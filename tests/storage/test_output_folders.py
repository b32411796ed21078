"""Folders beside an output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.held_leases import Hold, hold

from mirrorbench.core.errors import UsageError
from mirrorbench.storage import leases
from mirrorbench.storage.output_folders import beside

__all__ = ["hold"]


def test_output_paths_with_links_and_parents_resolve(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/er")
    for output in (tmp_path / "link" / ".." / "v.npy", tmp_path / "missing" / ".." / "v.npy"):
        with beside(output) as folder:
            (folder / "v").touch()
            os.replace(folder / "v", output)
    assert (tmp_path / "deep" / "v.npy").is_file()
    assert (tmp_path / "v.npy").is_file()


def test_working_folder_persists_until_empty(tmp_path: Path) -> None:
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
def test_foreign_paths_are_refused_and_kept(tmp_path: Path, kind: str) -> None:
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
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
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
