"""``mirrorbench compare``: two encoders on the same items."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.options import Json, PluginFiles, tasks_option
from mirrorbench.cli.output import print_json, print_rows
from mirrorbench.reports.statistics import PairedTest

if TYPE_CHECKING:
    from mirrorbench.reports.statistics.encoders import EncoderComparison
    from mirrorbench.reports.statistics.significance import Interval


_Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        "-r",
        help="Folder of results; given twice, A is looked up in the first and B in the second.",
        show_default="results",
    ),
]
_Tasks = Annotated[list[str] | None, tasks_option("Tasks and suites.", "all that both have")]
_Test = Annotated[
    PairedTest,
    typer.Option(
        help="Paired test. auto: McNemar for right and wrong answers of one seed each, permutation for other means "
        "and correlations, bootstrap for AUC."
    ),
]


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="An encoder spec that has results.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another, or the same one in another folder.")],
    results: _Results = None,
    tasks: _Tasks = None,
    test: _Test = PairedTest.auto,
    protocol: Annotated[str, typer.Option(help="Only results of this protocol.", show_default="any")] = "",
    resamples: Annotated[int, typer.Option(min=100, help="Of bootstraps and permutation tests.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the resamples.")] = 0,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Compare also what was computed from other data or protocols.")
    ] = False,
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """Compare two encoders item by item, from stored results: difference, interval, paired test.

    Intervals and tests are over test items, given the seeds that were run; the deviation over seeds stands in columns
    of its own. P-values are corrected for the number of tasks by Holm's procedure.

    `mirrorbench compare tiny+mirror tiny+base:pooling=mean`
    """
    from mirrorbench.session import Session

    found = Session().compare(
        first, second, tasks or (), results=results or (), test=test, protocol=protocol, resamples=resamples, seed=seed,
        allow_mixed=allow_mixed,
    )  # fmt: skip
    if as_json:
        print_json(_as_json(first, second, found))
    else:
        _print(first, second, found, resamples)


def _print(first: str, second: str, found: EncoderComparison, resamples: int) -> None:
    from mirrorbench.reports.statistics.significance import LEVEL

    typer.echo(f"A: {first}\nB: {second}\n")
    head = ("task", "metric", "items", "A", "sd A (seeds)", "B", "sd B (seeds)", "A - B",
            f"{LEVEL:.0%} interval (items)", "test", "p", "p (Holm)", "verdict")  # fmt: skip
    rows = []
    for d in found.tasks:
        rows.append([
            d.task, d.metric, f"{d.n:,}", f"{d.first.mean:.4f}", _deviation(d.first.sd, d.first.seeds),
            f"{d.second.mean:.4f}", _deviation(d.second.sd, d.second.seeds), f"{d.difference:+.4f}", _ends(d.interval),
            d.test.value, _p(d.p), _p(d.corrected), d.verdict,
        ])  # fmt: skip
    if average := found.average:
        rows.append(["avg.", "", "", f"{average.first:.4f}", "", f"{average.second:.4f}", "",
                     f"{average.first - average.second:+.4f}", _ends(average.interval), "bootstrap", _p(average.p), "",
                     ""])  # fmt: skip
    width = sum(max(map(len, column)) + 2 for column in zip(head, *rows, strict=True))
    if not sys.stdout.isatty() or width <= shutil.get_terminal_size().columns:
        print_rows(head, rows)
    else:
        _print_one_below_the_other(head, rows)
    typer.echo(
        f"\nsd: sample standard deviation over seeds. Interval: percentile bootstrap of A - B over items, and p: "
        f"paired test over items, both given these seeds ({resamples:,} resamples). p (Holm): corrected for "
        f"{len(found.tasks)} task{'s' if len(found.tasks) > 1 else ''}; verdict at {1 - LEVEL:.2f}."
    )
    if found.average:
        typer.echo("avg.: tasks are resampled independently, also where they share items.")
    for note in found.notes:
        typer.echo(note)


def _print_one_below_the_other(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """For a terminal that is too narrow for the table: numbers must not be cut off."""
    longest = max(map(len, head))
    for row in rows:
        typer.echo(row[0])
        for name, text in zip(head[1:], row[1:], strict=True):
            if text:
                typer.echo(f"  {name:{longest}}  {text}")


def _deviation(sd: float | None, seeds: int) -> str:
    return "one seed" if sd is None else f"{sd:.4f} ({seeds})"


def _ends(interval: Interval | None) -> str:
    return f"[{interval.low:+.4f}, {interval.high:+.4f}]" if interval else "undefined"


def _p(value: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.4f}" if value >= 0.0001 else f"{value:.1e}"


def _as_json(first: str, second: str, found: EncoderComparison) -> dict[str, Any]:
    from dataclasses import asdict

    rows = []
    for d in found.tasks:
        rows.append({
            "task": d.task, "metric": d.metric, "n_items": d.n, "left_out": d.left_out, "a": asdict(d.first),
            "b": asdict(d.second), "difference": d.difference, "interval": asdict(d.interval) if d.interval else None,
            "test": d.test.value, "p": d.p, "p_holm": d.corrected, "verdict": d.verdict,
        })  # fmt: skip
    average = asdict(found.average) if found.average else None
    return {"a": first, "b": second, "tasks": rows, "average": average, "notes": list(found.notes)}
