"""Seconds and peak memory of the search of entity linking, by default a million names for ten thousand mentions.

Run it alone on the machine; it needs 3 GB of disk while it runs:

    python benchmarks/million_names.py
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import machine

from mirrorbench.tasks.lexical.nearest_neighbours import topk

BLOCK = 10_000
"""Names drawn at once."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--mentions", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=768)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        # As the vectors of a run lie in its cache: read from the disk, and counted as memory while they are there.
        path, shape = Path(folder) / "names.npy", (options.names, options.dimensions)
        written = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        for start in range(0, options.names, BLOCK):
            rows = written[start : start + BLOCK]
            rows[:] = rng.standard_normal(rows.shape, dtype=np.float32)
        written.flush()
        del written, rows
        names = np.load(path, mmap_mode="r")
        # Each mention is a name with some noise, so what must be found is known.
        right = rng.integers(0, options.names, options.mentions)
        mentions = names[right] + 0.5 * rng.standard_normal(
            (options.mentions, options.dimensions), dtype=np.float32
        )
        began = time.perf_counter()
        found, _ = topk(mentions, names, 5)
        seconds = time.perf_counter() - began
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    print(
        "| names x mentions x dimensions | seconds | peak memory, all in all (MiB) | found | machine |"
    )
    print("|---|---|---|---|---|")
    size = f"{options.names} x {options.mentions} x {options.dimensions}"
    print(
        f"| {size} | {seconds:.0f} | {peak:.0f} | {100 * (found[:, 0] == right).mean():.1f}% | {machine()} |"
    )


if __name__ == "__main__":
    main()
