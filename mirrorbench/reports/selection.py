"""Selection of stored results for a table or a comparison, and the leaderboards built from them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import DataFormatError, UsageError, unknown_name
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models.backbones import BACKBONES
from mirrorbench.reports.comparable import (
    Stored,
    mixtures,
    newest,
    read_stored,
    seed_key,
    without_repeats,
)
from mirrorbench.reports.leaderboard import (
    Leaderboard,
    build_table,
    in_column_order,
    row_label,
    row_labels,
    stated_names,
)
from mirrorbench.reports.table import Table, read_table
from mirrorbench.runs.ladder import POOLING_KEYS, place_of_row
from mirrorbench.storage.results import Result, folders_of_smoke_runs, read_result, result_files

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.statistics.items import ItemScores


def labelled(text: str, folder: Path, plugins: Plugins) -> str:
    """Return the spec of the row with this label among the results in a folder; the text itself if it is a spec."""
    with suppress(UsageError):
        spec = parse_spec(text)
        if (
            spec.is_path
            or "/" in spec.backbone
            or spec.backbone in (*BACKBONES, *plugins.encoders.names())
        ):
            return text
    for path in result_files(folder):
        with suppress(DataFormatError):  # whoever needs that file reports it
            result = read_result(path)
            if text in (result.name, row_label(parse_spec(result.spec), plugins)):
                return result.spec
    return text


def results_of_two(
    first: str, second: str, folders: tuple[Path, Path], protocol: str, plugins: Plugins
) -> tuple[list[Stored], list[Stored]]:
    """Return the results of two encoders, each in its folder, under one protocol (empty: the only one).

    A text is a spec, what the user called a row, or its label. A bare backbone, or ``BACKBONE+base``, stands for its
    untuned row, read by the model's own files or else by mean pooling. Of several rows that a text may mean, those two
    are taken that share a task.
    """
    first_rows = _rows_meant(first, folders[0], protocol, plugins)
    second_rows = _rows_meant(second, folders[1], protocol, plugins)
    pairs = list(product(first_rows, second_rows))
    if folders[0] == folders[1]:
        pairs = [pair for pair in pairs if pair[0][0].result.spec != pair[1][0].result.spec]
    if not pairs:
        raise UsageError(
            f"{first} is compared with itself",
            "Name another encoder, or two folders: -r OLD -r NEW",
        )
    chosen = next((pair for pair in pairs if _share_a_task(*pair)), pairs[0])
    for results in chosen:
        protocols = sorted({entry.result.protocol for entry in results})
        if len(protocols) > 1:
            text = " and ".join(protocols)
            raise UsageError(
                f"{results[0].result.spec} has results of the protocols {text}",
                "Choose one with --protocol",
            )
    return chosen


def _share_a_task(first: Sequence[Stored], second: Sequence[Stored]) -> bool:
    tasks = [{entry.result.task for entry in side} for side in (first, second)]
    return bool(tasks[0] & tasks[1])


def _rows_meant(text: str, folder: Path, protocol: str, plugins: Plugins) -> list[list[Stored]]:
    """The results of each row that a text may mean, the most likely first; ``UnknownNameError`` for none."""
    rows: dict[EncoderSpec, list[Stored]] = {}
    for entry in read_stored([folder]):
        if protocol in ("", entry.result.protocol):
            rows.setdefault(parse_spec(entry.result.spec), []).append(entry)
    results = [entry.result for entries in rows.values() for entry in entries]
    shown = row_labels(rows, plugins, stated_names(results))
    names = {spec: {entry.result.name for entry in entries} for spec, entries in rows.items()}
    meant = [spec for spec in rows if text == shown[spec]]
    meant += [spec for spec in rows if text in names[spec]]
    if not any(text == row_label(spec, plugins) for spec in rows):  # a label is no spec
        wanted = parse_spec(text)
        meant.append(wanted if wanted in rows else _untuned(wanted, sorted(rows, key=str)))
    meant += [spec for spec in rows if text == row_label(spec, plugins)]
    found = [rows[spec] for spec in dict.fromkeys(meant) if spec in rows]
    if not found:
        raise unknown_name(f"encoder among the results in {folder}:", text, sorted(shown.values()))
    return found


def _untuned(wanted: EncoderSpec, specs: Sequence[EncoderSpec]) -> EncoderSpec:
    """The untuned row of a bare backbone: the only one, or the one with mean pooling and the fewest settings.

    Any other spec, and that of a backbone without such a row, stays as it is.
    """
    if wanted.params or wanted.method not in ("", "base"):
        return wanted
    rows = [spec for spec in specs if spec == replace(wanted, method="base", params=spec.params)]
    rows = [spec for spec in rows if dict(spec.params).keys() <= set(POOLING_KEYS)]
    if len(rows) > 1:
        rows = [spec for spec in rows if str(spec.get("pooling")).startswith("mean")]
    return min(rows, key=lambda spec: len(spec.params), default=wanted)


@dataclass(frozen=True)
class Layout:
    """The rows and columns of a published table; ``where`` is its place in the paper."""

    title: str
    where: str
    rows: tuple[EncoderSpec, ...]
    metrics: Mapping[str, str]
    """Metric by task; empty for a table without scores of tasks."""


def layouts(plugins: Plugins) -> dict[str, Layout]:
    """Return the published tables of all plugins, by name."""
    return {
        name: layout for entry in plugins.tables for name, layout in entry.value(plugins).items()
    }


@dataclass(frozen=True)
class Choice:
    """The stored results of a leaderboard, and the statistics to compute from their per-item predictions.

    Attributes:
        tasks: names; empty for all.
        encoders: labels, or specs, where ``bert`` matches every row of BERT; empty for all.
        rows: exact specs in order, those without results left out; empty for all.
        protocol: empty for any.
        metrics: metric by task, instead of the main metric; the key ``""`` is for all other tasks.
        allow_mixed: show results that are not comparable (``comparable.mixtures``), with notes on that.
        intervals: add confidence intervals over items.
        ties: mark scores that are not separable from the best.
        without_overlap: leave out the items with a text of a tuning corpus.
    """

    tasks: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    rows: tuple[EncoderSpec, ...] = ()
    protocol: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    allow_mixed: bool = False
    intervals: bool = False
    ties: bool = False
    without_overlap: bool = False

    def laid_out(self, name: str, plugins: Plugins) -> Choice:
        """Return a copy with the tasks, encoders and metrics of a paper's table, except those already chosen."""
        known = layouts(plugins)
        if name not in known:
            plugins.tables.entry("papers")
            raise unknown_name("table", name, list(known), "mirrorbench list tables")
        rows, metrics = known[name].rows, known[name].metrics
        if not metrics:
            raise UsageError(
                f"{name} has no scores of tasks", f"mirrorbench paper {name} shows what it has."
            )
        return replace(
            self, tasks=self.tasks or tuple(metrics), rows=rows, metrics=self.metrics or metrics
        )


