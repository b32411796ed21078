"""``mirrorbench evaluate``: compare encoders with the first one on data of your own."""

from __future__ import annotations

from dataclasses import asdict
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.display import (
    ENCODER_HELP,
    DataDir,
    Device,
    EvalPrecision,
    Json,
    Margin,
    Notes,
    Offline,
    PluginFiles,
    Quiet,
    print_json,
    print_numbers,
    say,
)
from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import without_texts
from mirrorbench.own_data.answers import Evaluation, computed_evaluation, items_needed
from mirrorbench.own_data.clustering import SEEDS
from mirrorbench.own_data.measures import FOLDS
from mirrorbench.own_data.planning import (
    Data,
    data_name,
    encoder_lines,
    encoder_rows,
    evaluation_plan,
    overlap_lines,
    overlaps,
    without_repeats,
)
from mirrorbench.own_data.ranking_tasks import NO_BM25
from mirrorbench.reports.renderers import number
from mirrorbench.reports.statistics.equality import asked_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorbench.data.corpora import Contamination
    from mirrorbench.own_data.answers import Change

_Data = Annotated[
    list[str],
    typer.Argument(metavar="DATA...", help="Files or folders of your own (docs/own_data.md)."),
]
_Encoders = Annotated[
    list[str],
    typer.Option(
        "--encoder",
        "-e",
        metavar="SPEC",
        help=f"All are compared with the first. {ENCODER_HELP}; a bare backbone is its untuned row.",
    ),
]
_Kind = Annotated[
    str, typer.Option(metavar="KIND", help="Kind of the data.", show_default="by their columns")
]
_Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=NAME", help="Name of a column in the data. May be repeated."),
]
_Baselines = Annotated[
    bool,
    typer.Option(
        "--baselines",
        help="Also each encoder's vectors whitened, without their three main axes, and standardised.",
    ),
]
_Items = Annotated[
    int,
    typer.Option(
        "--items", metavar="N", min=0, help="Print N items that gained most, and N that lost most."
    ),
]
_TunedOn = Annotated[
    str,
    typer.Option(
        metavar="TEXTS",
        help="File or folder of tuning texts; print the share of items that hold one of them.",
    ),
]
_DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print the least difference that the data can show, and compute nothing."
    ),
]
_Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for results.")]


def evaluate(
    data: _Data,
    encoder: _Encoders,
    kind: _Kind = "",
    columns: _Columns = None,
    baselines: _Baselines = False,
    items: _Items = 0,
    tuned_on: _TunedOn = "",
    margin: Margin = None,
    dry_run: _DryRun = False,
    output: _Output = Path("results"),
    device: Device = "auto",
    eval_precision: EvalPrecision = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    as_json: Json = False,
    notes: Notes = "",
    quiet: Quiet = False,
    plugin: PluginFiles = None,
) -> None:
    """Compare encoders with the first one on data of your own: differences, intervals, p-values, verdicts.

    `mirrorbench evaluate ./faq.csv -e minilm -e ./my-encoder`

    `mirrorbench evaluate ./cranfield -e minilm -e ./tuned --items 5`
    """
    from mirrorbench.cli.display import on_interrupt_go_on
    from mirrorbench.cli.progress import print_logged, progress_display
    from mirrorbench.session import Session

    if dry_run and as_json:
        raise UsageError("--dry-run has no JSON", "Take one of the two options.")
    equality = asked_for(margin)
    names = without_repeats([data_name(path, kind, columns or ()) for path in data])
    with on_interrupt_go_on(output), progress_display(quiet) as reporter:
        session = Session(
            output,
            data_dir=data_dir,
            device=device,
            eval_precision=eval_precision,
            offline=offline or dry_run,
            reporter=reporter,
        )
        reporter.stage("planning", "the evaluation")
        read = Data.read(names, session.plugins, session.folders.data)
        for tested in () if quiet else read.values():
            say(tested.summary, err=not dry_run)
        seen: dict[str, Contamination] = {}
        if tuned_on:
            seen = overlaps(tuned_on, read, session.plugins, session.folders.data, reporter)
        overlap = list(overlap_lines(tuned_on, seen, read))
        rows = encoder_rows(encoder, session.plugins, session.folders)
        plan = evaluation_plan(
            rows,
            read,
            session.plugins,
            session.folders,
            session.compute,
            reporter,
            baselines=baselines,
            fetch=not dry_run,
        )
        if dry_run:
            for tested in read.values():
                say(tested.detectable())
                if equality:
                    say(tested.can_show_equality(equality.margin))
            return
        evaluation = computed_evaluation(
            plan,
            rows,
            read,
            session.plugins,
            session.folders,
            session.compute,
            reporter,
            tuned_on=seen,
            equality=equality,
        )
    board = evaluation.leaderboard
    if as_json:
        print_json(as_object(evaluation, items) | {"overlap": overlap})
    else:
        print_evaluation(evaluation, read, items, notes)
        own_labels = {spec: evaluation.labels[spec] for spec in evaluation.encoders}
        unread = () if quiet else encoder_lines(board.results, own_labels, read)
        for line in (*overlap, *unread):
            say(line, err=True)
    print_logged(board.failures, output)
    raise typer.Exit(1 if board.failures else 0)


