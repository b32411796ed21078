"""Standard streams that are closed, full, or given names that cannot be printed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from toys import PLUGIN

pytestmark = pytest.mark.slow
ENCODE = ("encode", "-", "-e", "letters", "--plugin", str(PLUGIN))


def shell(folder: Path, *arguments: str, redirect: str) -> subprocess.CompletedProcess[str]:
    """The command with a redirection as a shell takes it."""
    command = shlex.join([sys.executable, "-m", "mirrorbench", *arguments])
    return subprocess.run(
        f"{command} {redirect}", shell=True, cwd=folder, text=True, input="a cat\n", capture_output=True, check=False
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
@pytest.mark.parametrize("command", [ENCODE, pytest.param(("--help",), marks=pytest.mark.full)])
def test_a_full_disk_under_the_output_is_one_message(folder: Path, command: tuple[str, ...]) -> None:
    full = shell(folder, *command, redirect="> /dev/full")
    assert full.returncode == 1
    assert full.stderr.splitlines()[-1] == "Error: Cannot write to standard output: No space left on device."
    assert "Traceback" not in full.stderr


def test_a_closed_output_is_an_error_and_no_file_gets_what_is_printed(folder: Path) -> None:
    closed = shell(folder, *ENCODE, redirect=">&-")
    assert closed.returncode == 1
    assert closed.stderr.splitlines()[-1] == "Error: Cannot write to standard output: Bad file descriptor."
    assert [file.name for file in folder.iterdir()] == ["calls"]  # the toy encoder writes its calls down


def test_a_closed_input_is_an_error(folder: Path) -> None:
    closed = shell(folder, *ENCODE, redirect="<&-")
    assert (closed.returncode, closed.stdout) == (1, "")
    assert closed.stderr.splitlines()[-1] == "Error: Cannot read -: Bad file descriptor."


def test_a_reader_that_ends_first_is_no_message(folder: Path) -> None:
    early = shell(folder, "list", "tasks", redirect="| true")
    assert early.stderr == ""


def test_a_name_that_is_not_utf8_is_printed_escaped(folder: Path) -> None:
    odd = Path(os.fsdecode(bytes(folder) + b"/\xff"))
    try:
        (odd / "am2ico-de").mkdir(parents=True)
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    (odd / "am2ico-de" / "dev.tsv").write_text("not the data")
    imported = shell(folder, "data", "import", ".", "--data-dir", "data", redirect="")
    assert imported.returncode == 0, imported.stderr
    assert r"\udcff/am2ico-de/dev.tsv: not taken" in imported.stdout
