"""The leaderboards of leaderboards/rendered: run the encoders, keep the tables' values, render them.

    python leaderboards/render.py              # run what is not done yet, then render
    python leaderboards/render.py embedded     # this one alone
    python leaderboards/render.py --no-run     # render the values that are kept

The baseline methods are in plugins/mirrorbench-methods, which must be installed, or they have no rows.
The results of the runs lie in build/leaderboards; what is kept of them is one JSON file a leaderboard with every value,
so that anyone can render it anew. ``nox -s leaderboards`` does the same in an environment of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from mirrorbench.reports.renderers import markdown
from mirrorbench.reports.table import Table, read_table
from mirrorbench.runs.registry import plugins

HERE = Path(__file__).resolve().parent
RENDERED = HERE / "rendered"
RESULTS = HERE.parent / "build" / "leaderboards"


@dataclass(frozen=True)
class Board:
    """A leaderboard: its title, the arguments of ``mirrorbench run``, and its columns."""

    title: str
    asked: tuple[str, ...]
    tasks: str


BOARDS = {
    "embedded": Board(
        "The embedded model and all-MiniLM-L6-v2 on the embedded data, beside what else needs no labels",
        ("-e", "tiny", "-e", "minilm", "--baselines", "-t", "quick", "--seeds", "3"),
        "quick",
    ),
    "english": Board(
        "The embedded model and all-MiniLM-L6-v2 on English words, sentences and words in context",
        (
            "-e",
            "tiny",
            "-e",
            "minilm:pooling=mean",
            "-t",
            "sts,simlex999,multisimlex-en,wic,usim",
            "--seeds",
            "3",
        ),
        "sts,simlex999,multisimlex-en,wic,usim",
    ),
    "label-free": Board(
        "Tuned without labels, by method and corpus",
        (str(HERE / "label-free.yaml"),),
        "stsb,sickr,simlex999,multisimlex-en",
    ),
}


def mirrorbench(*arguments: str | Path) -> int:
    """Run the command line and return its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "mirrorbench", *map(str, arguments)], check=False
    ).returncode


def measure(name: str, board: Board) -> bool:
    """Run a leaderboard's encoders and keep the table's values; return whether there are any."""
    results = RESULTS / name
    code = mirrorbench("run", *board.asked, "--output", results)
    if code not in (0, 1):  # 1: some cells failed, and are missing in the table
        sys.exit(code)
    if not results.is_dir():
        sys.stderr.write(f"{name}: nothing could be measured, so what is kept stays as it is\n")
        return False
    table = ("--title", board.title, "--intervals", "--ties", "--output", RENDERED / f"{name}.json")
    if code := mirrorbench("leaderboard", results, "--tasks", board.tasks, *table):
        sys.exit(code)
    return True


def render(name: str) -> None:
    """Render the kept values of a leaderboard."""
    table = read_table(RENDERED / f"{name}.json")
    for suffix, text in texts(table).items():
        (RENDERED / f"{name}{suffix}").write_text(text, encoding="utf-8")


def texts(table: Table) -> dict[str, str]:
    """Return the files of a leaderboard by their ending; in Markdown without intervals and with short notes."""
    rows = [
        replace(row, scores=tuple(s and replace(s, interval=None) for s in row.scores))
        for row in table.rows
    ]
    page = plugins().renderers["html"].render(table)
    return {".md": markdown(replace(table, rows=tuple(rows), shown="short")), ".html": page}


def main() -> None:
    """Run the command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "boards", nargs="*", help=f"which: {', '.join(BOARDS)}; all of them by default"
    )
    parser.add_argument("--no-run", action="store_true", help="render the values that are kept")
    given = parser.parse_args()
    if unknown := set(given.boards) - set(BOARDS):
        parser.error(
            f"unknown leaderboard {', '.join(sorted(unknown))}; there are {', '.join(BOARDS)}"
        )
    for name in given.boards or BOARDS:
        kept = (RENDERED / f"{name}.json").is_file()
        if measure(name, BOARDS[name]) if not given.no_run else kept or given.boards:
            render(name)


if __name__ == "__main__":
    main()