def print_evaluation(
    evaluation: Evaluation, data: Mapping[str, Data], n_items: int, notes: str
) -> None:
    """Print the table, a sentence for each verdict, and the items that changed most."""
    from mirrorbench.cli.display import print_table

    print_table(evaluation.leaderboard.table, "all" if notes == "all" else "none")
    print_missing(evaluation, data)
    if not evaluation.encoders[1:]:
        say("Name a second encoder (-e) to compare it with the first.", err=True)
    if notes in ("", "short"):
        print_answers(evaluation)
    print_items_needed(evaluation, data)
    print_thresholds(evaluation, data)
    print_seeds(evaluation, data)
    print_in_use(evaluation)
    for verdict in evaluation.on_encoders if n_items else ():
        own = data[verdict.column]
        title = f"{evaluation.labels[verdict.spec]} on {own.title}"
        print_changes(evaluation.changes(verdict, n_items), title, own)


def print_missing(evaluation: Evaluation, data: Mapping[str, Data]) -> None:
    """Print why scores are missing in the table, and what has no answer for it."""
    for result in evaluation.leaderboard.results:
        if result.main_score is None:
            own_notes = [note for note in result.notes if note not in result.remarks]
            reasons = "; ".join(own_notes) or "undefined"
            say(
                f"{evaluation.labels[result.spec]} on {data[result.task].title}: no score: {reasons}"
            )
    for failure in evaluation.leaderboard.failures:
        label = evaluation.labels[str(failure.spec)]
        line = f"Failed: {label} on {data[failure.task].title}: {failure.reason}"
        say(f"{line}\n{failure.hint}".rstrip())
    first = evaluation.encoders[0]
    for tested in data.values():
        notes = [own.notes for own in evaluation.leaderboard.results if own.task == tested.name]
        if any(NO_BM25 in own for own in notes):
            say(f"{tested.title}: {NO_BM25}")
        if not evaluation.is_scored(first, tested.name):
            say(f"{tested.title}: no answer, since {evaluation.labels[first]} has no score")


def print_thresholds(evaluation: Evaluation, data: Mapping[str, Data]) -> None:
    """Print for pairs the cosine above which they are alike, and how often that is right on pairs that did not choose it."""
    rows = []
    for tested in data.values():
        scored = [own for own in evaluation.leaderboard.results if own.task == tested.name]
        if tested.task.kind == "pairs" and any("threshold" not in own.metrics for own in scored):
            needs = f"{FOLDS} groups of pairs of each label that share no text"
            say(f"{tested.title}: no threshold, which needs {needs}")
    for result in evaluation.leaderboard.results:
        if "threshold" in result.metrics and result.spec in evaluation.encoders:
            where = f" on {data[result.task].title}" if len(data) > 1 else ""
            threshold, *shares = (result.metrics[name] for name in _DECISION)
            assert threshold is not None
            # Rounded down, so that no pair above it falls below what is printed.
            values = [floor(threshold * 1000) / 1000, *shares]
            shown = ["-" if value is None else number(value) for value in values]
            rows.append([f"{evaluation.labels[result.spec]}{where}", *shown])
    if rows:
        say(
            "\nPairs are alike above the threshold, chosen for F1; scored on pairs that did not choose it:\n"
        )
        print_numbers(["encoder", *_DECISION.values()], rows)


_DECISION = {
    "threshold": "cosine above",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
}
"""Metrics of a threshold, and their names in a table."""


def print_seeds(evaluation: Evaluation, data: Mapping[str, Data]) -> None:
    """Print for clusterings how far the seeds of k-means deviate, which the intervals hold too."""
    for tested in data.values():
        deviations = [
            f"{evaluation.labels[own.spec]} {number(deviation)}"
            for own in evaluation.leaderboard.results
            if own.task == tested.name
            and (deviation := own.metrics.get("v_measure_std")) is not None
        ]
        if deviations:
            seeds = f"mean over {len(SEEDS)} seeds of k-means; their standard deviation"
            say(f"{tested.title}: {seeds}: {', '.join(deviations)}")


def print_in_use(evaluation: Evaluation) -> None:
    """Print the speed of each encoder, the size of its vectors and the share of texts that it cuts."""
    rows = []
    for spec, own in evaluation.in_use.items():
        counts = (own.texts_per_second, own.dimensions, own.bytes_per_vector)
        speed, *sizes = ("-" if count is None else f"{count:,.0f}" for count in counts)
        if own.dimensions is None and speed != "-":
            speed = f"{speed} pairs"
        rows.append([evaluation.labels[spec], speed, *sizes, f"{own.share_cut:.1%}"])
    if rows:
        say()
        print_numbers(["encoder", "texts/s", "dimensions", "bytes a vector", "texts cut"], rows)


