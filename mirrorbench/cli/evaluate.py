"""``mirrorbench evaluate``: compare encoders with the first one on your own data."""

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
    ResultsFolder,
    print_json,
    print_numbers,
    say,
)
from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import without_texts
from mirrorbench.own_data.clustering import SEEDS
from mirrorbench.own_data.evaluation import Evaluation, computed_evaluation, items_needed
from mirrorbench.own_data.measures import FOLDS
from mirrorbench.own_data.planning import (
    Data,
    data_name,
    encoder_lines,
    evaluation_plan,
    overlap_lines,
    overlaps,
    specs_by_name,
    without_repeats,
)
from mirrorbench.own_data.ranking_tasks import NO_BM25
from mirrorbench.reports.renderers import number
from mirrorbench.reports.statistics.equality import requested_equality

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorbench.data.corpora import Contamination
    from mirrorbench.own_data.evaluation import Change
    from mirrorbench.reports.table import Verdict

_Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...", help="Your own files or folders; docs/own_data.md describes them."
    ),
]
_Encoders = Annotated[
    list[str],
    typer.Option(
        "--encoder",
        "-e",
        metavar="SPEC",
        help=f"May be repeated; all are compared with the first. {ENCODER_HELP}; a bare backbone is its untuned row.",
    ),
]
_Kind = Annotated[
    str,
    typer.Option(
        metavar="KIND", help="Kind of the data.", show_default="inferred from their columns"
    ),
]
_Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=NAME", help="Name of a column in the data. May be repeated."),
]
_Baselines = Annotated[
    bool,
    typer.Option(
        "--baselines",
        help="Also evaluate each encoder's vectors whitened, without their three main axes, and standardised.",
    ),
]
_Items = Annotated[
    int,
    typer.Option(
        "--items",
        metavar="N",
        min=0,
        help="Print the N items that gained most, and the N that lost most.",
    ),
]
_TunedOn = Annotated[
    str,
    typer.Option(
        metavar="TEXTS",
        help="File or folder of tuning texts; prints the share of items that contain one of them.",
    ),
]
_DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print the smallest difference that the data can show; compute nothing."
    ),
]


def evaluate(
    data: _Data,
    encoder: _Encoders,
    kind: _Kind = "",
    columns: _Columns = None,
    baselines: _Baselines = False,
    tuned_on: _TunedOn = "",
    margin: Margin = None,
    dry_run: _DryRun = False,
    output: ResultsFolder = Path("results"),
    items: _Items = 0,
    device: Device = "auto",
    eval_precision: EvalPrecision = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    as_json: Json = False,
    notes: Notes = "",
    quiet: Quiet = False,
    plugin: PluginFiles = None,
) -> None:
    """Compare encoders with the first one on your own data: differences, intervals, p-values, verdicts.

    `mirrorbench evaluate ./faq.csv -e minilm -e ./my-encoder`

    `mirrorbench evaluate ./cranfield -e minilm -e ./tuned --items 5`
    """
    from mirrorbench.cli.display import on_interrupt_go_on
    from mirrorbench.cli.progress import print_logged, progress_display
    from mirrorbench.session import Session

    if dry_run and as_json:
        raise UsageError("--dry-run prints no JSON", "Use only one of --dry-run and --json.")
    equality = requested_equality(margin)  # None without a margin
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
        data_sets = Data.read(names, session.plugins, session.folders.data)
        # The summaries are output of a dry run, but only progress of a real one.
        if not quiet:
            for data_set in data_sets.values():
                say(data_set.summary, err=not dry_run)
        # A dry run, too, reads the tuning texts and plans, so that it finds the errors of a real one.
        overlap_by_name: dict[str, Contamination] = {}
        if tuned_on:
            overlap_by_name = overlaps(
                tuned_on, data_sets, session.plugins, session.folders.data, reporter
            )
        overlap_sentences = list(overlap_lines(tuned_on, overlap_by_name, data_sets))
        spec_by_name = specs_by_name(encoder, session.plugins, session.folders)
        plan = evaluation_plan(
            spec_by_name,
            data_sets,
            session.plugins,
            session.folders,
            session.compute,
            reporter,
            baselines=baselines,
            fetch=not dry_run,
        )
        if dry_run:
            # Print the smallest difference that each data set can show, and whether it can show equality.
            for data_set in data_sets.values():
                say(data_set.difference_sentence())
                if equality:
                    say(data_set.equality_sentence(equality.margin))
            return
        evaluation = computed_evaluation(
            plan,
            spec_by_name,
            data_sets,
            session.plugins,
            session.folders,
            session.compute,
            reporter,
            tuned_on=overlap_by_name,
            equality=equality,
        )
    board = evaluation.leaderboard
    if as_json:
        print_json(as_object(evaluation, items) | {"overlap": overlap_sentences})
    else:
        print_evaluation(evaluation, data_sets, items, notes)
        for sentence in overlap_sentences:
            say(sentence, err=True)
        if not quiet:
            # A line for each encoder but not for rows of --baselines: they transform the same vectors.
            labels = {spec: evaluation.labels[spec] for spec in evaluation.encoders}
            for line in encoder_lines(board.results, labels, data_sets):
                say(line, err=True)
    print_logged(board.failures, output)
    raise typer.Exit(1 if board.failures else 0)


