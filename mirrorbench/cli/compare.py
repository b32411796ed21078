"""``mirrorbench compare``: compare two encoders item by item, from stored results: difference, interval, p-value."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    Json,
    Notes,
    OfProtocol,
    PluginFiles,
    print_json,
    print_table,
    tasks_option,
)

if TYPE_CHECKING:
    from mirrorbench.reports.statistics.comparisons import Comparison, SeedMean
    from mirrorbench.reports.statistics.verdicts import EncoderComparison
    from mirrorbench.reports.table import Table

_First = Annotated[
    str,
    typer.Argument(
        metavar="A",
        help="An encoder with results: a spec, or the label of its row.",
        autocompletion=complete("encoders"),
    ),
]
_Second = Annotated[
    str,
    typer.Argument(
        metavar="B",
        help="Another, or the same one in another folder.",
        autocompletion=complete("encoders"),
    ),
]
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
_AllowMixed = Annotated[
    bool,
    typer.Option(
        "--allow-mixed", help="Compare also what was computed from other data or protocols."
    ),
]


def compare(
    first: _First,
    second: _Second,
    results: _Results = None,
    tasks: _Tasks = None,
    protocol: OfProtocol = "",
    allow_mixed: _AllowMixed = False,
    notes: Notes = "",
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """Compare two encoders item by item, from stored results: difference, interval, p-value.

    Both are over test items, and over seeds where there are several; p-values are corrected for the number of tasks.

    `mirrorbench compare tiny+mirror tiny+base:pooling=mean`
    """
    from mirrorbench.session import Session

    compared = Session().compare(
        first,
        second,
        tasks or (),
        results=results or (),
        protocol=protocol,
        allow_mixed=allow_mixed,
    )
    if as_json:
        print_json({"a": first, "b": second, **_as_json(compared)})
    else:
        print_table(_table(compared, f"A: {first}, B: {second}"), notes)


def _table(compared: EncoderComparison, title: str) -> Table:
    """Return a line for each task, and for the average over several."""
    from mirrorbench.reports.renderers.notes import p_words, without_overlap
    from mirrorbench.reports.statistics import LEVEL
    from mirrorbench.reports.table import Column, Row, Score, Table

    heads = ("items", "A", "B", "A - B", f"{LEVEL:.0%} interval", "p", "verdict")

    def row(name: str, pair: Comparison, p: float | None, verdict: str) -> Row:
        ends = pair.estimate.interval()
        cells = (
            f"{pair.n:,}",
            _score(pair.first),
            _score(pair.second),
            _number(pair.difference, "+"),
            f"[{', '.join(map(_number, ends))}]" if ends else "undefined",
            "undefined" if p is None else p_words(p).removeprefix("= "),
            verdict,
        )
        return Row(name, "", tuple(Score(nan, None, 1, text=cell) for cell in cells))

    rows = [row(task.task, task, task.corrected, task.verdict) for task in compared.tasks]
    if average := compared.average:
        rows.append(row(f"avg. of {len(rows)}", average, average.p, ""))
    corrected = (
        f"; p of tasks: corrected for {len(compared.tasks)} (Holm)"
        if len(compared.tasks) > 1
        else ""
    )
    deviations = any(
        side.sd is not None for task in compared.tasks for side in (task.first, task.second)
    )
    notes = [
        f"{'±: over seeds. ' * deviations}Interval and p: over items and, if several, seeds{corrected}."
    ]
    for task in compared.tasks:
        if task.unseen:
            shared = f"{task.unseen.share:.0%} of the items contain a text of a tuning corpus"
            rest = without_overlap(task.unseen) if task.unseen.p is not None else ""
            notes.append(f"{task.task}: {shared}{rest}")
    if any("this model" in task.verdict for task in compared.tasks):
        notes.append("This model: tuned with one seed; other seeds may differ (--seeds 3).")
    columns = tuple(Column(head, head) for head in heads)
    return Table(title, columns, tuple(rows), (*notes, *compared.notes), "facts", "task")


def _number(value: float, sign: str = "") -> str:
    from mirrorbench.reports.renderers.notes import number

    return f"{sign if value > 0 else ''}{number(value)}" if isfinite(value) else "undefined"


def _score(score: SeedMean) -> str:
    return (
        _number(score.mean) if score.sd is None else f"{_number(score.mean)} ± {_number(score.sd)}"
    )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _as_json(compared: EncoderComparison) -> dict[str, Any]:
    def score(of: SeedMean) -> dict[str, Any]:
        return {"mean": _finite(of.mean), "sd": of.sd and _finite(of.sd), "seeds": of.seeds}

    def values(pair: Comparison) -> dict[str, Any]:
        estimate, ends = pair.estimate, pair.estimate.interval()
        return {
            "n_items": pair.n,
            "left_out": pair.left_out,
            "a": score(pair.first),
            "b": score(pair.second),
            "difference": _finite(pair.difference),
            "error": _finite(estimate.error),
            "df": _finite(estimate.df),
            "interval": ends and {"low": ends[0], "high": ends[1]},
            "p": pair.p,
        }

    tasks = [
        {
            "task": task.task,
            "metric": task.metric,
            **values(task),
            "p_holm": task.corrected,
            "this_model": task.this_model,
            "unseen": task.unseen and asdict(task.unseen),
            "verdict": task.verdict,
        }
        for task in compared.tasks
    ]
    return {
        "tasks": tasks,
        "average": compared.average and values(compared.average),
        "notes": list(compared.notes),
    }