def print_answers(evaluation: Evaluation) -> None:
    """Print a sentence for each verdict, and what it is corrected for."""
    from mirrorbench.reports.renderers.verdicts import sentences
    from mirrorbench.reports.statistics.verdicts import caveat_notes

    table = evaluation.leaderboard.table
    if table.verdicts:
        say()
    for _, text in sentences(table):
        say(text)
    most = max((verdict.n_tests for verdict in table.verdicts), default=1)
    if most > 1:
        say(f"In brackets: p is corrected for up to {most} tests (Holm); intervals are not.")
    for note in caveat_notes(table.verdicts):
        say(note)


def print_items_needed(evaluation: Evaluation, data: Mapping[str, Data]) -> None:
    """Print how many items a difference needs that is not separable."""
    for verdict in evaluation.on_encoders:
        needed = items_needed(verdict)
        if verdict.answer == "not separable" and needed and needed > verdict.n:
            own = data[verdict.column]
            where = f" on {own.title}" if len(data) > 1 else ""
            size = f"a difference of this size needs about {own.task.count_items(needed)}"
            say(f"{evaluation.labels[verdict.spec]}{where}: {size}; there are {verdict.n:,}")


def print_changes(changes: tuple[list[Change], list[Change]], title: str, data: Data) -> None:
    """Print the items that gained and lost most: their scores, texts and predictions."""
    if not any(changes):
        say(f"\n{title}: no item changed")
    values = f" ({data.task.values_name})" if data.task.values_name else ""
    for verb, changed in zip(("gained", "lost"), changes, strict=True):
        if changed:
            say(f"\n{title}: {verb} most{values}")
        for change in changed:
            scores = f"  {number(change.before)} → {number(change.now)}  "
            for place, line in enumerate(_lines_of_item(data, change.item)):
                say((" " * len(scores) if place else scores) + line)
            for word, predictions in (
                ("before", change.predictions_before),
                ("now", change.predictions_now),
            ):
                for line in data.task.retrieved(data.items, change.item, predictions):
                    say(f"    {word:6} {_short(line)}")


def _lines_of_item(data: Data, item: str) -> list[str]:
    """Return the texts of an item and what the data say of it, a line each."""
    lines = [_short(text) for text in data.task.texts(data.items)[item]]
    if names := data.task.text_names:
        lines = [f"{name}: {line}" for name, line in zip(names, lines, strict=True)]
    gold = data.task.gold_words(data.items, item)
    return [*lines, gold] if gold else lines


def _short(text: str, most: int = 100) -> str:
    line = text if not without_texts() else f"(a text of {len(text):,} characters)"
    return (
        line.rstrip().replace("\n", " ")
        if len(line) <= most
        else f"{line[: most - 1]}…".replace("\n", " ")
    )


def as_object(evaluation: Evaluation, n_items: int) -> dict[str, object]:
    """Return scores, answers, failures and, for ``n_items``, the items that changed most, for JSON."""
    board, labels = evaluation.leaderboard, evaluation.labels
    report: dict[str, object] = {
        "scores": [
            {
                "encoder": labels[result.spec],
                "spec": result.spec,
                "data": result.task,
                "scores": result.metrics,
                "notes": result.notes,
            }
            for result in board.results
        ],
        "encoders": [
            {"encoder": labels[spec], "spec": spec, **asdict(own)}
            for spec, own in evaluation.in_use.items()
        ],
        "answers": _answers(evaluation),
        "notes": [*board.table.warnings, *board.table.notes],
        "failures": [
            {
                "encoder": labels[str(failure.spec)],
                "data": failure.task,
                "reason": failure.reason,
                "hint": failure.hint,
            }
            for failure in board.failures
        ],
    }
    if n_items:
        report["items"] = _changed_items(evaluation, n_items)
    return report


def _answers(evaluation: Evaluation) -> list[dict[str, object]]:
    from mirrorbench.reports.renderers.verdicts import sentences

    table = evaluation.leaderboard.table
    return [
        {
            "encoder": evaluation.labels[verdict.spec],
            "data": verdict.column,
            "n_items": verdict.n,
            "left_out": verdict.left_out,
            "first": verdict.second,
            "score": verdict.first,
            "difference": verdict.difference,
            "interval": verdict.interval and list(verdict.interval),
            "p": verdict.p,
            "p_holm": verdict.corrected,
            "n_tests": verdict.n_tests,
            "verdict": verdict.answer,
            "this_model": verdict.this_model,
            "two_seeds": verdict.two_seeds,
            "unseen": verdict.unseen and asdict(verdict.unseen),
            "equality": verdict.equality and asdict(verdict.equality),
            "items_needed": items_needed(verdict),
            "sentence": text,
        }
        for verdict, (_, text) in zip(table.verdicts, sentences(table), strict=True)
    ]


def _changed_items(evaluation: Evaluation, n_items: int) -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    for verdict in evaluation.on_encoders:
        gained, lost = evaluation.changes(verdict, n_items)
        for verb, changes in (("gained", gained), ("lost", lost)):
            for change in changes:
                items.append(
                    {
                        "encoder": evaluation.labels[verdict.spec],
                        "data": verdict.column,
                        verb: change.item,
                        "before": change.before,
                        "now": change.now,
                    }
                )
    return items