_ALL = Choice()


def stored_leaderboard(sources: Sequence[Path], choice: Choice, plugins: Plugins) -> Leaderboard:
    """Build the leaderboard of the results in folders, or read one table of the format ``json``."""
    if files := [path for path in sources if path.is_file()]:
        if len(sources) > 1:
            raise UsageError(
                f"{files[0]} is a finished table", "Name it alone, or name folders of results."
            )
        if choice != _ALL:
            raise UsageError(
                f"{files[0]} is a finished table",
                "Selections and statistics need folders of results.",
            )
        return Leaderboard(read_table(files[0]), (), (), plugins)
    stored, rows, notes = select(sources, plugins, choice)
    items: dict[str, ItemScores] | None = None
    if choice.without_overlap:
        stored, items, lines = without_overlap(stored, read_items(stored, plugins), plugins)
        notes += lines
    results = tuple(entry.result for entry in stored)
    table = build_table(results, plugins, choice.tasks, rows)
    table = judged(table, stored, plugins, choice.intervals, choice.ties, items)
    return Leaderboard(replace(table, warnings=(*table.warnings, *notes)), results, (), plugins)


def without_overlap(
    stored: Sequence[Stored], items: Mapping[str, ItemScores], plugins: Plugins
) -> tuple[list[Stored], dict[str, ItemScores], list[str]]:
    """Score results again on the items without a text of any encoder's tuning corpus.

    Returns:
        The results with new main scores; their items by ``cell_id``; notes on the number of items, and on results that
        are left out since they cannot be scored again.
    """
    from mirrorbench.reports.statistics.items import score_on

    seen: dict[str, set[str]] = {}
    lines: dict[str, None] = {}
    lost = set()  # scores with a seed that cannot be scored again: a mean over the others would pass for one over all
    for result in (entry.result for entry in stored):
        own = items.get(result.cell_id)
        if own is None or (result.cell.get("corpus") and own.overlap is None):
            reason = "its items are not stored" if own is None else "its overlap is unknown"
            lines[
                f"missing: {result.spec} on {result.task}, seed {result.seed}: {reason} (run it again)."
            ] = None
            lost.add(seed_key(result)[:-1])
        seen.setdefault(result.task, set()).update(own.seen if own else ())
    kept: list[Stored] = []
    left: dict[str, ItemScores] = {}
    counts: dict[str, str] = {}
    for entry in stored:
        result = entry.result
        if seed_key(result)[:-1] not in lost:
            own = items[result.cell_id]
            left[result.cell_id] = rest = own.without(seen[result.task])
            score = score_on(rest, plugins)
            main = None if isnan(score) else score
            metrics, n = {result.main_metric: main}, len(rest.ids)
            rescored = replace(result, main_score=main, metrics=metrics, n_items=n, overlap=None)
            kept.append(Stored(rescored, entry.path))
            counts[result.task] = f"{result.task} {n:,} of {len(own.ids):,}"
    return (
        kept,
        left,
        [
            *lines,
            f"Scored on items without a text of the tuning corpora: {', '.join(counts.values())}",
        ],
    )


