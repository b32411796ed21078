"""``mirrorbench compare``: compare two encoders item by item, from stored results: difference, interval, p-value."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    Json,
    Margin,
    Notes,
    OfProtocol,
    PluginFiles,
    print_json,
    print_table,
    tasks_option,
)

if TYPE_CHECKING:
    from mirrorbench.reports.encoder_comparison import EncoderComparison, TaskComparison
    from mirrorbench.reports.statistics.comparisons import SeedMean

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
        help="Another encoder, or the same one in another folder.",
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
    typer.Option("--allow-mixed", help="Also compare results of different data or protocols."),
]


def compare(
    first: _First,
    second: _Second,
    results: _Results = None,
    tasks: _Tasks = None,
    protocol: OfProtocol = "",
    allow_mixed: _AllowMixed = False,
    margin: Margin = None,
    notes: Notes = "",
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """Compare two encoders item by item, from stored results: difference, interval, p-value.

    Intervals and p-values take the test items into account, and the seeds where there are several. The p-values of
    tasks are corrected for the number of tasks, that of their average for the steps in the leaderboard of their folder.

    `mirrorbench compare tiny+mirror tiny+base:pooling=mean`
    """
    from mirrorbench.reports.encoder_comparison import pair_table
    from mirrorbench.session import Session

    compared = Session().compare(
        first,
        second,
        tasks or (),
        results=results or (),
        protocol=protocol,
        allow_mixed=allow_mixed,
        margin=margin,
    )
    if as_json:
        print_json({"a": first, "b": second, **_comparison_json(compared)})
    else:
        # Without --notes, all notes are printed: they explain the numbers of the table.
        print_table(pair_table(compared, f"A: {first}, B: {second}"), notes or "all")


def _finite(value: float) -> float | None:
    """Return a number, or ``None`` for NaN and infinities, which JSON lacks."""
    return value if isfinite(value) else None


def _comparison_json(compared: EncoderComparison) -> dict[str, Any]:
    """Return the JSON object of a comparison, without the names of its encoders: tasks, average, notes and banner."""
    from mirrorbench.reports.encoder_comparison import note_on_numbers
    from mirrorbench.reports.statistics.verdicts import caveat_notes

    # An entry for each task, in order, then one for the average if there is one.
    entries = []
    for comparison, sentence in zip(compared.every, compared.sentences(), strict=True):
        entries.append(_entry(comparison, sentence))
    n_tasks = len(compared.tasks)
    average = entries[n_tasks] if compared.average else None
    caveats = caveat_notes([comparison.test for comparison in compared.every])
    return {
        "tasks": entries[:n_tasks],
        "average": average,
        "notes": [note_on_numbers(compared), *compared.notes, *caveats],
        "banner": compared.banner,
    }


def _entry(comparison: TaskComparison, sentence: str) -> dict[str, Any]:
    """Return the JSON object of the comparison on a task, or on the average; numbers that JSON lacks become null."""
    test = comparison.test
    estimate = comparison.estimate
    interval = None
    if test.interval is not None:
        low, high = test.interval
        interval = {"low": low, "high": high}
    return {
        "task": comparison.task,
        "metric": comparison.metric,
        "n_items": comparison.n,
        "left_out": comparison.left_out,
        "a": _score_json(comparison.first),
        "b": _score_json(comparison.second),
        "difference": _finite(comparison.difference),
        "error": _finite(estimate.error),
        "df": _finite(estimate.df),
        "interval": interval,
        "p": comparison.p,
        "p_holm": test.corrected,
        "n_tests": test.n_tests,
        "best": test.best,
        "this_model": test.this_model,
        "two_seeds": test.two_seeds,
        "unseen": None if test.unseen is None else asdict(test.unseen),
        "equality": None if test.equality is None else asdict(test.equality),
        "verdict": comparison.verdict,
        "sentence": sentence,
    }


def _score_json(score: SeedMean) -> dict[str, Any]:
    """Return the JSON object of an encoder's score; its standard deviation needs several seeds."""
    deviation = None if score.sd is None else _finite(score.sd)
    return {"mean": _finite(score.mean), "sd": deviation, "seeds": score.seeds}
