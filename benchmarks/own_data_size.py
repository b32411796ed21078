"""Memory and restart of ``mirrorbench evaluate`` on a large collection: peak resident memory, and texts kept by a kill.

    python benchmarks/own_data_size.py TEXTS FOLDER [--documents 100000] [--encoder tiny] [--kill-after 60]

``TEXTS``: a file of sentences, one a line. ``FOLDER``: where the collection, the cache and the results go; it must not
be there. Documents are eight sentences drawn at random; the relevant one of a query holds its sentence.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil


def write_collection(folder: Path, sentences: list[str], documents: int, queries: int) -> None:
    """Write a collection in BEIR's layout."""
    rng = random.Random(0)
    (folder / "qrels").mkdir(parents=True)
    with (
        (folder / "corpus.jsonl").open("w") as corpus,
        (folder / "queries.jsonl").open("w") as asked,
        (folder / "qrels" / "test.tsv").open("w") as judged,
    ):
        judged.write("query-id\tcorpus-id\tscore\n")
        for n in range(documents):
            drawn = rng.sample(sentences, 8)
            corpus.write(
                json.dumps({"_id": f"d{n}", "title": f"{n}", "text": " ".join(drawn)}) + "\n"
            )
            if n < queries:
                asked.write(json.dumps({"_id": f"q{n}", "text": drawn[0]}) + "\n")
                judged.write(f"q{n}\td{n}\t1\n")


def run(
    command: list[str], environment: dict[str, str], kill_after: float
) -> tuple[float, float, str]:
    """Run a command; return seconds, peak resident memory in GiB, and its standard error."""
    started, peak = time.perf_counter(), 0
    process = subprocess.Popen(
        command, env=environment, stdout=sys.stdout, stderr=subprocess.PIPE, text=True
    )
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        if kill_after and time.perf_counter() - started > kill_after:
            process.send_signal(signal.SIGKILL)
        try:
            peak = max(peak, watched.memory_info().rss)
        except psutil.NoSuchProcess:
            break
        time.sleep(0.2)
    return time.perf_counter() - started, peak / 2**30, process.communicate()[1]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--encoder", default="tiny")
    parser.add_argument("--kill-after", type=float, default=60)
    asked = parser.parse_args()
    sentences = [
        line for line in asked.texts.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    write_collection(asked.folder / "collection", sentences, asked.documents, asked.queries)
    environment = os.environ | {"MIRRORBENCH_CACHE": str(asked.folder / "cache")}
    command = [
        sys.executable,
        "-m",
        "mirrorbench",
        "evaluate",
        str(asked.folder / "collection"),
        "-e",
        asked.encoder,
        "-o",
        str(asked.folder / "results"),
        "--offline",
    ]
    for name, kill_after in (("killed", asked.kill_after), ("started again", 0)):
        seconds, peak, said = run(command, environment, kill_after)
        progress = [line for line in said.splitlines() if "encoding" in line]
        print(
            f"{name}: {seconds:.0f} s, at most {peak:.1f} GiB; {'; '.join(progress[:1] + progress[-1:])}",
            flush=True,
        )


if __name__ == "__main__":
    main()
