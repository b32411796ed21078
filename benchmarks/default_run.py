"""Duration of ``mirrorbench run`` without arguments: empty cache, empty result folder, start-up included.

    python benchmarks/default_run.py [--repeat 3]

Prints a Markdown row for benchmarks/RESULTS.md: seconds of each repeat, processor seconds, peak memory, machine and
versions. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path


def once(folder: Path) -> tuple[float, float]:
    """Measure wall-clock and processor seconds of one run in an empty folder.

    Raises:
        CalledProcessError: the run failed.
    """
    environment = {
        **os.environ,
        "MIRRORBENCH_CACHE": str(folder / "cache"),
        "MIRRORBENCH_DATA": str(folder / "data"),
    }
    command = [
        sys.executable,
        "-m",
        "mirrorbench",
        "run",
        "--offline",
        "--output",
        str(folder / "results"),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    repeats = parser.parse_args().repeat
    times = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            times.append(once(Path(folder)))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    walls, processor = zip(*times, strict=True)
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "numpy"))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"
    print("| seconds, each repeat | processor seconds | peak memory (MiB) | machine |")
    print("|---|---|---|---|")
    print(
        f"| {', '.join(f'{w:.1f}' for w in walls)} | {min(processor):.1f} | {peak:.0f} | {machine} |"
    )


if __name__ == "__main__":
    main()
