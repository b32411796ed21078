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
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models.backbones import BACKBONES
from mirrorbench.reports.comparable import (
    Stored,
    mixtures,
    newest,
    read_stored,
    score_key,
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
from mirrorbench.runs.ladder import POOLING_KEYS, row_sort_key
from mirrorbench.storage.results import Result, folders_of_smoke_runs, read_result, result_files

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.statistics.items import ItemScores


def spec_of_label(text: str, folder: Path, plugins: Plugins) -> str:
    """Return the spec of the row with this label among the results in a folder.

    Return the text itself if it is a spec, or if no row has the label.
    """
    with suppress(UsageError):
        spec = parse_spec(text)
        is_path_or_hub_id = spec.is_path or "/" in spec.backbone
        if is_path_or_hub_id or spec.backbone in (*BACKBONES, *plugins.encoders.names()):
            return text
    for path in result_files(folder):
        # A damaged file is reported by the command that needs it.
        with suppress(DataFormatError):
            result = read_result(path)
            if text in (result.name, row_label(parse_spec(result.spec), plugins)):
                return result.spec
    return text


def results_of_two(
    first: str, second: str, folders: tuple[Path, Path], protocol: str, plugins: Plugins
) -> tuple[list[Stored], list[Stored]]:
    """Return the results of two encoders, each in its folder, under one protocol.

    An encoder is given as a spec, as the name that the user gave a row, or as the label of a row. A bare backbone, or
    ``BACKBONE+base``, stands for its untuned row: the only one, or the one with mean pooling. If a text can name
    several rows, prefer two rows that share a task.

    Args:
        first: the first encoder.
        second: the second encoder.
        folders: the folder of each encoder's results.
        protocol: name of the protocol; empty for the only one.
        plugins: the registered methods, which the labels of rows name.

    Raises:
        UsageError: an encoder has no results, or results of several protocols, or both encoders are the same.
    """
    first_rows = _candidate_rows(first, folders[0], protocol, plugins)
    second_rows = _candidate_rows(second, folders[1], protocol, plugins)
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
            raise UsageError(
                f"{results[0].result.spec} has results of the protocols {' and '.join(protocols)}",
                "Choose one with --protocol",
            )
    return chosen


def _share_a_task(first: Sequence[Stored], second: Sequence[Stored]) -> bool:
    tasks_of_first = {entry.result.task for entry in first}
    return any(entry.result.task in tasks_of_first for entry in second)


def _candidate_rows(text: str, folder: Path, protocol: str, plugins: Plugins) -> list[list[Stored]]:
    """Return a list of results for each row that ``text`` may name, the most likely row first.

    Raises:
        UnknownNameError: there is no such row.
    """
    rows: dict[EncoderSpec, list[Stored]] = {}
    for entry in read_stored([folder]):
        if protocol in ("", entry.result.protocol):
            rows.setdefault(parse_spec(entry.result.spec), []).append(entry)
    results = [entry.result for entries in rows.values() for entry in entries]
    shown_labels = row_labels(rows, plugins, stated_names(results))

    # First the label that a leaderboard shows, then the user's name of a row.
    candidates = [spec for spec in rows if text == shown_labels[spec]]
    for spec, entries in rows.items():
        if any(text == entry.result.name for entry in entries):
            candidates.append(spec)
    # Then the papers' label.
    rows_of_papers_label = [spec for spec in rows if text == row_label(spec, plugins)]
    candidates += rows_of_papers_label
    # Only a text that is no papers' label is read as a spec.
    if not rows_of_papers_label:
        try:
            spec = parse_spec(text)
        except UsageError:
            # A label or name that was found above need not be a spec.
            if not candidates:
                raise
        else:
            # A bare backbone without results under this spec stands for its untuned row.
            if spec not in rows:
                spec = _untuned_row(spec, sorted(rows, key=str))
            candidates.append(spec)
    # Without repeats, and without a spec that has no results.
    found = [rows[spec] for spec in dict.fromkeys(candidates) if spec in rows]
    if not found:
        labels = sorted(shown_labels.values())
        raise unknown_name(f"encoder among the results in {folder}:", text, labels)
    return found


def _untuned_row(spec: EncoderSpec, specs: Sequence[EncoderSpec]) -> EncoderSpec:
    """Return the untuned row of a bare backbone: the only one, or the one with mean pooling and the fewest settings.

    Any other spec, and a backbone without such a row, is returned unchanged.
    """
    if spec.params or spec.method not in ("", "base"):
        return spec
    rows = [row for row in specs if row == replace(spec, method="base", params=row.params)]
    rows = [row for row in rows if dict(row.params).keys() <= set(POOLING_KEYS)]
    if len(rows) > 1:
        rows = [row for row in rows if str(row.get("pooling")).startswith("mean")]
    return min(rows, key=lambda row: len(row.params), default=spec)


@dataclass(frozen=True)
class Layout:
    """The rows and columns of a published table, for ``mirrorbench leaderboard --table NAME``.

    A plugin registers a function ``(plugins) -> {NAME: Layout}`` by ``register_tables``. The leaderboard then has the
    results of the encoders in ``rows``, in this order, on the tasks in ``metrics``, in this order.

    Attributes:
        title: the caption.
        where: the place of the table in the paper, such as ``Table 2``.
        rows: encoders, in the order of the table; those without results are left out.
        metrics: metric by task, in the order of the columns; empty for a table without scores of tasks.

    Example:
        >>> from mirrorbench import Session, hookimpl
        >>> from mirrorbench.plugin import Layout, load_plugins, parse_spec
        >>> rows = (parse_spec("tiny+base:pooling=mean"), parse_spec("tiny+base:pooling=cls"))
        >>> layout = Layout("Poolings of an untuned model", "Table 2", rows, metrics={"quick-sts": "pearson"})
        >>> class PoolingPlugin:
        ...     @hookimpl
        ...     def register_tables(self, register):
        ...         register("poolings", lambda plugins: {"poolings/table-2": layout})
        >>> plugins = load_plugins(discover=False)
        >>> plugins.add(PoolingPlugin(), "poolings")
        >>> session = Session(plugins=plugins, device="cpu")
        >>> run = session.run(["tiny+base:pooling=cls", "tiny+base:pooling=mean"], ["quick-sts"])
        >>> [row.spec for row in session.leaderboard(table="poolings/table-2").table.rows]
        ['tiny+base:pooling=mean', 'tiny+base:pooling=cls']
    """

    title: str
    where: str
    rows: tuple[EncoderSpec, ...]
    metrics: Mapping[str, str]


def layouts(plugins: Plugins) -> dict[str, Layout]:
    """Return the published tables of all plugins, by name."""
    tables: dict[str, Layout] = {}
    for entry in plugins.tables:
        tables.update(entry.value(plugins))
    return tables


@dataclass(frozen=True)
class Choice:
    """The stored results of a leaderboard, and the statistics to compute from their per-item predictions.

    Attributes:
        tasks: names of tasks; empty for all.
        encoders: labels or specs of rows; a spec such as ``bert`` matches every row of BERT. Empty for all.
        rows: exact specs in the order of the table, those without results left out; empty for all.
        protocol: name of a protocol; empty for any.
        metrics: metric by task, instead of the main metric; the key ``""`` is for all other tasks.
        allow_mixed: also show results that are not comparable (``comparable.mixtures``), with notes that say so.
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

    def with_layout(self, name: str, plugins: Plugins) -> Choice:
        """Return a copy with the rows of a paper's table, and with its tasks and metrics unless some are chosen.

        Raises:
            UsageError: there is no such table, or it has no scores of tasks.
        """
        tables = layouts(plugins)
        if name not in tables:
            # Raises an error that says so if the plugin with the papers' tables is missing.
            plugins.tables.entry("papers")
            raise unknown_name("table", name, list(tables), "mirrorbench list tables")
        layout = tables[name]
        if not layout.metrics:
            raise UsageError(
                f"{name} has no scores of tasks", f"mirrorbench paper {name} shows what it has."
            )
        return replace(
            self,
            tasks=self.tasks or tuple(layout.metrics),
            rows=layout.rows,
            metrics=self.metrics or layout.metrics,
        )


_NO_CHOICE = Choice()


def stored_leaderboard(sources: Sequence[Path], choice: Choice, plugins: Plugins) -> Leaderboard:
    """Build the leaderboard of the results in folders, or read one finished table in JSON.

    Raises:
        UsageError: no results fit the choice, they are not comparable, or a finished table is named together with
            other sources or with a choice of rows, columns or statistics.
    """
    files = [path for path in sources if path.is_file()]
    if files:
        if len(sources) > 1:
            raise UsageError(
                f"{files[0]} is a finished table", "Name it alone, or name folders of results."
            )
        if choice != _NO_CHOICE:
            raise UsageError(
                f"{files[0]} is a finished table",
                "Selections and statistics need folders of results.",
            )
        return Leaderboard(read_table(files[0]), results=(), failures=(), plugins=plugins)
    stored, rows, notes = select(sources, plugins, choice)
    # Unless the items are read here, ``with_statistics`` reads those that it needs.
    items: dict[str, ItemScores] | None = None
    if choice.without_overlap:
        stored, items, overlap_notes = without_overlap(stored, read_items(stored, plugins), plugins)
        notes += overlap_notes
    results = tuple(entry.result for entry in stored)
    table = build_table(results, plugins, choice.tasks, rows)
    table = with_statistics(table, stored, plugins, choice.intervals, choice.ties, items)
    table = replace(table, warnings=(*table.warnings, *notes))
    return Leaderboard(table, results, failures=(), plugins=plugins)


def without_overlap(
    stored: Sequence[Stored], items: Mapping[str, ItemScores], plugins: Plugins
) -> tuple[list[Stored], dict[str, ItemScores], list[str]]:
    """Score results again on the items without a text of any encoder's tuning corpus.

    Returns:
        The results with new main scores; their items by ``cell_id``; notes on the number of items, and on results that
        are left out since they cannot be scored again.
    """
    from mirrorbench.reports.statistics.items import score_on

    # First collect the items that any encoder has seen, by task, and the scores that cannot be computed without them.
    seen_ids: dict[str, set[str]] = {}
    # Equal notes are kept once.
    notes: dict[str, None] = {}
    # A mean over some of the seeds would pass for one over all: such scores are left out with all their seeds.
    lost_scores = set()
    for entry in stored:
        result = entry.result
        result_items = items.get(result.cell_id)
        seen_on_task = seen_ids.setdefault(result.task, set())
        if result_items is not None:
            seen_on_task.update(result_items.seen)
        reason = _why_not_rescored(result, result_items)
        if reason:
            note = f"missing: {result.spec} on {result.task}, seed {result.seed}: {reason} (run it again)."
            notes[note] = None
            lost_scores.add(score_key(result))

    # Then score all other results on the items that no encoder has seen.
    rescored: list[Stored] = []
    unseen_items: dict[str, ItemScores] = {}
    counts: dict[str, str] = {}
    for entry in stored:
        result = entry.result
        if score_key(result) in lost_scores:
            continue
        all_items = items[result.cell_id]
        unseen = all_items.without(seen_ids[result.task])
        unseen_items[result.cell_id] = unseen
        score = score_on(unseen, plugins)
        main_score = None if isnan(score) else score
        rescored_result = replace(
            result,
            main_score=main_score,
            metrics={result.main_metric: main_score},
            n_items=len(unseen.ids),
            overlap=None,
        )
        rescored.append(Stored(rescored_result, entry.path))
        counts[result.task] = f"{result.task} {len(unseen.ids):,} of {len(all_items.ids):,}"
    on_tasks = ", ".join(counts.values())
    note = f"Scored on items without a text of the tuning corpora: {on_tasks}"
    return rescored, unseen_items, [*notes, note]


def _why_not_rescored(result: Result, items: ItemScores | None) -> str:
    """Return the reason why a result cannot be scored on the unseen items; empty if it can."""
    if items is None:
        return "its items are not stored"
    if result.cell.get("corpus") and items.overlap is None:
        return "its overlap is unknown"
    return ""


def folder_leaderboard(folder: Path, plugins: Plugins) -> Leaderboard:
    """Build the leaderboard of all results of a folder, comparable or not.

    It has no verdicts, which can take longer than a run; a note names the command that computes them.
    """
    stored, rows, notes = select([folder], plugins, Choice(allow_mixed=True))
    results = tuple(entry.result for entry in stored)
    table = build_table(results, plugins, (), rows)
    hint = f"Verdicts on these rows: mirrorbench leaderboard {folder}"
    table = replace(table, warnings=(*table.warnings, *notes), notes=(*table.notes, hint))
    return Leaderboard(table, results, (), plugins)


def with_statistics(
    table: Table,
    stored: Sequence[Stored],
    plugins: Plugins,
    intervals: bool = False,
    ties: bool = False,
    items: Mapping[str, ItemScores] | None = None,
) -> Table:
    """Add verdicts, and intervals and ties if requested, to a table of stored results.

    Args:
        table: the table.
        stored: the results behind its scores.
        plugins: plugins with the metrics.
        intervals: add confidence intervals over items.
        ties: mark scores that are not separable from the best.
        items: the items of the results by cell id; ``None`` to read them.
    """
    from mirrorbench.reports.statistics.steps import find_steps
    from mirrorbench.reports.statistics.verdicts import TableTests, seeds_of_rows, with_verdicts

    steps = find_steps(table, [entry.result for entry in stored])
    if items is None:
        items = read_items(stored, plugins)
    tests = TableTests(table, seeds_of_rows(table, items), plugins)
    verdicts = tests.verdicts(steps)
    marked = with_verdicts(tests.with_marks(intervals, ties), verdicts)
    columns = [tests.with_item_counts(column) for column in marked.columns]
    notes_on_matching = tests.notes_on_matching(verdicts, marked=intervals or ties)
    return replace(marked, columns=tuple(columns), notes=(*marked.notes, *notes_on_matching))


def read_items(stored: Sequence[Stored], plugins: Plugins) -> dict[str, ItemScores]:
    """Return the items of results by cell id; results without readable predictions are left out."""
    from mirrorbench.reports.statistics.items import items_of

    items = {}
    # The path of a result is FOLDER/ENCODER/TASK/FILE.
    several_folders = len({entry.path.parents[2] for entry in stored}) > 1
    for entry in stored:
        task = entry.result.task
        is_private = task in plugins.tasks and plugins.tasks[task].private
        with suppress(DataFormatError):
            comparable_entry = entry
            if several_folders and is_private:
                # The numbers of the contents of private data depend on a secret of their folder, so those of two
                # folders do not match. Without them, items are matched by file and row.
                arrays = dict(entry.predictions())
                arrays.pop("content", None)
                comparable_entry = entry._replace(in_memory=arrays)
            result_items = items_of(comparable_entry, plugins)
            if result_items is not None:
                items[entry.result.cell_id] = result_items
    return items


def select(
    folders: Sequence[Path], plugins: Plugins, choice: Choice = _NO_CHOICE
) -> tuple[list[Stored], list[EncoderSpec], list[str]]:
    """Return the chosen results (each cell once), their encoders in the order of the table, and warnings.

    Of several computations, only the results of the newest are returned.

    Raises:
        UsageError: nothing is left, an encoder or metric is not among the results, or they are not comparable.
    """
    stored = read_stored(folders)
    where = ", ".join(map(str, folders))
    if not stored:
        hint = "Make some: mirrorbench run"
        smoke_runs = [str(run) for folder in folders for run in folders_of_smoke_runs(folder)]
        if smoke_runs:
            hint = f"Those of smoke runs (--limit) are in {', '.join(smoke_runs)}: name it."
        raise UsageError(f"no results in {where}", hint)

    # Choose the tasks, the protocol and the newest computation.
    all_results = [entry.result for entry in stored]
    results = []
    for result in all_results:
        on_task = not choice.tasks or result.task in choice.tasks
        if on_task and choice.protocol in ("", result.protocol):
            results.append(result)
    if not results:
        tasks = ", ".join(sorted({result.task for result in all_results}))
        raise UsageError(
            f"no results in {where} for the tasks or protocol asked for",
            f"There are results on: {tasks}",
        )
    outdated = [result for result in results if not result.is_current]
    results, notes = newest(results, _command_to_run_again(outdated, folders))

    # Choose the encoders, and take the chosen metric of each task as its main one.
    all_encoders = _encoders_in_order(results, choice.tasks, plugins)
    encoders = _chosen_encoders(all_encoders, results, choice, plugins)
    specs = {str(spec) for spec in encoders}
    # The metric of tasks without one of their own; empty for the main metric of each result.
    default_metric = choice.metrics.get("", "")
    chosen = []
    for result in results:
        if str(parse_spec(result.spec)) in specs:
            metric = choice.metrics.get(result.task, default_metric)
            chosen.append(_with_metric(result, metric))

    # What cannot be compared is an error, or a warning if the user allows it.
    mixed = mixtures(chosen, plugins)
    if mixed and not choice.allow_mixed:
        reasons = "".join(f"\n  {reason}" for reason in mixed)
        raise UsageError(
            f"these results cannot be compared in one table:{reasons}",
            "Name fewer folders, select with --tasks, --encoder or --protocol, run again what differs,\n"
            "or mix them all the same with --allow-mixed: the table then says so.",
        )
    notes += [
        f"Mixed, not comparable: {reason}. The newest of each seed counts." for reason in mixed
    ]
    # If a cell is in several folders, the first file counts.
    paths: dict[str, Path] = {}
    for entry in stored:
        paths.setdefault(entry.result.cell_id, entry.path)
    selected = [Stored(result, paths[result.cell_id]) for result in without_repeats(chosen)]
    return selected, encoders, notes


def _command_to_run_again(results: Sequence[Result], folders: Sequence[Path]) -> str:
    """Return the command that computes results anew: their encoders, tasks and seeds, and the options they share.

    An option is given if the results have exactly one value other than its default.
    """
    words = ["mirrorbench", "run"]
    for spec in dict.fromkeys(result.spec for result in results):
        words += ["-e", spec]
    words += ["-t", ",".join(dict.fromkeys(result.task for result in results))]
    n_seeds = 1 + max((result.seed for result in results), default=0)
    if n_seeds > 1:
        words += ["--seeds", str(n_seeds)]

    corpora: set[str] = set()
    for result in results:
        corpus = result.cell.get("corpus")
        if corpus:
            corpora.add(str(corpus["name"]))
    protocols = {result.protocol for result in results}
    precisions = {result.evaluated_in for result in results}
    result_folders = {str(folder) for folder in folders}
    values_of_options = {
        "--protocol": protocols - {"paper"},
        "--eval-precision": precisions - {"fp32"},
        "--corpus": corpora,
        "-o": result_folders - {"results"},
    }
    for option, values in values_of_options.items():
        if len(values) == 1:
            words += [option, *values]
    return shlex.join(words)


def _encoders_in_order(
    results: Sequence[Result], tasks: Sequence[str], plugins: Plugins
) -> list[EncoderSpec]:
    """Return encoders in the order of a run: by backbone, level of the first task, place on the ladder.

    Levels are in the order of ``tasks``, or of all tasks as columns.
    """
    names = tasks or in_column_order({result.task for result in results}, plugins)
    level_of = {result.task: str(result.cell.get("level", "")) for result in results}
    levels = list(dict.fromkeys(level_of[name] for name in names if name in level_of))
    first_level: dict[EncoderSpec, int] = {}
    for result in results:
        spec = parse_spec(result.spec)
        level = levels.index(level_of[result.task])
        first_level[spec] = min(level, first_level.get(spec, level))
    backbones = list(dict.fromkeys(spec.backbone for spec in first_level))

    def order(spec: EncoderSpec) -> tuple[int, ...]:
        level = first_level[spec]
        return backbones.index(spec.backbone), level, *row_sort_key(spec, levels[level], plugins)

    return sorted(first_level, key=order)


def _chosen_encoders(
    encoders: list[EncoderSpec], results: Sequence[Result], choice: Choice, plugins: Plugins
) -> list[EncoderSpec]:
    """Return the encoders that are chosen, in the order of the choice; ``results`` are those of all ``encoders``."""
    if choice.rows:
        encoders = [spec for spec in choice.rows if spec in encoders]
        if not encoders:
            raise UsageError(
                f"no result belongs to a row of the table asked for; its rows are {', '.join(map(str, choice.rows))}",
                "With another backbone in its rows: mirrorbench paper TABLE --encoder BACKBONE",
            )
    if not choice.encoders:
        return encoders
    labels = row_labels(encoders, plugins, stated_names(results))
    chosen: dict[EncoderSpec, None] = {}
    for text in choice.encoders:
        # A spec such as minilm stands for all its rows, even if the label of one of them is minilm.
        matching = [spec for spec in encoders if _is_row_of_spec(spec, text)]
        if not matching:
            matching = [spec for spec in encoders if text == labels[spec]]
        if not matching:
            matching = [spec for spec in encoders if text == row_label(spec, plugins)]
        if not matching:
            names = [*map(str, encoders), *labels.values()]
            raise unknown_name("encoder of these results", text, names)
        chosen.update(dict.fromkeys(matching))
    return list(chosen)


def _is_row_of_spec(spec: EncoderSpec, text: str) -> bool:
    """Test whether a text is a spec whose backbone, settings, revision and method a row has; ``False`` for a label."""
    try:
        pattern = parse_spec(text)
    except UsageError:
        # The text is a label.
        return False
    return (
        spec.backbone == pattern.backbone
        and set(pattern.params) <= set(spec.params)
        and pattern.revision in ("", spec.revision)
        and pattern.method in ("", spec.method)
    )


def _with_metric(result: Result, metric: str) -> Result:
    """Return a result with another metric as its main one; unchanged for the empty name."""
    if not metric or metric == result.main_metric:
        return result
    if metric not in result.metrics:
        raise unknown_name(f"metric of {result.task}", metric, list(result.metrics))
    return replace(result, main_metric=metric, main_score=result.metrics[metric])
