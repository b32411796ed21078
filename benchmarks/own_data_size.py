"""Time and memory of ``mirrorbench evaluate`` on large data: peak resident memory, and texts kept by a kill.

    python benchmarks/own_data_size.py TEXTS FOLDER [--documents 100000] [--encoder tiny] [--kill-after 60]
    python benchmarks/own_data_size.py TEXTS FOLDER --pairs 1000000 [--distinct 2000] [--encoder tiny]

``TEXTS``: a file of sentences, one a line. ``FOLDER``: where the data, the cache and the results go; it must not be
there. Documents are eight sentences drawn at random; the relevant one of a query holds its sentence. Rated pairs are
drawn among ``--distinct`` sentences, and two encoders are compared on them.
"""

from __future__ import annotations

import argparse
import csv
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


def write_pairs(file: Path, sentences: list[str], n: int) -> None:
    """Write rated pairs, each of two sentences drawn at random."""
    rng = random.Random(0)
    file.parent.mkdir(parents=True)
    with file.open("w", encoding="utf-8", newline="") as sink:
        rows = csv.writer(sink)
        rows.writerow(["sentence1", "sentence2", "score"])
        for _ in range(n):
            left, right = rng.choices(sentences, k=2)
            rows.writerow([left, right, round(rng.random(), 3)])


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
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--distinct", type=int, default=2_000)
    asked = parser.parse_args()
    sentences = [
        line for line in asked.texts.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    environment = os.environ | {"MIRRORBENCH_CACHE": str(asked.folder / "cache")}
    evaluate = [sys.executable, "-m", "mirrorbench", "evaluate", "-e", asked.encoder, "--offline"]
    evaluate += ["-o", str(asked.folder / "results")]
    if asked.pairs:
        file = asked.folder / "pairs.csv"
        write_pairs(file, sentences[: asked.distinct], asked.pairs)
        other = f"{asked.encoder}+base:pooling=cls"
        seconds, peak, _ = run([*evaluate, str(file), "-e", other], environment, 0)
        print(f"{asked.pairs:,} pairs: {seconds:.0f} s, at most {peak:.1f} GiB", flush=True)
        return
    write_collection(asked.folder / "collection", sentences, asked.documents, asked.queries)
    command = [*evaluate, str(asked.folder / "collection")]
    for name, kill_after in (("killed", asked.kill_after), ("started again", 0)):
        seconds, peak, said = run(command, environment, kill_after)
        progress = [line for line in said.splitlines() if "encoding" in line]
        print(
            f"{name}: {seconds:.0f} s, at most {peak:.1f} GiB; {'; '.join(progress[:1] + progress[-1:])}",
            flush=True,
        )


if __name__ == "__main__":
    main()