def everything(folder: Path, plugins: Plugins) -> Leaderboard:
    """Build the leaderboard of all results of a folder, without verdicts: they can take longer than a run."""
    stored, rows, notes = select([folder], plugins, Choice(allow_mixed=True))
    results = tuple(entry.result for entry in stored)
    table = build_table(results, plugins, (), rows)
    more = f"Verdicts on these rows: mirrorbench leaderboard {folder}"
    table = replace(table, warnings=(*table.warnings, *notes), notes=(*table.notes, more))
    return Leaderboard(table, results, (), plugins)


def judged(
    table: Table,
    stored: Sequence[Stored],
    plugins: Plugins,
    intervals: bool = False,
    ties: bool = False,
    items: Mapping[str, ItemScores] | None = None,
) -> Table:
    """Add verdicts, intervals and ties to a table of stored results; ``items`` by cell, if they are read already."""
    from mirrorbench.reports.statistics.steps import find_steps
    from mirrorbench.reports.statistics.verdicts import Marker, seeds_of_rows, with_verdicts

    steps = find_steps(table, [entry.result for entry in stored])
    if items is None:
        items = read_items(stored, plugins)
    marker = Marker(table, seeds_of_rows(table, items), plugins)
    verdicts = marker.verdicts(steps)
    marked = with_verdicts(marker.with_marks(intervals, ties), verdicts)
    columns = tuple(map(marker.with_item_counts, marked.columns))
    on_matching = marker.notes_on_matching(verdicts, marked=intervals or ties)
    return replace(marked, columns=columns, notes=(*marked.notes, *on_matching))


def read_items(stored: Sequence[Stored], plugins: Plugins) -> dict[str, ItemScores]:
    """The items of results by cell; without those of unreadable predictions, which a table does not need."""
    from mirrorbench.reports.statistics.items import items_of

    items = {}
    several_folders = len({entry.path.parents[2] for entry in stored}) > 1
    for entry in stored:
        with suppress(DataFormatError):
            task = entry.result.task
            if several_folders and task in plugins.tasks and plugins.tasks[task].private:
                # Contents of own data are numbered with a secret of their folder: match them by files.
                arrays = dict(entry.predictions())
                arrays.pop("content", None)
                entry = entry._replace(in_memory=arrays)
            if own := items_of(entry, plugins):
                items[entry.result.cell_id] = own
    return items


def select(
    folders: Sequence[Path], plugins: Plugins, choice: Choice = _ALL
) -> tuple[list[Stored], list[EncoderSpec], list[str]]:
    """Return the chosen results (each cell once), their encoders in the order of the table, and warnings.

    Raises:
        UsageError: nothing is left, an encoder or metric is not among the results, or they are not comparable.
    """
    stored, where = read_stored(folders), ", ".join(map(str, folders))
    if not stored:
        smoke_runs = [str(run) for folder in folders for run in folders_of_smoke_runs(folder)]
        if smoke_runs:
            hint = f"Those of smoke runs (--limit) are in {', '.join(smoke_runs)}: name it."
            raise UsageError(f"no results in {where}", hint)
        raise UsageError(f"no results in {where}", "Make some: mirrorbench run")
    known = [entry.result for entry in stored]
    kept = [
        r
        for r in known
        if (not choice.tasks or r.task in choice.tasks) and choice.protocol in ("", r.protocol)
    ]
    if not kept:
        tasks = ", ".join(sorted({result.task for result in known}))
        raise UsageError(
            f"no results in {where} for the tasks or protocol asked for",
            f"There are results on: {tasks}",
        )
    kept, notes = newest(
        kept, _run_again([r for r in kept if r.computation != COMPUTATION], folders)
    )
    rows = _chosen_encoders(_encoders_in_order(kept, choice.tasks, plugins), kept, choice, plugins)
    metrics, specs = {"": "", **choice.metrics}, {str(spec) for spec in rows}
    kept = [
        _with_metric(r, metrics.get(r.task, metrics[""]))
        for r in kept
        if str(parse_spec(r.spec)) in specs
    ]
    mixed = mixtures(kept, plugins)
    if mixed and not choice.allow_mixed:
        reasons = "".join(f"\n  {reason}" for reason in mixed)
        raise UsageError(
            f"these results cannot be compared in one table:{reasons}",
            "Name fewer folders, select with --tasks, --encoder or --protocol, run again what differs,\n"
            "or mix them all the same with --allow-mixed: the table then says so.",
        )
    paths = {entry.result.cell_id: entry.path for entry in reversed(stored)}
    notes += [
        f"Mixed, not comparable: {reason}. The newest of each seed counts." for reason in mixed
    ]
    return [Stored(result, paths[result.cell_id]) for result in without_repeats(kept)], rows, notes


