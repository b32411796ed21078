"""``mirrorbench evaluate``: compare encoders with the first one on data of your own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.display import (
    DataDir,
    Device,
    Json,
    Notes,
    Offline,
    PluginFiles,
    Quiet,
    print_json,
    say,
)
from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import without_texts
from mirrorbench.own_data.answers import BM25, FUSED, Evaluation
from mirrorbench.own_data.planning import (
    Data,
    data_name,
    encoder_lines,
    encoder_rows,
    evaluation_plan,
    overlap_lines,
    transformed,
    without_repeats,
)
from mirrorbench.reports.comparable import Stored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.own_data.answers import Answer, Change
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.plan import Plan
    from mirrorbench.session import Session

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
        help="Encoders; all are compared with the first. A bare backbone is its untuned row.",
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
    dry_run: _DryRun = False,
    output: _Output = Path("results"),
    device: Device = "auto",
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
    from mirrorbench.cli.display import on_interrupt_go_on, print_table
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.session import Session

    if dry_run and as_json:
        raise UsageError("--dry-run has no JSON", "Take one of the two options.")
    names = without_repeats([data_name(path, kind, columns or ()) for path in data])
    with on_interrupt_go_on(output), progress_display(quiet) as reporter:
        session = Session(
            output, data_dir=data_dir, device=device, offline=offline or dry_run, reporter=reporter
        )
        reporter.stage("planning", "the evaluation")
        read = Data.read(names, session.workspace)
        for tested in () if quiet else read.values():
            say(tested.summary, err=not dry_run)
        overlap = list(overlap_lines(tuned_on, read, session.workspace)) if tuned_on else []
        rows = encoder_rows(encoder, session.workspace)
        plan = evaluation_plan(rows.values(), read, session.workspace, baselines, fetch=not dry_run)
        if dry_run:
            for tested in read.values():
                say(tested.detectable())
            return
        board = session.execute(plan)
    labels = row_labels(rows)
    ids = {tested.name: list(tested.task.texts(tested.items)) for tested in read.values()}
    encoders = [str(spec) for spec in rows.values()]
    untrained = [str(row) for row in plan.rows if str(row) not in encoders]
    evaluation = Evaluation(
        stored(board, plan, session), encoders, untrained, ids, session.workspace.plugins
    )
    if as_json:
        print_json(as_object(evaluation, board, labels, read, items))
        raise typer.Exit(1 if board.failures else 0)
    titles = {tested.name: tested.title for tested in read.values()}
    print_table(evaluation.table(board.table, labels, titles), "none" if quiet else notes or "none")
    print_answers(evaluation, labels, read, items)
    own_labels = {spec: labels[spec] for spec in encoders}
    unread = () if quiet else encoder_lines(board.results, own_labels, read)
    for line in (*overlap, *unread):
        say(line, err=True)
    for failure in board.failures:
        line = (
            f"Failed: {labels[str(failure.spec)]} on {read[failure.task].title}: {failure.reason}"
        )
        say(f"{line}\n{failure.hint}".rstrip(), err=True)
    raise typer.Exit(1 if board.failures else 0)


def row_labels(rows: Mapping[str, EncoderSpec]) -> dict[str, str]:
    """Return the labels of all rows, by spec: encoders as written, their transformations, BM25 and fusions."""
    labels = {str(spec): text for text, spec in rows.items()} | {BM25: BM25}
    for text, spec in rows.items():
        labels |= {str(changed): f"{text}, {name}" for name, changed in transformed(spec).items()}
    return labels | {
        f"{spec}{FUSED}": f"{text}{FUSED}" for spec, text in labels.items() if spec != BM25
    }


def stored(board: Leaderboard, plan: Plan, session: Session) -> list[Stored]:
    """Return the results of a plan, with their paths."""
    store, cells = session.workspace.results, {cell.id: cell for cell in plan.cells}
    return [Stored(result, store.where(cells[result.cell_id])) for result in board.results]


def print_answers(
    evaluation: Evaluation, labels: Mapping[str, str], data: Mapping[str, Data], n_items: int
) -> None:
    """Print a line for each answer, and the items that changed most."""
    say()
    first, *compared = evaluation.encoders
    if not compared:
        say("Name a second encoder (-e) to compare it with the first.", err=True)
    answers = evaluation.answers()
    for answer in answers:
        say(in_words(answer, labels, data[answer.task]))
    if (most := max((answer.n_answers for answer in answers), default=0)) > 1:
        say(f"p is corrected for up to {most} answers (Holm); intervals are not.")
    for tested in data.values():
        if (first, tested.name) not in evaluation.items:
            say(f"{tested.title}: no answer, since {labels[first]} has no score", err=True)
    for spec, task in evaluation.compared(compared) if n_items else ():
        print_changes(
            evaluation.changes(spec, task, n_items),
            f"{labels[spec]} on {data[task].title}",
            data[task],
        )


def in_words(answer: Answer, labels: Mapping[str, str], data: Data) -> str:
    """Return difference, interval, p and verdict as one line."""
    from mirrorbench.reports.renderers import number
    from mirrorbench.reports.renderers.numbers import p_words
    from mirrorbench.reports.renderers.verdicts import without_overlap

    ends, words = answer.comparison.estimate.interval(), number(answer.comparison.difference)
    words = f"+{words}" if answer.comparison.difference > 0 else words
    widest = 2.0 if "spearman" in data.task.main_metric else 1.0  # of a difference of two scores
    if not ends or answer.p is None:
        words += ", too few items for an interval"
    elif ends[0] == ends[1]:
        words += ", the same on all items"
    else:
        words += f" [{number(max(-widest, ends[0]))}, {number(min(widest, ends[1]))}], p {p_words(answer.p)}"
    needed = answer.items_needed if answer.verdict == "not separable" else None
    items = data.task.count_items(answer.comparison.n)
    if needed and needed > answer.comparison.n:
        items += f"; a difference of this size needs about {needed:,}"
    words += without_overlap(answer.unseen)
    this_model = " (this model)" * (answer.this_model and answer.verdict != "not separable")
    return f"{labels[answer.row]} on {data.title}: {answer.verdict}{this_model}, {words} ({items})"


def print_changes(changes: tuple[list[Change], list[Change]], title: str, data: Data) -> None:
    """Print the items that gained and lost most: their scores, texts and predictions."""
    from mirrorbench.reports.renderers import number

    if not any(changes):
        say(f"\n{title}: no item changed")
    values = f" ({data.task.values_name})" if data.task.values_name else ""
    for verb, changed in zip(("gained", "lost"), changes, strict=True):
        if changed:
            say(f"\n{title}: {verb} most{values}")
        for change in changed:
            text = _short(data.task.describe(data.items, change.item))
            say(f"  {number(change.before)} → {number(change.now)}  {text}")
            for word, predictions in (
                ("before", change.predictions_before),
                ("now", change.predictions_now),
            ):
                for line in data.task.retrieved(data.items, change.item, predictions):
                    say(f"    {word:6} {_short(line)}")


def _short(text: str, most: int = 100) -> str:
    line = text if not without_texts() else f"(a text of {len(text):,} characters)"
    return (
        line.rstrip().replace("\n", " ")
        if len(line) <= most
        else f"{line[: most - 1]}…".replace("\n", " ")
    )


def as_object(
    evaluation: Evaluation,
    board: Leaderboard,
    labels: Mapping[str, str],
    data: Mapping[str, Data],
    n_items: int,
) -> dict[str, object]:
    """Return scores, answers, failures and, for ``n_items``, the items that changed most, for JSON."""
    report: dict[str, object] = {
        "scores": [
            {
                "encoder": labels[r.spec],
                "spec": r.spec,
                "data": r.task,
                "scores": r.metrics,
                "notes": r.notes,
            }
            for r in board.results
        ],
        "answers": [_answer(answer, labels) for answer in evaluation.answers()],
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
        report["items"] = [
            {
                "encoder": labels[spec],
                "data": task,
                verb: change.item,
                "before": change.before,
                "now": change.now,
            }
            for spec, task in evaluation.compared(evaluation.encoders[1:])
            for verb, changed in zip(
                ("gained", "lost"), evaluation.changes(spec, task, n_items), strict=True
            )
            for change in changed
        ]
    return report


def _answer(answer: Answer, labels: Mapping[str, str]) -> dict[str, object]:
    estimate, ends = answer.comparison.estimate, answer.comparison.estimate.interval()
    return {
        "encoder": labels[answer.row],
        "data": answer.task,
        "n_items": answer.comparison.n,
        "first": answer.comparison.second.mean,
        "score": answer.comparison.first.mean,
        "difference": estimate.value,
        "interval": ends and list(ends),
        "p": answer.comparison.p,
        "p_holm": answer.p,
        "verdict": answer.verdict,
        "this_model": answer.this_model,
        "unseen": answer.unseen and asdict(answer.unseen),
        "items_needed": answer.items_needed,
    }
