"""A dry publication of this checkout, and fresh virtual environments with the wheels that it built.

What the wheels need (torch, transformers ...) comes from the environment that runs the tests: its folder of packages
follows the fresh one's own, and since its ``.pth`` files are not read there, a mirrorbench that it has as a checkout is
not seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fresh:
    """A virtual environment."""

    folder: Path

    def run(self, *command: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, in which nothing points back to this process's packages."""
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTHON", "PIP_"))
        }
        environment |= {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "MIRRORBENCH_STRICT_PLUGINS": "1",
            "MIRRORBENCH_CACHE": str(cwd / "cache"),
            "PIP_NO_INDEX": "1",
        }
        program = [str(self.folder / "bin" / command[0]), *command[1:]]
        done = subprocess.run(
            program, cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, (
            f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
        return done


def fresh_environment(folder: Path, wheels: Sequence[Path]) -> Fresh:
    """Install wheels into an environment of their own.

    Args:
        folder: where the environment goes.
        wheels: the files.
    """
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True
    )
    environment = Fresh(folder / "venv")
    python = str(environment.folder / "bin" / "python")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*pip, *map(str, wheels)], check=True)
    own = environment.run(
        "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
    )
    borrowed = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    Path(own.stdout.strip(), "borrowed.pth").write_text(
        "".join(f"{path}\n" for path in borrowed), encoding="utf-8"
    )
    return environment