def _run_again(results: Sequence[Result], folders: Sequence[Path]) -> str:
    """The command that computes results anew: encoders, tasks and seeds, and common options."""
    words = [
        "mirrorbench",
        "run",
        *(w for spec in dict.fromkeys(r.spec for r in results) for w in ("-e", spec)),
    ]
    words += ["-t", ",".join(dict.fromkeys(result.task for result in results))]
    values = {
        "--seeds": {str(1 + max((r.seed for r in results), default=0))} - {"1"},
        "--protocol": {r.protocol for r in results} - {"paper"},
        "--eval-precision": {r.evaluated_in for r in results} - {"fp32"},
        "--corpus": {str(corpus["name"]) for r in results if (corpus := r.cell.get("corpus"))},
        "-o": {str(folder) for folder in folders} - {"results"},
    }
    words += [word for option, own in values.items() if len(own) == 1 for word in (option, *own)]
    return shlex.join(words)


def _encoders_in_order(
    results: Sequence[Result], tasks: Sequence[str], plugins: Plugins
) -> list[EncoderSpec]:
    """The encoders of results in the order of a run: by backbone, by level of the first task, along the ladder."""
    names = tasks or in_column_order({result.task for result in results}, plugins)
    level_of = {result.task: str(result.cell.get("level", "")) for result in results}
    levels = list(dict.fromkeys(level_of[name] for name in names if name in level_of))
    first_level: dict[EncoderSpec, int] = {}
    for result in results:
        spec, level = parse_spec(result.spec), levels.index(level_of[result.task])
        first_level[spec] = min(level, first_level.get(spec, level))
    backbones = list(dict.fromkeys(spec.backbone for spec in first_level))

    def order(spec: EncoderSpec) -> tuple[int, ...]:
        level = first_level[spec]
        return backbones.index(spec.backbone), level, *place_of_row(spec, levels[level], plugins)

    return sorted(first_level, key=order)


def _chosen_encoders(
    known: list[EncoderSpec], results: Sequence[Result], choice: Choice, plugins: Plugins
) -> list[EncoderSpec]:
    """The encoders of the choice, in its order."""
    if choice.rows:
        known = [spec for spec in choice.rows if spec in known]
        if not known:
            raise UsageError(
                f"no result belongs to a row of the table asked for; its rows are {', '.join(map(str, choice.rows))}",
                "With another backbone in its rows: mirrorbench paper TABLE --encoder BACKBONE",
            )
    if not choice.encoders:
        return known
    labels = row_labels(known, plugins, stated_names(results))
    chosen: dict[EncoderSpec, None] = {}
    for wanted in choice.encoders:
        # A spec such as minilm stands for all its rows, one of which may be called so.
        matching = [spec for spec in known if _matches(spec, wanted)]
        matching = matching or [spec for spec in known if wanted == labels[spec]]
        matching = matching or [spec for spec in known if wanted == row_label(spec, plugins)]
        if not matching:
            raise unknown_name(
                "encoder of these results", wanted, [*map(str, known), *labels.values()]
            )
        chosen.update(dict.fromkeys(matching))
    return list(chosen)


def _matches(spec: EncoderSpec, text: str) -> bool:
    try:
        wanted = parse_spec(text)
    except UsageError:  # a label
        return False
    same = spec.backbone == wanted.backbone and set(wanted.params) <= set(spec.params)
    return same and wanted.revision in ("", spec.revision) and wanted.method in ("", spec.method)


def _with_metric(result: Result, metric: str) -> Result:
    if not metric or metric == result.main_metric:
        return result
    if metric not in result.metrics:
        raise unknown_name(f"metric of {result.task}", metric, list(result.metrics))
    return replace(result, main_metric=metric, main_score=result.metrics[metric])
