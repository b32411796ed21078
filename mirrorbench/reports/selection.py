"""Selects stored results for a table, refuses those that are not comparable, and builds the leaderboard."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import DataFormatError, UsageError, unknown_name
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.data.corpora import NONE
from mirrorbench.models.backbones import BACKBONES
from mirrorbench.reports.comparable import (
    Stored,
    mixtures,
    name_of,
    newest,
    read_stored,
    without_repeats,
)
from mirrorbench.reports.headlines import headlines
from mirrorbench.reports.leaderboard import Leaderboard, build_table, in_column_order, row_label
from mirrorbench.reports.table import Table, read_table
from mirrorbench.runs.ladder import POOLING_KEYS, place_of_row
from mirrorbench.runs.results import Result, read_result, result_files

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.statistics.items import ItemScores


def labelled(text: str, folder: Path, plugins: Plugins) -> str:
    """The spec of the row with this label among the results in a folder; the text itself if it names an encoder."""
    with suppress(UsageError):
        named = parse_spec(text)
        if named.is_path or "/" in named.backbone or named.backbone in (*BACKBONES, *plugins.encoders.names()):
            return text
    for path in result_files(folder):
        with suppress(DataFormatError):  # whoever needs that file reports it
            if row_label(parse_spec(spec := read_result(path).spec), plugins) == text:
                return spec
    return text


def results_of(spec: str, folder: Path, protocol: str, plugins: Plugins) -> list[Stored]:
    """The results of one encoder in a folder under one protocol (empty: the only one).

    ``spec`` may be the label of a row. Of a bare backbone, or ``BACKBONE+base``, those of its untuned row, read by the
    model's own files or else by mean pooling.
    """
    known = [entry for entry in read_stored([folder]) if protocol in ("", entry.result.protocol)]
    specs = sorted({entry.result.spec for entry in known})
    label = next((text for text in specs if row_label(parse_spec(text), plugins) == spec), "")
    name = str(wanted := parse_spec(label or spec))
    own = [entry for entry in known if entry.result.spec == name]
    if not own and not wanted.params and wanted.method in ("", "base"):
        of_base = [row for row in map(parse_spec, specs) if row == replace(wanted, method="base", params=row.params)]
        untuned = [row for row in of_base if dict(row.params).keys() <= set(POOLING_KEYS)]
        means = [row for row in untuned if str(row.get("pooling")).startswith("mean")]
        chosen = min(untuned if len(untuned) == 1 else means, key=lambda row: len(row.params), default=None)
        own = [entry for entry in known if entry.result.spec == str(chosen)]
    if not own:
        raise unknown_name(f"encoder among the results in {folder}:", name, specs)
    protocols = sorted({entry.result.protocol for entry in own})
    if len(protocols) > 1:
        raise UsageError(f"{name} has results of the protocols {' and '.join(protocols)}", "Choose one with --protocol")
    return own


@dataclass(frozen=True)
class Layout:
    """A published table as a leaderboard has it.

    Attributes:
        title: of the table.
        where: in the paper.
        rows: specs of the encoders.
        metrics: the metric of each task; empty for a table without scores of tasks.
    """

    title: str
    where: str
    rows: tuple[EncoderSpec, ...]
    metrics: Mapping[str, str]


def layouts(plugins: Plugins) -> dict[str, Layout]:
    """The published tables that plugins know, by name."""
    return {name: layout for entry in plugins.tables for name, layout in entry.value(plugins).items()}


@dataclass(frozen=True)
class Choice:
    """Which stored results a leaderboard shows, and what is computed from their per-item predictions.

    Attributes:
        tasks: names; empty for all.
        encoders: labels, or specs, where ``bert`` matches every row of BERT; empty for all.
        rows: exact specs in order, those without results left out; empty for all.
        protocol: empty for any.
        metrics: metric by task, instead of the main metric; the key ``""`` is for all other tasks.
        allow_mixed: show results that are not comparable (``leaderboard.mixtures``), with notes that say so.
        intervals: add confidence intervals over items.
        ties: mark scores that are not separable from the best.
        without_overlap: leave out the items whose texts were tuned on.
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
        """A copy with the tasks, encoders and metrics of a paper's table, except those already chosen."""
        known = layouts(plugins)
        if name not in known:
            plugins.tables.entry("papers")
            raise unknown_name("table", name, list(known), "mirrorbench list tables")
        layout = known[name]
        if not layout.metrics:
            raise UsageError(f"{name} has no scores of tasks", f"mirrorbench paper {name} shows what it has.")
        return replace(
            self, tasks=self.tasks or tuple(layout.metrics), rows=layout.rows, metrics=self.metrics or layout.metrics
        )


EVERYTHING = Choice()


