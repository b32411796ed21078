"""``mirrorbench compare``: two encoders on the same items."""

from __future__ import annotations

import shutil
import sys
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import Json, PluginFiles, print_json, print_rows, say, tasks_option

if TYPE_CHECKING:
    from mirrorbench.reports.statistics.comparisons import Comparison, SeedMean
    from mirrorbench.reports.statistics.encoders import EncoderComparison
    from mirrorbench.reports.statistics.estimates import Interval

# fmt: off
_First = Annotated[str, typer.Argument(
    metavar="A", help="An encoder spec that has results.", autocompletion=complete("encoders"))]
_Second = Annotated[str, typer.Argument(
    metavar="B", help="Another, or the same one in another folder.", autocompletion=complete("encoders"))]
_Results = Annotated[list[Path] | None, typer.Option(
    "--results", "-r", help="Folder of results; given twice, A is looked up in the first and B in the second.",
    show_default="results")]
_Tasks = Annotated[list[str] | None, tasks_option("Tasks and suites.", "all that both have")]
_Protocol = Annotated[str, typer.Option(help="Only results of this protocol.", show_default="any")]
_AllowMixed = Annotated[bool, typer.Option(
    "--allow-mixed", help="Compare also what was computed from other data or protocols.")]
# fmt: on


def compare(
    first: _First, second: _Second, results: _Results = None, tasks: _Tasks = None, protocol: _Protocol = "",
    allow_mixed: _AllowMixed = False, as_json: Json = False, plugin: PluginFiles = None,
) -> None:  # fmt: skip
    """Compare two encoders item by item, from stored results: difference, interval, p-value.

    Both are over test items, and over seeds where there are several; p-values are corrected for the number of tasks.

    `mirrorbench compare tiny+mirror tiny+base:pooling=mean`
    """
    from mirrorbench.session import Session

    found = Session().compare(
        first, second, tasks or (), results=results or (), protocol=protocol, allow_mixed=allow_mixed
    )
    if as_json:
        print_json({"a": first, "b": second, **_as_json(found)})
        return
    say(f"A: {first}\nB: {second}\n")
    _print(found)


def _print(found: EncoderComparison) -> None:
    from mirrorbench.reports.statistics import LEVEL

    head = ("task", "metric", "items", "A", "sd A (seeds)", "B", "sd B (seeds)", "A - B", f"{LEVEL:.0%} interval", "p",
            "p (Holm)", "verdict")  # fmt: skip
    named: list[tuple[str, str, Comparison, str, str]] = [
        (task.task, task.metric, task, _p(task.corrected), task.verdict) for task in found.tasks
    ]
    if found.average:
        named.append((f"avg. of {len(found.tasks)}", "", found.average, "", ""))
    rows = [
        (name, metric, f"{one.n:,}", _shown(one.first.mean), _deviation(one.first),
         _shown(one.second.mean), _deviation(one.second),
         _shown(one.difference, "+.4f"), _ends(one.estimate.interval()), _p(one.p), *rest)
        for name, metric, one, *rest in named
    ]  # fmt: skip
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
        "\nsd: standard deviation over seeds. Interval and p: of A - B, over items and, of several, over seeds."
        f" p (Holm): corrected for {len(found.tasks)} task{'s' * (len(found.tasks) > 1)}; verdict at {1 - LEVEL:.2f}."
    )
    if any("this model" in task.verdict for task in found.tasks):
        say("This model: tuned with one seed; other seeds may differ (--seeds 3).")
    for note in found.notes:
        say(note)


def _shown(value: float, digits: str = ".4f") -> str:
    return f"{value:{digits}}" if isfinite(value) else "undefined"


def _deviation(score: SeedMean) -> str:
    if score.sd is None:
        return "one seed" if score.seeds == 1 else ""
    return f"{_shown(score.sd)} ({score.seeds})"


def _ends(interval: Interval | None) -> str:
    return f"[{interval[0]:+.4f}, {interval[1]:+.4f}]" if interval else "undefined"


def _p(value: float | None) -> str:
    from mirrorbench.reports.renderers.words import p_words

    return "undefined" if value is None else p_words(value).removeprefix("= ")


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _as_json(found: EncoderComparison) -> dict[str, Any]:
    def score(of: SeedMean) -> dict[str, Any]:
        return {"mean": _finite(of.mean), "sd": of.sd and _finite(of.sd), "seeds": of.seeds}

    def values(one: Comparison) -> dict[str, Any]:
        estimate, ends = one.estimate, one.estimate.interval()
        return {
            "n_items": one.n, "left_out": one.left_out, "a": score(one.first), "b": score(one.second),
            "difference": _finite(one.difference), "error": _finite(estimate.error), "df": _finite(estimate.df),
            "interval": ends and {"low": ends[0], "high": ends[1]}, "p": one.p,
        }  # fmt: skip

    tasks = [
        {"task": task.task, "metric": task.metric, **values(task), "p_holm": task.corrected,
         "this_model": task.this_model, "verdict": task.verdict}
        for task in found.tasks
    ]  # fmt: skip
    return {"tasks": tasks, "average": found.average and values(found.average), "notes": list(found.notes)}