def print_evaluation(
    evaluation: Evaluation, data: Mapping[str, Data], n_items: int, notes: str
) -> None:
    """Print the table, a sentence for each verdict, what limits the answers, and the items that changed most.

    ``n_items`` is the number of items that gained most, and of those that lost most (0: print none).
    """
    from mirrorbench.cli.display import print_table

    # The table prints all notes, with the sentences on verdicts among them, or none. The short
    # ones, which are the default, are these sentences and their caveats, printed below.
    print_table(evaluation.leaderboard.table, "all" if notes == "all" else "none")
    print_missing(evaluation, data)
    if len(evaluation.encoders) == 1:
        say("Name a second encoder (-e) to compare it with the first.", err=True)
    if notes in ("", "short"):
        print_answers(evaluation)
    print_items_needed(evaluation, data)
    print_thresholds(evaluation, data)
    print_seeds(evaluation, data)
    print_in_use(evaluation)
    if n_items:
        for verdict in evaluation.encoder_verdicts:
            data_set = data[verdict.column]
            title = f"{evaluation.labels[verdict.spec]} on {data_set.title}"
            print_changes(evaluation.changes(verdict, n_items), title, data_set)


def print_missing(evaluation: Evaluation, data: Mapping[str, Data]) -> None:
    """Print why scores are missing in the table, and which data therefore have no answer."""
    # Computed results without a score: their notes say why, except the remarks on the data.
    results = evaluation.leaderboard.results
    for result in results:
        if result.main_score is None:
            reasons = [note for note in result.notes if note not in result.remarks]
            cell = f"{evaluation.labels[result.spec]} on {data[result.task].title}"
            say(f"{cell}: no score: {'; '.join(reasons) or 'undefined'}")
    for failure in evaluation.leaderboard.failures:
        cell = f"{evaluation.labels[str(failure.spec)]} on {data[failure.task].title}"
        say(f"Failed: {cell}: {failure.reason}\n{failure.hint}".rstrip())
    # Data without the baseline BM25, and data on which there is no score to compare others with.
    first_encoder = evaluation.encoders[0]
    for data_set in data.values():
        if any(result.task == data_set.name and NO_BM25 in result.notes for result in results):
            say(f"{data_set.title}: {NO_BM25}")
        if not evaluation.is_scored(first_encoder, data_set.name):
            label = evaluation.labels[first_encoder]
            say(f"{data_set.title}: no answer, since {label} has no score")


def print_thresholds(evaluation: Evaluation, data: Mapping[str, Data]) -> None:
    """Print the cosine above which pairs count as alike, and its quality on pairs that were not used to choose it."""
    results = evaluation.leaderboard.results
    # Data whose pairs form too few groups to choose a threshold.
    for data_set in data.values():
        if data_set.task.kind != "pairs":
            continue
        results_on_data = [result for result in results if result.task == data_set.name]
        if any("threshold" not in result.metrics for result in results_on_data):
            needs = f"{FOLDS} groups of pairs of each label that share no text"
            say(f"{data_set.title}: no threshold, which needs {needs}")
    # The thresholds of the encoders themselves, without the rows of --baselines.
    rows = []
    for result in results:
        if "threshold" not in result.metrics or result.spec not in evaluation.encoders:
            continue
        threshold = result.metrics["threshold"]
        assert threshold is not None
        # Rounded down, so that no pair above the threshold falls below the printed number.
        rounded = floor(threshold * 1000) / 1000
        cells = [_label_on_data(evaluation, data, result.spec, result.task), number(rounded)]
        for name in ("precision", "recall", "f1"):
            value = result.metrics[name]
            cells.append("-" if value is None else number(value))
        rows.append(cells)
    if rows:
        say(
            "\nPairs are alike above the threshold, chosen for F1; scored on pairs that did not choose it:\n"
        )
        print_numbers(["encoder", "cosine above", "precision", "recall", "F1"], rows)