def stored_leaderboard(sources: Sequence[Path], choice: Choice, plugins: Plugins) -> Leaderboard:
    """The leaderboard of the results in folders, or of one table that the format ``json`` wrote."""
    if files := [path for path in sources if path.is_file()]:
        if len(sources) > 1:
            raise UsageError(f"{files[0]} is a finished table", "Name it alone, or name folders of results.")
        if choice != EVERYTHING:
            raise UsageError(f"{files[0]} is a finished table", "Selections and statistics need folders of results.")
        return Leaderboard(read_table(files[0]), (), (), plugins)
    stored, rows, notes = select(sources, plugins, choice)
    items: dict[str, ItemScores] | None = None
    if choice.without_overlap:
        paths = {entry.result.cell_id: entry.path for entry in stored}
        results, items, lines = without_overlap([e.result for e in stored], _read_items(stored, plugins), plugins)
        stored = [Stored(result, paths[result.cell_id]) for result in results]
        notes += lines
    results = [entry.result for entry in stored]
    table = build_table(results, plugins, choice.tasks, rows)
    table = judged(table, stored, plugins, choice.intervals, choice.ties, items)
    return Leaderboard(replace(table, warnings=(*table.warnings, *notes)), tuple(results), (), plugins)


def without_overlap(
    results: Sequence[Result], items: Mapping[str, ItemScores], plugins: Plugins
) -> tuple[list[Result], dict[str, ItemScores], list[str]]:
    """Results scored again on the items with no text that any of the encoders was tuned on.

    Returns the results with new main scores, their items by ``cell_id``, and notes on the items that count and on
    results that are left out since they cannot be scored again.
    """
    from mirrorbench.reports.statistics.items import score_on

    seen: dict[str, set[str]] = {}
    lines: dict[str, None] = {}
    lost = set()  # scores of which a seed cannot be scored again: a mean over the others would pass for one over all
    for result in results:
        item_scores = items.get(result.cell_id)
        if item_scores is None or (result.cell.get("corpus") and item_scores.overlap is None):
            reason = "its items are not stored" if item_scores is None else "its overlap is unknown"
            lines[f"missing: {result.spec} on {result.task}, seed {result.seed}: {reason} (run it again)."] = None
            lost.add(name_of(result)[:-1])
        if item_scores is not None:
            rows = () if item_scores.overlap is None else (item_scores.overlap > NONE).nonzero()[0]
            seen.setdefault(result.task, set()).update(item_scores.ids[row] for row in rows)
    kept: list[Result] = []
    behind: dict[str, ItemScores] = {}
    counts: dict[str, tuple[int, int]] = {}
    for result in (result for result in results if name_of(result)[:-1] not in lost):
        item_scores = items[result.cell_id]
        left = item_scores.only([row for row, item in enumerate(item_scores.ids) if item not in seen[result.task]])
        score = score_on(left, plugins)
        value = None if isnan(score) else score
        metrics = {result.main_metric: value}
        kept.append(replace(result, main_score=value, metrics=metrics, n_items=len(left.ids), overlap=None))
        behind[result.cell_id] = left
        counts[result.task] = len(left.ids), len(item_scores.ids)
    left_out = ", ".join(f"{task} {n:,} of {of:,}" for task, (n, of) in counts.items())
    return kept, behind, [*lines, f"Scored on items without a text that was tuned on: {left_out}"]


def everything(folder: Path, plugins: Plugins) -> Leaderboard:
    """All results of a folder; without verdicts, which take longer than many a run that finds all it needs."""
    stored, rows, notes = select([folder], plugins, Choice(allow_mixed=True))
    results = tuple(entry.result for entry in stored)
    table = build_table(results, plugins, (), rows)
    more = f"Verdicts on these rows: mirrorbench leaderboard {folder}"
    table = replace(table, warnings=(*table.warnings, *notes), notes=(*table.notes, more))
    return Leaderboard(table, results, (), plugins)


def judged(
    table: Table, stored: Sequence[Stored], plugins: Plugins, intervals: bool = False, ties: bool = False,
    items: Mapping[str, ItemScores] | None = None,
) -> Table:  # fmt: skip
    """A table of stored results with verdicts, intervals and ties; ``items`` by cell, where they are read already."""
    from mirrorbench.reports.statistics.verdicts import Marker, find_steps, with_verdicts

    steps = find_steps(table, [entry.result for entry in stored])
    if items is None:
        items = _read_items(stored if steps or intervals or ties else (), plugins)
    marker = Marker(table, items, plugins)
    marked = with_verdicts(marker.with_marks(intervals, ties), marker.verdicts(steps))
    chosen = headlines(marked)
    if first := chosen.gain or chosen.over_best:
        with_unseen = replace(first, unseen=marker.unseen(first))
        marked = replace(marked, verdicts=tuple(with_unseen if v is first else v for v in marked.verdicts))
    return replace(marked, columns=tuple(map(marker.counted, marked.columns)))


def _read_items(stored: Sequence[Stored], plugins: Plugins) -> dict[str, ItemScores]:
    """The items of results by cell, of those whose predictions can be read: a table does not need them."""
    from mirrorbench.reports.statistics.items import items_of

    items = {}
    for entry in stored:
        with suppress(DataFormatError):
            if item_scores := items_of(entry, plugins):
                items[entry.result.cell_id] = item_scores
    return items


