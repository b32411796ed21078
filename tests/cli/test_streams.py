"""Standard streams that are closed or full."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.toy_plugin import PLUGIN

pytestmark = pytest.mark.slow


def shell(folder: Path, *arguments: str, redirect: str) -> subprocess.CompletedProcess[str]:
    """The command with a redirection as a shell takes it."""
    command = shlex.join([sys.executable, "-m", "mirrorbench", *arguments])
    return subprocess.run(
        f"{command} {redirect}",
        shell=True,
        cwd=folder,
        text=True,
        input="a cat\n",
        capture_output=True,
        check=False,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_full_output_stream_prints_one_error(folder: Path) -> None:
    said = shell(
        folder, "encode", "-", "-e", "letters", "--plugin", str(PLUGIN), redirect="> /dev/full"
    )
    assert (said.returncode, said.stdout) == (1, "")
    assert (
        said.stderr.splitlines()[-2]
        == "Error: Only a part of the output could be written: No space left on device."
    )
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("redirect", [">&-", "<&-", ">&- <&- 2>&-"])
def test_output_to_closed_streams_reaches_no_file(folder: Path, redirect: str) -> None:
    said = shell(folder, "encode", "-", "-e", "letters", "--plugin", str(PLUGIN), redirect=redirect)
    assert (said.returncode, said.stdout) == (0, "")
    assert {file.name for file in folder.iterdir()} <= {"calls"}


def test_closed_pipe_prints_no_error(folder: Path) -> None:
    assert shell(folder, "list", "tasks", redirect="| true").stderr == ""