def _label_on_data(evaluation: Evaluation, data: Mapping[str, Data], spec: str, name: str) -> str:
    """Return the label of an encoder, with the title of the data if there are several."""
    label = evaluation.labels[spec]
    if len(data) == 1:
        return label
    return f"{label} on {data[name].title}"


def print_seeds(evaluation: Evaluation, data: Mapping[str, Data]) -> None:
    """Print the standard deviation of clustering scores over the seeds of k-means, which the intervals include."""
    for data_set in data.values():
        deviations = []
        for result in evaluation.leaderboard.results:
            deviation = result.metrics.get("v_measure_std")
            if result.task == data_set.name and deviation is not None:
                deviations.append(f"{evaluation.labels[result.spec]} {number(deviation)}")
        if deviations:
            seeds = f"mean over {len(SEEDS)} seeds of k-means; their standard deviation"
            say(f"{data_set.title}: {seeds}: {', '.join(deviations)}")


def print_in_use(evaluation: Evaluation) -> None:
    """Print a table: each encoder's speed, the size of its vectors and the share of texts that it truncates."""
    rows = []
    for spec, in_use in evaluation.in_use.items():
        speed = _count_cell(in_use.texts_per_second)
        # An encoder without vectors, which scores pairs, is measured in pairs.
        if in_use.dimensions is None and in_use.texts_per_second is not None:
            speed += " pairs"
        share_cut = in_use.share_cut
        rows.append(
            [
                evaluation.labels[spec],
                speed,
                _count_cell(in_use.dimensions),
                _count_cell(in_use.bytes_per_vector),
                "unknown" if share_cut is None else f"{share_cut:.1%}",
            ]
        )
    if rows:
        say()
        print_numbers(["encoder", "texts/s", "dimensions", "bytes a vector", "texts cut"], rows)


def _count_cell(count: float | None) -> str:
    return "-" if count is None else f"{count:,.0f}"


def print_answers(evaluation: Evaluation) -> None:
    """Print a sentence for each verdict, how p-values are corrected, and caveats."""
    from mirrorbench.reports.renderers.verdicts import sentences
    from mirrorbench.reports.statistics.verdicts import caveat_notes

    table = evaluation.leaderboard.table
    if table.verdicts:
        say()
    for _, text in sentences(table):
        say(text)
    most_tests = max((verdict.n_tests for verdict in table.verdicts), default=1)
    if most_tests > 1:
        say(f"In brackets: p is corrected for up to {most_tests} tests (Holm); intervals are not.")
    for note in caveat_notes(table.verdicts):
        say(note)


def print_items_needed(evaluation: Evaluation, data: Mapping[str, Data]) -> None:
    """Print for each difference that is not separable how many items would make it so."""
    for verdict in evaluation.encoder_verdicts:
        n_needed = items_needed(verdict)
        if verdict.answer == "not separable" and n_needed and n_needed > verdict.n:
            label = _label_on_data(evaluation, data, verdict.spec, verdict.column)
            items = data[verdict.column].task.count_items(n_needed)
            size = f"a difference of this size needs about {items}"
            say(f"{label}: {size}; there are {verdict.n:,}")


def print_changes(changes: tuple[list[Change], list[Change]], title: str, data: Data) -> None:
    """Print the items that gained and lost most: their scores, texts and predictions."""
    if not any(changes):
        say(f"\n{title}: no item changed")
    values = f" ({data.task.values_name})" if data.task.values_name else ""
    gained, lost = changes
    if gained:
        say(f"\n{title}: gained most{values}")
        for change in gained:
            _print_change(change, data)
    if lost:
        say(f"\n{title}: lost most{values}")
        for change in lost:
            _print_change(change, data)


def _print_change(change: Change, data: Data) -> None:
    margin = f"  {number(change.before)} → {number(change.now)}  "
    for line in _lines_of_item(data, change.item):
        say(margin + line)
        margin = " " * len(margin)  # only the first line has the scores
    for line in data.task.retrieved(data.items, change.item, change.predictions_before):
        say(f"    before {_short(line)}")
    for line in data.task.retrieved(data.items, change.item, change.predictions_now):
        say(f"    now    {_short(line)}")