def select(
    folders: Sequence[Path], plugins: Plugins, choice: Choice = EVERYTHING
) -> tuple[list[Stored], list[EncoderSpec], list[str]]:
    """The chosen results (each cell once), their encoders in the order of the table, and warnings of mixed results.

    Raises:
        UsageError: nothing is left, an encoder or metric is not among the results, or they are not comparable.
    """
    stored, where = read_stored(folders), ", ".join(map(str, folders))
    if not stored:
        raise UsageError(f"no results in {where}", "Make some: mirrorbench run")
    read = [entry.result for entry in stored]
    kept = [r for r in read if (not choice.tasks or r.task in choice.tasks) and choice.protocol in ("", r.protocol)]
    if not kept:
        held = ", ".join(sorted({r.task for r in read}))
        raise UsageError(f"no results in {where} for the tasks or protocol asked for", f"There are results on: {held}")
    kept, notes = newest(kept, _run_again([r for r in kept if r.computation != COMPUTATION], folders))
    rows = _chosen_encoders(_encoders_in_order(kept, choice.tasks, plugins), choice, plugins)
    shown, specs = {"": "", **choice.metrics}, {str(spec) for spec in rows}
    kept = [_with_metric(r, shown.get(r.task, shown[""])) for r in kept if str(parse_spec(r.spec)) in specs]
    mixed = mixtures(kept, plugins)
    if mixed and not choice.allow_mixed:
        reasons = "".join(f"\n  {reason}" for reason in mixed)
        raise UsageError(
            f"these results cannot be compared in one table:{reasons}",
            "Name fewer folders, select with --tasks, --encoder or --protocol, run again what differs,\n"
            "or mix them all the same with --allow-mixed: the table then says so.",
        )
    paths = {entry.result.cell_id: entry.path for entry in reversed(stored)}
    notes += [f"Mixed, not comparable: {reason}. The newest of each seed counts." for reason in mixed]
    return [Stored(result, paths[result.cell_id]) for result in without_repeats(kept)], rows, notes


def _run_again(results: Sequence[Result], folders: Sequence[Path]) -> str:
    """The command that computes results anew: encoders, tasks and seeds, and what else they all have in common."""
    words = ["mirrorbench", "run", *(w for spec in dict.fromkeys(r.spec for r in results) for w in ("-e", spec))]
    words += ["-t", ",".join(dict.fromkeys(result.task for result in results))]
    alike = {
        "--seeds": {str(1 + max((r.seed for r in results), default=0))} - {"1"},
        "--protocol": {r.protocol for r in results} - {"paper"},
        "--eval-precision": {r.evaluated_in for r in results} - {"fp32"},
        "--corpus": {str(corpus["name"]) for r in results if (corpus := r.cell.get("corpus"))},
        "-o": {str(folder) for folder in folders} - {"results"},
    }
    words += [word for option, values in alike.items() if len(values) == 1 for word in (option, *values)]
    return shlex.join(words)


def _encoders_in_order(results: Sequence[Result], tasks: Sequence[str], plugins: Plugins) -> list[EncoderSpec]:
    """The encoders of results in the order of a run: by backbone, by level of the first task, along the ladder."""
    names = tasks or in_column_order({result.task for result in results}, plugins)
    level_of = {result.task: str(result.cell.get("level", "")) for result in results}
    levels = list(dict.fromkeys(level_of[name] for name in names if name in level_of))
    first: dict[EncoderSpec, int] = {}
    for result in results:
        spec, level = parse_spec(result.spec), levels.index(level_of[result.task])
        first[spec] = min(level, first.get(spec, level))
    backbones = list(dict.fromkeys(spec.backbone for spec in first))

    def place(spec: EncoderSpec) -> tuple[int, ...]:
        level = first[spec]
        return backbones.index(spec.backbone), level, *place_of_row(spec, levels[level], plugins)

    return sorted(first, key=place)


def _chosen_encoders(known: list[EncoderSpec], choice: Choice, plugins: Plugins) -> list[EncoderSpec]:
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
    chosen: dict[EncoderSpec, None] = {}
    for wanted in choice.encoders:
        labelled = [spec for spec in known if row_label(spec, plugins) == wanted]
        matching = labelled or [spec for spec in known if _matches(spec, parse_spec(wanted))]
        if not matching:
            labels = [row_label(spec, plugins) for spec in known]
            raise unknown_name("encoder of these results", wanted, [*map(str, known), *labels])
        chosen.update(dict.fromkeys(matching))
    return list(chosen)


def _matches(spec: EncoderSpec, wanted: EncoderSpec) -> bool:
    return (
        spec.backbone == wanted.backbone
        and wanted.revision in ("", spec.revision)
        and wanted.method in ("", spec.method)
        and set(wanted.params) <= set(spec.params)
    )


def _with_metric(result: Result, metric: str) -> Result:
    if not metric or metric == result.main_metric:
        return result
    if metric not in result.metrics:
        raise unknown_name(f"metric of {result.task}", metric, list(result.metrics))
    return replace(result, main_metric=metric, main_score=result.metrics[metric])
