"""``evaluate``: say whether encoders are better than the first one on data of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.plugin import (
    DataDir,
    Device,
    Json,
    Notes,
    Offline,
    PluginFiles,
    Quiet,
    Stored,
    UsageError,
    print_json,
    say,
    without_texts,
)
from mirrorbench_evaluate.answers import BM25, FUSED, Evaluation
from mirrorbench_evaluate.planning import (
    Data,
    cut_texts,
    named,
    overlap_with,
    plan_of,
    rows_of,
    transformed,
    without_repeats,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorbench.plugin import Leaderboard, Plan, Session
    from mirrorbench_evaluate.answers import Answer, Change

# fmt: off
_Data = Annotated[list[str], typer.Argument(metavar="DATA...", help="Files or folders of your own (docs/own_data.md).")]
_Encoders = Annotated[list[str], typer.Option(
    "--encoder", "-e", metavar="SPEC", help="Encoders; the others are compared with the first. A bare backbone is its "
    "untuned row.")]
_Kind = Annotated[str, typer.Option(metavar="KIND", help="What the data are.", show_default="by their columns")]
_Columns = Annotated[list[str] | None, typer.Option(
    metavar="COLUMN=NAME", help="The data's own name of a column; for each again.")]
_Baselines = Annotated[bool, typer.Option(
    "--baselines", help="Also each encoder's vectors whitened, without their three main axes, and standardised.")]
_Items = Annotated[int, typer.Option("--items", metavar="N", min=0, help="Show the items that gained and lost most.")]
_TunedOn = Annotated[str, typer.Option(
    metavar="TEXTS", help="Say how many items hold a text of this file or folder, on which an encoder was tuned.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what so many items can show, and compute nothing.")]
_Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where results go.")]
# fmt: on


def evaluate(
    data: _Data, encoder: _Encoders, kind: _Kind = "", columns: _Columns = None, baselines: _Baselines = False,
    items: _Items = 0, tuned_on: _TunedOn = "", dry_run: _DryRun = False,
    output: _Output = Path("results"), device: Device = "auto", data_dir: DataDir = None, offline: Offline = False,
    as_json: Json = False, notes: Notes = "", quiet: Quiet = False, plugin: PluginFiles = None,
) -> None:  # fmt: skip
    """Say whether encoders are better than the first one on data of your own: differences, intervals, p-values.

    `mirrorbench evaluate ./faq.csv -e minilm -e ./my-encoder`

    `mirrorbench evaluate ./cranfield -e minilm -e ./tuned --items 5`
    """
    from mirrorbench.plugin import Session, on_interrupt_go_on, print_table, progress_display

    if dry_run and as_json:
        raise UsageError("--dry-run prints words, and no JSON", "Take one of them.")
    names = without_repeats([named(path, kind, columns or ()) for path in data])
    with on_interrupt_go_on(output), progress_display(quiet) as reporter:
        session = Session(output, data_dir=data_dir, device=device, offline=offline or dry_run, reporter=reporter)
        reporter.stage("planning", "the evaluation")
        read = Data.read(names, session)
        for own in () if quiet else read.values():
            say(own.about, err=not dry_run)
        overlap = list(overlap_with(tuned_on, read, session)) if tuned_on else []
        rows = rows_of(encoder, session)
        plan = plan_of(rows.values(), read, session, baselines, fetch=not dry_run)
        if dry_run:
            for own in read.values():
                say(own.can_show())
            return
        board = session.execute(plan)
    labels = {str(spec): text for text, spec in rows.items()} | {BM25: BM25}
    labels |= {str(t): f"{text}, {name}" for text, spec in rows.items() for name, t in transformed(spec).items()}
    labels |= {f"{spec}{FUSED}": f"{text}{FUSED}" for spec, text in labels.items() if spec != BM25}
    ids = {own.name: list(own.task.texts(own.items)) for own in read.values()}
    encoders = [str(spec) for spec in rows.values()]
    untrained = [str(row) for row in plan.rows if str(row) not in encoders]
    evaluation = Evaluation(stored(board, plan, session), encoders, untrained, ids, session.workspace.plugins)
    if as_json:
        print_json(as_object(evaluation, board, labels, read, items))
        raise typer.Exit(1 if board.failures else 0)
    titles = {own.name: own.title for own in read.values()}
    print_table(evaluation.table(board.table, labels, titles), "none" if quiet else notes or "none")
    print_answers(evaluation, labels, read, items)
    for line in (*overlap, *(() if quiet else cut_texts(plan, read, labels))):
        say(line, err=True)
    for failure in board.failures:
        words = f"Failed: {labels[str(failure.spec)]} on {read[failure.task].title}: {failure.reason}"
        say(f"{words}\n{failure.hint}".rstrip(), err=True)
    raise typer.Exit(1 if board.failures else 0)


def stored(board: Leaderboard, plan: Plan, session: Session) -> list[Stored]:
    """The results of a plan, with their paths."""
    store, cells = session.workspace.results, {cell.id: cell for cell in plan.cells}
    return [Stored(result, store.where(cells[result.cell_id])) for result in board.results]


def print_answers(evaluation: Evaluation, labels: Mapping[str, str], data: Mapping[str, Data], n_items: int) -> None:
    """Print a line for each answer, and the items that changed most."""
    say()
    first, *others = evaluation.encoders
    if not others:
        say("Name a second encoder (-e) to hear whether it is better.", err=True)
    answers = evaluation.answers()
    for answer in answers:
        say(in_words(answer, labels, data[answer.task]))
    if (most := max((answer.n_answers for answer in answers), default=0)) > 1:
        say(f"p is corrected for up to {most} answers (Holm); intervals are not.")
    for own in data.values():
        if (first, own.name) not in evaluation.items:
            say(f"{own.title}: no answer, since {labels[first]} has no score", err=True)
    for spec, task in evaluation.compared(others) if n_items else ():
        print_changes(evaluation.changes(spec, task, n_items), f"{labels[spec]} on {data[task].title}", data[task])


def in_words(answer: Answer, labels: Mapping[str, str], data: Data) -> str:
    """One line: the difference, its interval, p and the verdict."""
    from mirrorbench.plugin import number, p_words

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
    counted = data.task.counted(answer.comparison.n)
    if needed and needed > answer.comparison.n:
        counted += f"; a difference of this size needs about {needed:,}"
    return f"{labels[answer.row]} on {data.title}: {answer.verdict}, {words} ({counted})"


def print_changes(changes: tuple[list[Change], list[Change]], title: str, data: Data) -> None:
    """Print the items that gained and lost most: their texts, scores and what was found for them."""
    from mirrorbench.plugin import number

    if not any(changes):
        say(f"\n{title}: no item changed")
    what = f" ({data.task.values_are})" if data.task.values_are else ""
    for verb, own in zip(("gained", "lost"), changes, strict=True):
        if own:
            say(f"\n{title}: {verb} most{what}")
        for change in own:
            say(f"  {number(change.before)} → {number(change.now)}  {_short(data.task.shown(data.items, change.item))}")
            for word, predictions in (("before", change.found_before), ("now", change.found_now)):
                for line in data.task.found(data.items, change.item, predictions):
                    say(f"    {word:6} {_short(line)}")


def _short(text: str, most: int = 100) -> str:
    line = text if not without_texts() else f"(a text of {len(text):,} characters)"
    return line.rstrip().replace("\n", " ") if len(line) <= most else f"{line[: most - 1]}…".replace("\n", " ")


def as_object(
    evaluation: Evaluation, board: Leaderboard, labels: Mapping[str, str], data: Mapping[str, Data], n_items: int
) -> dict[str, object]:
    """All scores, answers, failures and, if asked for, the items that changed most."""
    report: dict[str, object] = {
        "scores": [
            {"encoder": labels[r.spec], "spec": r.spec, "data": r.task, "scores": r.metrics, "notes": r.notes}
            for r in board.results
        ],
        "answers": [_answer(answer, labels) for answer in evaluation.answers()],
        "failures": [
            {"encoder": labels[str(failure.spec)], "data": failure.task, "reason": failure.reason, "hint": failure.hint}
            for failure in board.failures
        ],
    }  # fmt: skip
    if n_items:
        report["items"] = [
            {"encoder": labels[spec], "data": task, verb: change.item, "before": change.before, "now": change.now}
            for spec, task in evaluation.compared(evaluation.encoders[1:])
            for verb, own in zip(("gained", "lost"), evaluation.changes(spec, task, n_items), strict=True)
            for change in own
        ]
    return report


def _answer(answer: Answer, labels: Mapping[str, str]) -> dict[str, object]:
    estimate, ends = answer.comparison.estimate, answer.comparison.estimate.interval()
    return {
        "encoder": labels[answer.row], "data": answer.task, "n_items": answer.comparison.n,
        "first": answer.comparison.second.mean, "score": answer.comparison.first.mean,
        "difference": estimate.value, "interval": ends and list(ends), "p": answer.comparison.p, "p_holm": answer.p,
        "verdict": answer.verdict, "items_needed": answer.items_needed,
    }  # fmt: skip
