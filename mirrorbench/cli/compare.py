"""``mirrorbench compare``: two encoders on the same items."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import Json, PluginFiles, print_json, print_rows, say, tasks_option
from mirrorbench.reports.statistics import PairedTest

if TYPE_CHECKING:
    from mirrorbench.reports.statistics.comparisons import SeedMean
    from mirrorbench.reports.statistics.encoders import EncoderComparison
    from mirrorbench.reports.statistics.resampling import Interval

# fmt: off
_First = Annotated[str, typer.Argument(
    metavar="A", help="An encoder spec that has results.", autocompletion=complete("encoders"))]
_Second = Annotated[str, typer.Argument(
    metavar="B", help="Another, or the same one in another folder.", autocompletion=complete("encoders"))]
_Results = Annotated[list[Path] | None, typer.Option(
    "--results", "-r", help="Folder of results; given twice, A is looked up in the first and B in the second.",
    show_default="results")]
_Tasks = Annotated[list[str] | None, tasks_option("Tasks and suites.", "all that both have")]
_Test = Annotated[PairedTest, typer.Option(
    help="Paired test. auto: McNemar for right and wrong answers of one seed each on items that share nothing, "
    "permutation for other means and for correlations, bootstrap for AUC.")]
_Protocol = Annotated[str, typer.Option(help="Only results of this protocol.", show_default="any")]
_Resamples = Annotated[int, typer.Option(min=100, help="Of a test; an interval has a fifth.")]
_Seed = Annotated[int, typer.Option(min=0, help="Of the resamples.")]
_AllowMixed = Annotated[bool, typer.Option(
    "--allow-mixed", help="Compare also what was computed from other data or protocols.")]
# fmt: on


def compare(
    first: _First, second: _Second, results: _Results = None, tasks: _Tasks = None, test: _Test = PairedTest.auto,
    protocol: _Protocol = "", resamples: _Resamples = 10_000, seed: _Seed = 0, allow_mixed: _AllowMixed = False,
    as_json: Json = False, plugin: PluginFiles = None,
) -> None:  # fmt: skip
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
        print_json({"a": first, "b": second, **_as_json(found)})
        return
    say(f"A: {first}\nB: {second}\n")
    _print(found)


def _print(found: EncoderComparison) -> None:
    from mirrorbench.reports.statistics.comparisons import INDEPENDENT
    from mirrorbench.reports.statistics.resampling import LEVEL

    head = ("task", "metric", "items", "A", "sd A (seeds)", "B", "sd B (seeds)", "A - B",
            f"{LEVEL:.0%} interval (items)", "test", "p", "p (Holm)", "verdict")  # fmt: skip
    rows = [
        (d.task, d.metric, f"{d.n:,}", f"{d.first.mean:.4f}", _deviation(d.first), f"{d.second.mean:.4f}",
         _deviation(d.second), f"{d.difference:+.4f}", _ends(d.interval), d.test.value, _p(d.p, d.bound),
         _p(d.corrected, d.bound), d.verdict)
        for d in found.tasks
    ]  # fmt: skip
    if average := found.average:
        rows.append((f"avg. of {len(found.tasks)}", "", f"{average.n:,}", f"{average.first.mean:.4f}", "",
                     f"{average.second.mean:.4f}", "", f"{average.difference:+.4f}", _ends(average.interval),
                     average.test.value, _p(average.p, average.bound), "", ""))  # fmt: skip
    width = sum(max(map(len, column)) + 2 for column in zip(head, *rows, strict=True))
    if not sys.stdout.isatty() or width <= shutil.get_terminal_size().columns:
        print_rows(head, rows)
    else:  # numbers must not be cut off: one below the other
        for row in rows:
            say(row[0])
            for name, text in zip(head[1:], row[1:], strict=True):
                if text:
                    say(f"  {name:{max(map(len, head))}}  {text}")
    say(
        f"\nsd: sample standard deviation over seeds. Interval: percentile bootstrap of A - B over items, and p: "
        f"paired test over items, both given these seeds, and wider where items share texts. p (Holm): corrected for "
        f"{len(found.tasks)} task{'s' if len(found.tasks) > 1 else ''}; verdict at {1 - LEVEL:.2f}."
    )
    if found.average:
        say("avg.: tasks are resampled independently, also where they share items.")
    if independent := [task.task for task in found.tasks if task.independent]:
        say(f"{INDEPENDENT}: {', '.join(independent)}.")
    for note in found.notes:
        say(note)


def _deviation(score: SeedMean) -> str:
    return "one seed" if score.sd is None else f"{score.sd:.4f} ({score.seeds})"


def _ends(interval: Interval | None) -> str:
    return f"[{interval.low:+.4f}, {interval.high:+.4f}]" if interval else "undefined"


def _p(value: float | None, bound: bool) -> str:
    from mirrorbench.reports.renderers.text import p_words

    return "undefined" if value is None else p_words(value, bound).removeprefix("= ")


def _as_json(found: EncoderComparison) -> dict[str, Any]:
    from dataclasses import asdict

    tasks = [
        {"task": d.task, "metric": d.metric, "n_items": d.n, "left_out": d.left_out, "a": asdict(d.first),
         "b": asdict(d.second), "difference": d.difference, "interval": asdict(d.interval) if d.interval else None,
         "test": d.test.value, "p": d.p, "p_holm": d.corrected, "p_bound": d.bound,
         "independent_items": d.independent, "verdict": d.verdict}
        for d in found.tasks
    ]  # fmt: skip
    average: dict[str, Any] | None = None
    if a := found.average:
        average = {"first": a.first.mean, "second": a.second.mean, "interval": a.interval and asdict(a.interval),
                   "test": a.test.value, "p": a.p, "p_bound": a.bound}  # fmt: skip
    return {"tasks": tasks, "average": average, "notes": list(found.notes)}