def _lines_of_item(data: Data, item: str) -> list[str]:
    """Return a line for each text of an item, then one for its gold answer if it has one."""
    lines = [_short(text) for text in data.task.texts(data.items)[item]]
    names = data.task.text_names
    if names:
        lines = [f"{name}: {line}" for name, line in zip(names, lines, strict=True)]
    gold = data.task.gold_words(data.items, item)
    if gold:
        lines.append(gold)
    return lines


def _short(text: str, max_length: int = 100) -> str:
    """Return the beginning of a text in one line, or only its length if texts must not be printed."""
    if without_texts():
        return f"(a text of {len(text):,} characters)"
    if len(text) > max_length:
        text = f"{text[: max_length - 1]}…"
    return text.rstrip().replace("\n", " ")


def as_object(evaluation: Evaluation, n_items: int) -> dict[str, object]:
    """Return the JSON object of an evaluation.

    It has the ``n_items`` items that gained most and as many that lost most; 0 leaves its key ``items`` out.
    """
    board = evaluation.leaderboard
    labels = evaluation.labels
    scores = []
    for result in board.results:
        scores.append(
            {
                "encoder": labels[result.spec],
                "spec": result.spec,
                "data": result.task,
                "scores": result.metrics,
                "notes": result.notes,
            }
        )
    encoders = []
    for spec, in_use in evaluation.in_use.items():
        encoders.append({"encoder": labels[spec], "spec": spec, **asdict(in_use)})
    failures = []
    for failure in board.failures:
        failures.append(
            {
                "encoder": labels[str(failure.spec)],
                "data": failure.task,
                "reason": failure.reason,
                "hint": failure.hint,
            }
        )
    report: dict[str, object] = {
        "scores": scores,
        "encoders": encoders,
        "answers": _answers(evaluation),
        "notes": [*board.table.warnings, *board.table.notes],
        "failures": failures,
    }
    if n_items:
        report["items"] = _changed_items(evaluation, n_items)
    return report


def _answers(evaluation: Evaluation) -> list[dict[str, object]]:
    from mirrorbench.reports.renderers.verdicts import sentences

    table = evaluation.leaderboard.table
    answers = []
    for verdict, (_, sentence) in zip(table.verdicts, sentences(table), strict=True):
        answers.append(_answer(verdict, evaluation.labels[verdict.spec], sentence))
    return answers


def _answer(verdict: Verdict, label: str, sentence: str) -> dict[str, object]:
    """Return the JSON object of a verdict on an encoder: its score, that of the first encoder, and the test of both."""
    interval = None if verdict.interval is None else list(verdict.interval)
    return {
        "encoder": label,
        "data": verdict.column,
        "n_items": verdict.n,
        "left_out": verdict.left_out,
        # A verdict compares the encoder with the first encoder (-e), whose score is therefore the second of the two.
        "first": verdict.second,
        "score": verdict.first,
        "difference": verdict.difference,
        "interval": interval,
        "p": verdict.p,
        "p_holm": verdict.corrected,
        "n_tests": verdict.n_tests,
        "verdict": verdict.answer,
        "this_model": verdict.this_model,
        "two_seeds": verdict.two_seeds,
        "unseen": None if verdict.unseen is None else asdict(verdict.unseen),
        "equality": None if verdict.equality is None else asdict(verdict.equality),
        "items_needed": items_needed(verdict),
        "sentence": sentence,
    }


def _changed_items(evaluation: Evaluation, n_items: int) -> list[dict[str, object]]:
    items = []
    for verdict in evaluation.encoder_verdicts:
        label = evaluation.labels[verdict.spec]
        gained, lost = evaluation.changes(verdict, n_items)
        for change in gained:
            items.append(_changed_item(change, label, verdict.column, "gained"))
        for change in lost:
            items.append(_changed_item(change, label, verdict.column, "lost"))
    return items


def _changed_item(change: Change, label: str, name: str, verb: str) -> dict[str, object]:
    """Return the JSON object of a changed item, whose id is under ``verb``."""
    return {
        "encoder": label,
        "data": name,
        verb: change.item,
        "before": change.before,
        "now": change.now,
    }
