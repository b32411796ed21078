"""Time and memory of ``mirrorbench tune`` on long documents, by the number of tokens that it trains on.

    python benchmarks/long_documents.py TEXTS FOLDER [--encoder minilm] [--documents 1000] [--tokens 50 256]

``TEXTS``: a file of sentences, one a line. ``FOLDER``: where documents, cache and encoders go; it must not be there. A
document is twenty sentences drawn at random.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil


def write_documents(file: Path, sentences: list[str], n: int) -> None:
    """Write documents of twenty sentences, one a line."""
    rng = random.Random(0)
    documents = (" ".join(rng.sample(sentences, 20)) for _ in range(n))
    file.write_text("".join(f"{document}\n" for document in documents), encoding="utf-8")


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run a command; return seconds and peak resident memory in GiB."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    watched, peak = psutil.Process(process.pid), 0
    while process.poll() is None:
        peak = max(peak, watched.memory_info().rss)
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return time.perf_counter() - started, peak / 2**30


def main() -> None:
    """Print a row for each number of tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--tokens", type=int, nargs="+", default=[50, 256])
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    sentences = options.texts.read_text(encoding="utf-8").splitlines()
    documents = options.folder / "documents.txt"
    write_documents(documents, sentences, options.documents)
    environment = {**os.environ, "MIRRORBENCH_CACHE": str(options.folder / "cache")}
    print("| tokens trained on | seconds | GiB |\n|---|---|---|")
    for tokens in options.tokens:
        spec = f"{options.encoder}+mirror:train_max_length={tokens}"
        output = str(options.folder / f"encoder-{tokens}")
        command = ["tune", str(documents), "-e", spec, "--output", output, "--quiet"]
        seconds, peak = measure([sys.executable, "-m", "mirrorbench", *command], environment)
        print(f"| {tokens} | {seconds:.0f} | {peak:.1f} |", flush=True)


if __name__ == "__main__":
    main()
