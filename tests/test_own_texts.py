"""Every command of docs/own_texts.md, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "own_texts.md"


@pytest.mark.real
def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    commands = re.findall(r"^\$ (.*)$", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(commands) >= 10
    lines = [f"text {n} of {word}" for n in range(15) for word in ("cats", "dogs")]
    (tmp_path / "my_texts.txt").write_text("\n".join(lines))
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "mirrorbench"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mirrorbench "$@"\n')
    script.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout or "--output" in command, command
    assert np.load(tmp_path / "vectors.npy").shape == (30, 256)


def test_completion_knows_the_commands() -> None:
    env = os.environ | {"_MIRRORBENCH_COMPLETE": "complete_bash", "COMP_WORDS": "mirrorbench en", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'mirrorbench'; from mirrorbench.cli import main; main()"],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["encode"]
