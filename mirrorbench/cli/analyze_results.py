"""The kinds of ``mirrorbench analyze`` that read stored results: changed answers, curves of a sweep, buckets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.analysis_options import (
    HERE,
    Asked,
    Folders,
    Formats,
    Output,
    Results,
    TaskName,
    of_encoders,
)  # fmt: skip
from mirrorbench.cli.analysis_output import figure_formats, leave, leave_failures, provenance
from mirrorbench.cli.options import DataDir, Offline, PluginFiles, encoders_option, split_names, tasks_option

if TYPE_CHECKING:
    from mirrorbench.analysis.curves import Series
    from mirrorbench.analysis.frequency import Bucket
    from mirrorbench.analysis.study import Predictions, Session
    from mirrorbench.runs.results import Result

BEFORE_AND_AFTER = ["tiny+base:pooling=target,layers=-4:", "tiny+mirrorwic"]
"""The embedded model as a reader of words in context, before and after tuning."""


BeforeAndAfter = Annotated[
    list[str] | None, encoders_option("Two of them: before and after.", "tiny before and after MirrorWiC")
]


@of_encoders("quick-wic", BEFORE_AND_AFTER, BeforeAndAfter)
def errors(
    asked: Asked,
    show: Annotated[int, typer.Option(min=0, help="Changed items to print of each kind.")] = 5,
    results: Results = Path("results"),
) -> None:
    """Items whose answer changes between two encoders (MirrorWiC, Table 6); for graded tasks, whose rank does.

    `mirrorbench analyze errors -e bert+base:pooling=target,layers=-4: -e bert+mirrorwic -t wic`
    """  # fmt: skip
    from mirrorbench.core.errors import UsageError
    from mirrorbench.runs.results import ResultStore

    with asked.session() as session:
        rows = [str(cell.spec) for cell in session.plan().cells]
        if len(rows) + len(session.failures) != 2:
            raise UsageError(
                f"errors compares two encoders, and these are {len(rows)}: {', '.join(rows)}",
                "Name two with their methods: -e BACKBONE+base -e BACKBONE+mirror",
            )
        stored = session.predictions(ResultStore(results))
    if len(stored) == 2:
        _compare(session, stored[0], stored[1], show, asked.output, asked.formats)
    leave_failures(session)


def _compare(
    session: Session, before: Predictions, after: Predictions, show: int, output: Path, formats: tuple[str, ...]
) -> None:
    from mirrorbench.analysis import errors as numbers
    from mirrorbench.analysis import figures
    from mirrorbench.analysis.study import scored, texts_of_items
    from mirrorbench.core.errors import UsageError

    first, second = scored(before), scored(after)
    ids = [str(item) for item in first["ids"]]
    if ids != [str(item) for item in second["ids"]]:
        raise UsageError(f"the two encoders were scored on other items of {session.task}", "Run both anew.")
    texts = texts_of_items(session.items())
    labels = (before.label, after.label)
    document: dict[str, Any] = {**provenance(session), "cell_ids": [before.result.cell_id, after.result.cell_id]}
    stem = output / f"errors-{session.task}"
    answers = [numbers.answers(a, p.result.metrics.get("threshold")) for a, p in ((first, before), (second, after))]
    if answers[0] is None or answers[1] is None:
        shifts = numbers.shifted_ranks(ids, first["gold"], first["scores"], second["scores"])
        rows: list[dict[str, Any]] = [
            {"id": s.id, "gold_rank": s.gold, "rank_before": s.before, "rank_after": s.after, "gain": s.gain,
             "texts": _joined(texts, s.id)}
            for s in shifts
        ]  # fmt: skip
        best, worst = [r for r in rows if r["gain"] > 0][:show], [r for r in rows if r["gain"] < 0][:show]
        leave(stem, rows, document, lambda: figures.shifts(shifts, labels), formats, best + worst)
        return
    found = numbers.changed_answers(
        ids, first["gold"], answers[0], answers[1], (first["scores"], second["scores"])
    )  # fmt: skip
    rows = [
        {"id": c.id, "gold": c.gold, "before": c.before, "after": c.after, "score_before": c.score_before,
         "score_after": c.score_after, "texts": _joined(texts, c.id)}
        for c in found.changed
    ]  # fmt: skip
    counts = {"items": found.n, "changed": len(found.changed), "corrected": found.corrected,
              "new_true_positives": found.corrected_true, "spoiled": found.spoiled,
              "new_false_positives": found.spoiled_false}  # fmt: skip
    good = [row for row in rows if row["after"] == row["gold"]][:show]
    bad = [row for row in rows if row["after"] != row["gold"]][:show]
    typer.echo("; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in counts.items()))
    leave(stem, rows, document | counts, lambda: figures.errors(found, labels), formats, good + bad)


def _joined(texts: dict[str, tuple[str, ...]], item: str) -> str:
    return " | ".join(texts.get(item, ()))


def curves(
    results: Folders = None,
    x: Annotated[
        str, typer.Option("--x", metavar="KEY", help="The spec key that varies: corpus_size, dropout, span_mask ...")
    ] = "corpus_size",
    tasks: Annotated[list[str] | None, tasks_option("Only these.", "all")] = None,
    log: Annotated[bool, typer.Option("--log", help="A logarithmic x axis.")] = False,
    output: Output = HERE,
    format_: Formats = "",
    plugin: PluginFiles = None,
) -> None:
    """Scores by a setting of the tuning, from the results of a sweep (Mirror-BERT, Figure 5; MirrorWiC, Figure 4).

    `mirrorbench run -e tiny+mirror:corpus_size=100 -e tiny+mirror:corpus_size=300 -t quick-sts --seeds 2`

    `mirrorbench analyze curves --x corpus_size`
    """
    from mirrorbench.analysis import curves as numbers
    from mirrorbench.analysis import figures
    from mirrorbench.core.errors import UsageError

    formats = figure_formats(format_)
    found = numbers.series(_results(results, tasks), x)
    if not found:
        raise UsageError(
            f"no encoder has results for two values of {x} here",
            f"Make some: mirrorbench run -e BACKBONE+mirror:{x}=A -e BACKBONE+mirror:{x}=B -t TASK",
        )
    if log and any(point.x <= 0 for one in found for point in one.points):
        raise UsageError(f"{x} is 0 in some results, which has no logarithm", "Leave --log out.")
    labelled = _labelled(found)
    rows = [
        {"encoder": str(one.spec), "task": one.task, "protocol": one.protocol, "metric": one.metric,
         x: int(point.x) if float(point.x).is_integer() else point.x,
         "mean": point.mean, "sd": point.sd, "seeds": point.n}
        for one in found for point in one.points
    ]  # fmt: skip
    document = {"x": x, "folders": [str(folder) for folder in results or [Path("results")]]}
    leave(output / f"curves-{x}", rows, document, lambda: figures.curves(labelled, x, log), formats)


def frequency(
    results: Folders = None,
    task: TaskName = "quick-simlex",
    data_dir: DataDir = None,
    offline: Offline = False,
    output: Output = HERE,
    format_: Formats = "",
    plugin: PluginFiles = None,
) -> None:
    """How a task's words are spread over buckets of frequency, and scores after tuning on each (Mirror-BERT, Figure 8).

    `mirrorbench run -e bert+mirror:corpus=words-en-0-10k -e bert+mirror:corpus=words-en-10-20k -t multisimlex-en`

    `mirrorbench analyze frequency --task multisimlex-en`
    """
    from mirrorbench.analysis import figures
    from mirrorbench.analysis import frequency as numbers
    from mirrorbench.data.store import DataStore
    from mirrorbench.runs.builtin import plugins

    formats = figure_formats(format_)
    registered = plugins()
    entry = registered.tasks[task]
    there = results or Path("results").is_dir()  # the default folder may be missing: the spread needs no results
    found = numbers.series(_results(results, [task])) if there else []
    items = entry.load(DataStore(data_dir, offline=offline))
    corpora = {e.name: e.value for e in registered.corpora if numbers.bounds(e.name)}
    buckets = numbers.count(
        [item.text for item in entry.inputs(items)],
        [(name, corpus.generate()) for name, corpus in corpora.items()],
    )
    if not found:
        typer.echo(
            f"No results of {task} for any bucket; make some: mirrorbench run -e BACKBONE+mirror:corpus="
            f"{buckets[0].corpus} ... -t {task}", err=True,
        )  # fmt: skip
    labelled = _labelled(found)
    rows = [_bucket_row(bucket, labelled) for bucket in buckets]
    document = {"task": task, "words": {"outside": 1 - sum(bucket.share for bucket in buckets)}, "series": found}
    leave(output / f"frequency-{task}", rows, document, lambda: figures.frequency(buckets, labelled), formats)


def _bucket_row(bucket: Bucket, lines: dict[str, Series]) -> dict[str, Any]:
    from mirrorbench.analysis.frequency import at

    row: dict[str, Any] = {"corpus": bucket.corpus, "words": bucket.words, "share": bucket.share}
    for label, one in lines.items():
        point = at(one, bucket)
        row |= {label: point.mean if point else None, f"{label} sd": point.sd if point else None}
    return row


def _results(folders: list[Path] | None, tasks: list[str] | None) -> list[Result]:
    """The results of some tasks in some folders."""
    from mirrorbench.core.errors import UsageError
    from mirrorbench.runs.builtin import plugins
    from mirrorbench.runs.plan import expand_tasks
    from mirrorbench.runs.results import read_results

    for folder in folders or [Path("results")]:
        if not folder.is_dir():
            raise UsageError(f"there is no folder of results {folder}", "Make some: mirrorbench run")
    names = expand_tasks(split_names(tasks), plugins()) if tasks else ()
    return [
        result
        for folder in folders or [Path("results")]
        for result in read_results(folder)
        if not names or result.task in names
    ]


def _labelled(found: list[Series]) -> dict[str, Series]:
    """Curves by what tells them apart: the encoder, and the task and protocol where there are several."""
    from mirrorbench.reports.build import row_label
    from mirrorbench.runs.builtin import plugins

    registered = plugins()
    several_tasks = len({one.task for one in found}) > 1
    several_protocols = len({one.protocol for one in found}) > 1
    labelled: dict[str, Series] = {}
    for one in found:
        name = row_label(one.spec, registered)
        if several_tasks:
            name += f", {registered.tasks[one.task].title if one.task in registered.tasks else one.task}"
        if several_protocols:
            name += f" [{one.protocol}]"
        labelled[name if name not in labelled else f"{one.spec}, {one.task}"] = one
    return labelled
