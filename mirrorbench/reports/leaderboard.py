"""The leaderboard: its table built from results, notes on their origin, and an object for scripts and notebooks.

A row has no average where one of its scores is missing, or where they are not of one model and experiment.
"""

from __future__ import annotations

import html
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import UsageError, as_arguments, not_installed, unknown_name
from mirrorbench.core.plugins import call
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.models.backbones import BACKBONES
from mirrorbench.models.backbones import label as backbone_label
from mirrorbench.models.transformations import post_keys, split_post
from mirrorbench.reports.comparable import mixtures, score_key, version_of
from mirrorbench.reports.renderers.numbers import metric_words
from mirrorbench.reports.renderers.verdicts import sentences as verdict_sentences
from mirrorbench.reports.table import AVERAGE, Column, Row, Score, Table, TaskSource
from mirrorbench.reports.table_warnings import table_warnings
from mirrorbench.runs.outcomes import Failure
from mirrorbench.storage.results import Result

if TYPE_CHECKING:
    import pandas as pd

    from mirrorbench.core.plugins import Plugins


_NO_NAMES: Mapping[EncoderSpec, str] = {}
_POOLING_SUFFIXES = {"": "", "cls": "-CLS", "mean": "-mp"}
"""Suffixes of the papers' labels; that of any other pooling is its name."""


def build_table(
    results: Iterable[Result],
    plugins: Plugins,
    tasks: Sequence[str] = (),
    rows: Sequence[EncoderSpec] = (),
    failures: Sequence[Failure] = (),
    title: str = "",
    names: Mapping[EncoderSpec, str] = _NO_NAMES,
) -> Table:
    """Build a table of main scores, with a row for each encoder and protocol and for each baseline of the tasks.

    Args:
        results: results of one computation.
        plugins: the registered tasks, methods and so on.
        tasks: the columns; by default all tasks in the results.
        rows: the encoders; by default all in the results.
        failures: the cells that failed; they become notes.
        title: title of the table.
        names: the user's names of rows; by default those that all results of a row state.
    """
    results = list(results)  # it is read several times
    task_names = list(tasks) or in_column_order({result.task for result in results}, plugins)
    columns = _with_averages([_column(name, plugins, results) for name in task_names])
    specs = [
        *rows,
        *(parse_spec(result.spec) for result in results),
        *(failure.spec for failure in failures),
    ]
    labels = row_labels(specs, plugins, {**stated_names(results), **names})
    table_rows = [
        *_encoder_rows(results, rows, columns, labels, plugins),
        *_baseline_rows(columns, results, plugins),
    ]
    notes = [
        *provenance(results, {result.main_metric for result in results}),
        *_notes_on_failures(failures, labels),
    ]
    # Averages that no row has are removed only after this note on them.
    labels_without_average = _labels_without_average(columns, table_rows)
    if labels_without_average:
        notes.append(
            "No average: scores of several models or experiments, or of different seeds "
            f"({', '.join(labels_without_average)})."
        )
    columns, table_rows = _without_empty_averages(columns, table_rows)
    return Table(
        title,
        tuple(columns),
        tuple(table_rows),
        tuple(notes),
        warnings=tuple(table_warnings(results, failures, columns, labels)),
        banner=_banner(results),
    )


def _labels_without_average(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Return the labels of encoders that have all scores of several tasks, but no average over them."""
    task_indices = [index for index, column in enumerate(columns) if not column.average_of]
    if len(task_indices) < 2:
        return []
    labels = []
    for row in rows:
        has_all_scores = all(row.scores[index] for index in task_indices)
        # The last column is the average over all tasks.
        if row.spec and has_all_scores and not row.scores[-1]:
            labels.append(row.label)
    return labels


def _without_empty_averages(
    columns: Sequence[Column], rows: Sequence[Row]
) -> tuple[list[Column], list[Row]]:
    """Remove the columns of averages that no row has."""
    indices = []
    for index, column in enumerate(columns):
        if not column.average_of or any(row.scores[index] for row in rows):
            indices.append(index)
    rows = [replace(row, scores=tuple(row.scores[index] for index in indices)) for row in rows]
    return [columns[index] for index in indices], list(rows)


def stated_names(results: Iterable[Result]) -> dict[EncoderSpec, str]:
    """Return the user's name of each row whose results all state the same name."""
    names_by_spec: dict[str, set[str]] = {}
    for result in results:
        names_by_spec.setdefault(result.spec, set()).add(result.name)
    return {
        parse_spec(spec): names.pop() for spec, names in names_by_spec.items() if len(names) == 1
    }


def _notes_on_failures(failures: Iterable[Failure], labels: Mapping[EncoderSpec, str]) -> list[str]:
    """Return one note for all rows and seeds that failed on a task for the same reason."""
    labels_by_failure: dict[tuple[str, str], dict[str, None]] = {}
    for failure in failures:
        first_line = failure.reason.splitlines()[0]
        row_labels = labels_by_failure.setdefault((failure.task, first_line), {})
        row_labels[labels[failure.spec]] = None
    return [
        f"missing: {', '.join(row_labels)} on {task}: {reason}"
        for (task, reason), row_labels in labels_by_failure.items()
    ]


def _banner(results: Sequence[Result]) -> str:
    """Return the banner of a smoke run; empty for whole tasks."""
    limits = sorted({result.limit for result in results if result.limit})
    if not limits:
        return ""
    items = " or ".join(map(str, limits))
    return f"SMOKE RUN on only the first {items} items of each task: no valid task scores"


def _encoder_rows(
    results: Sequence[Result],
    specs: Sequence[EncoderSpec],
    columns: Sequence[Column],
    labels: Mapping[EncoderSpec, str],
    plugins: Plugins,
) -> list[Row]:
    """Return a row for each encoder and each protocol that it has results for.

    An encoder without any results has an empty row for each protocol in the table.

    Args:
        results: results of one computation; of several on one task and seed the last counts.
        specs: the encoders, in the order of the rows; empty for all in the results.
        columns: the columns of the table.
        labels: the label of each encoder.
        plugins: the registered tasks.
    """
    # Results by spec and protocol, then by task and seed.
    results_by_row: dict[tuple[str, str], dict[str, dict[int, Result]]] = {}
    for result in results:
        results_by_task = results_by_row.setdefault((result.spec, result.protocol), {})
        results_by_task.setdefault(result.task, {})[result.seed] = result
    specs_with_results = dict.fromkeys(spec for spec, _ in results_by_row)
    # Without results there is one row for each encoder, under no protocol.
    protocols = list(dict.fromkeys(protocol for _, protocol in results_by_row)) or [""]
    table_rows = []
    for spec in specs or map(parse_spec, specs_with_results):
        for protocol in protocols:
            results_by_task = results_by_row.get((str(spec), protocol), {})
            # An encoder that was measured only under other protocols has no row under this one.
            if not results_by_task and str(spec) in specs_with_results:
                continue
            label = labels[spec]
            if len(protocols) > 1:
                label += f" [{protocol}]"
            table_rows.append(
                _encoder_row(label, spec, protocol, results_by_task, columns, plugins)
            )
    return table_rows


def _encoder_row(
    label: str,
    spec: EncoderSpec,
    protocol: str,
    results_by_task: Mapping[str, Mapping[int, Result]],
    columns: Sequence[Column],
    plugins: Plugins,
) -> Row:
    """Return the row of an encoder; ``results_by_task`` holds the results of each task by seed."""
    task_names = [column.name for column in columns if not column.average_of]
    seeds_by_task = {task: results_by_task.get(task, {}) for task in task_names}
    results = [result for seeds in seeds_by_task.values() for result in seeds.values()]
    # Scores of several models or experiments have no average.
    can_be_averaged = not mixtures(results, plugins)
    scores: list[Score | None] = []
    for column in columns:
        if column.average_of and not can_be_averaged:
            scores.append(None)
        else:
            # A task's column has one task, an average's column has several.
            scores.append(mean_over_seeds([seeds_by_task[task] for task in column.tasks]))
    return Row(
        label,
        str(spec),
        tuple(scores),
        spec.backbone,
        spec.method,
        protocol,
        parameters=_first_stated(results, "parameters"),
        dimensions=_first_stated(results, "dimensions"),
        tuned=any(result.cell.get("recipe") for result in results),
    )


def _first_stated(results: Iterable[Result], key: str) -> Any:
    """Return the first value of a key that results state of their encoder; ``None`` if none states it."""
    for result in results:
        if result.encoder.get(key):
            return result.encoder[key]
    return None


def mean_over_seeds(cells: Sequence[Mapping[int, Result]], metric: str = "") -> Score | None:
    """Average scores over tasks within each seed, and then over seeds.

    Args:
        cells: the results of each task, by seed.
        metric: by default the main metric of each task.

    Returns:
        The mean, its sample standard deviation and the value of each seed; ``None`` if a task lacks a seed that
        another one has, or a score is undefined.
    """
    means: dict[int, float] = {}
    for seed in sorted(set().union(*cells)):
        scores = []
        for cell in cells:
            if seed not in cell:
                return None
            result = cell[seed]
            score = result.metrics.get(metric) if metric else result.main_score
            if score is None:
                return None
            scores.append(score)
        means[seed] = statistics.fmean(scores)
    if not means:
        return None
    sd = statistics.stdev(means.values()) if len(means) > 1 else None
    cell_ids = tuple(cell[seed].cell_id for cell in cells for seed in sorted(cell))
    return Score(statistics.fmean(means.values()), sd, len(means), cell_ids, tuple(means.items()))


def row_labels(
    specs: Iterable[EncoderSpec], plugins: Plugins, names: Mapping[EncoderSpec, str]
) -> dict[EncoderSpec, str]:
    """Return the label of each row: the user's name, or else the papers' label.

    Rows that would have the same label are labelled by their specs.
    """
    labels = {spec: names.get(spec) or row_label(spec, plugins) for spec in specs}
    counts = Counter(labels.values())
    return {spec: label if counts[label] == 1 else str(spec) for spec, label in labels.items()}


def row_label(spec: EncoderSpec, plugins: Plugins) -> str:
    """Return the papers' label of a row: ``BERT-CLS``, ``BERT + Mirror (drophead=0.05)``, ``BERT-mp, whitened``."""
    params = dict(spec.params)
    # Settings that are the default of a registered backbone, and that its name implies, are left out.
    implied_settings: Mapping[str, Any] = {}
    if spec.backbone in BACKBONES:
        implied_settings = BACKBONES[spec.backbone].unnamed
    for key, value in implied_settings.items():
        if params.get(key) == value:
            del params[key]
    # The transformation is named at the end.
    for key in post_keys(spec):
        params.pop(key, None)

    label = backbone_label(spec)
    if spec.method == "base":
        # Without a pooling in the spec it is the implied one, which has no suffix, or else mean pooling: "-mp".
        default_pooling = "" if implied_settings else "mean"
        pooling = str(params.pop("pooling", default_pooling))
        label += _POOLING_SUFFIXES.get(pooling, f"-{pooling}")
    elif spec.method in plugins.methods:
        label = plugins.methods[spec.method].label.format(backbone=label, method=spec.method)
    elif spec.method:
        # The plugin of the method is not installed.
        label = f"{label} + {spec.method}"

    settings = [_setting_words(key, value) for key, value in params.items()]
    if settings:
        label += f" ({', '.join(settings)})"
    transformation = split_post(spec)[1]
    if transformation:
        label += f", {transformation.title}"
    return label


def _setting_words(key: str, value: Any) -> str:
    """Return a setting as in a label: the last part of a path; any other value on one line."""
    if key == "path":
        return PurePath(str(value)).name
    return " ".join(f"{key}={value}".split())


def _baseline_rows(
    columns: Sequence[Column], results: Sequence[Result], plugins: Plugins
) -> list[Row]:
    """Return a row for each baseline of the tasks, with its scores on the tasks that are shown with their main metric.

    A task names its baselines, and the metrics of a result that hold their scores.
    """
    # Scores by label of the baseline, then by task.
    scores_by_label: dict[str, dict[str, Score]] = {}
    for result in results:
        if result.task not in plugins.tasks:
            continue
        task = plugins.tasks[result.task]
        # A baseline is comparable only with the main metric of its task.
        if result.main_metric != task.main_metric:
            continue
        # A score that was replaced, such as one on fewer items, is not comparable with the stored baseline.
        if result.main_score != result.metrics.get(task.main_metric):
            continue
        for label, metric in task.baselines.items():
            value = result.metrics.get(metric)
            if value is not None:
                scores_by_label.setdefault(label, {})[task.name] = Score(value, None, 1)
    return [
        Row(label, "", tuple(scores.get(column.name) for column in columns))
        for label, scores in scores_by_label.items()
    ]


def in_column_order(names: set[str], plugins: Plugins) -> list[str]:
    """Sort tasks as columns of a table: tasks of suites first, then other registered ones, then unknown ones."""
    tasks_of_suites = [name for suite in builtin_suites().values() for name in suite]
    order = dict.fromkeys([*tasks_of_suites, *plugins.tasks.names(), *sorted(names)])
    return [name for name in order if name in names]


def _suite_of(task: str) -> str:
    """Return the first suite that has a task; empty if none has."""
    for suite, members in builtin_suites().items():
        if task in members:
            return suite
    return ""


def _column(name: str, plugins: Plugins, results: Sequence[Result]) -> Column:
    """Return the column of a task; its metric, number of items and share of seen items are those of its results."""
    task_results = [result for result in results if result.task == name]
    suite = _suite_of(name)
    metric = ", ".join(sorted({result.main_metric for result in task_results}))
    n_items = max((result.n_items for result in task_results), default=0)
    seen = max((_overlap(result) for result in task_results), default=0.0)
    # If the plugin of the task is not installed, only its results describe it.
    if name not in plugins.tasks:
        level = str(task_results[0].cell.get("level", "")) if task_results else ""
        return Column(name, name, suite, level, metric=metric, n_items=n_items, seen=seen)

    task = plugins.tasks[name]
    noun_of_items = "items"
    if getattr(task, "items_name", "") == "pairs":
        # "wic" is no kind of text, as "word" or "sentence" are.
        noun_of_items = "pairs" if task.level == "wic" else f"{task.level} pairs"
    source = None
    card = getattr(task, "card", None)
    if card:
        source = TaskSource(
            card.title, card.citation, card.homepage, card.licence, card.licence_url
        )
    return Column(
        name,
        task.title,
        suite,
        task.level,
        tuple(task.languages),
        metric or task.main_metric,
        items=noun_of_items,
        n_items=n_items,
        seen=seen,
        source=source,
    )


def _overlap(result: Result) -> float:
    """Return the share of the test items with a text of the tuning corpus; 0 if it is unknown."""
    if result.overlap is None:
        return 0.0
    return float(result.overlap.get("any_text") or 0)


def _with_averages(tasks: Sequence[Column]) -> list[Column]:
    """Add an average over all tasks at the end and, if there are several suites, one after the tasks of each.

    A single task, or a suite with one task, has no average.
    """
    if len(tasks) < 2:
        return list(tasks)
    suites = [
        (suite, list(members)) for suite, members in groupby(tasks, lambda column: column.suite)
    ]
    names = [suite for suite, _ in suites]
    columns: list[Column] = []
    for suite, members in suites:
        columns += members
        # If other columns separate the tasks of a suite, its average has no place.
        in_one_place = names.count(suite) == 1
        if len(suites) > 1 and suite and in_one_place and len(members) > 1:
            columns.append(_average(f"{AVERAGE} {suite}", suite, members))
    columns.append(_average(AVERAGE, names[0] if len(names) == 1 else "", tasks))
    return columns


def _average(name: str, suite: str, tasks: Sequence[Column]) -> Column:
    return Column(name, AVERAGE, suite, average_of=tuple(task.name for task in tasks))


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """The result of ``run``, ``evaluate`` and ``leaderboard``: a table, the results behind it, and failed cells.

    Example:
        >>> import mirrorbench
        >>> board = mirrorbench.evaluate("tiny+base:pooling=mean", "quick-sts")
        >>> print(board.render("csv").splitlines()[0])
        encoder,spec,quick-sts,quick-sts sd,quick-sts seeds
        >>> board.failures
        ()
    """

    table: Table
    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    plugins: Plugins

    def __getitem__(self, task: str) -> float:
        """Return the only encoder's main score on a task, averaged over seeds.

        Raises:
            UnknownNameError: no such task among the results.
            UsageError: there is not exactly one encoder, or the score is missing.
        """
        names = [column.name for column in self.table.columns]
        if task not in names:
            raise unknown_name("task of these results", task, names)
        # Rows without a spec are baselines.
        rows = [row for row in self.table.rows if row.spec]
        if len(rows) != 1:
            labels = ", ".join(row.label for row in rows)
            raise UsageError(
                f"there are {len(rows)} encoders, so {task!r} is no single score", f"Rows: {labels}"
            )
        score = rows[0].scores[names.index(task)]
        if score is None:
            reason = "it is missing or undefined"
            for failure in self.failures:
                if failure.task == task:
                    reason = failure.reason
                    break
            raise UsageError(f"there is no score on {task}: {reason}")
        return score.mean

    def render(self, format: str = "markdown", notes: str = "all", **options: Any) -> str:
        """Render the table in ``markdown``, ``latex``, ``html``, ``csv``, ``json`` or a plugin's format.

        Args:
            format: the name of a registered renderer; ``UnknownNameError`` for others.
            notes: below the table: ``none``, ``short`` (six lines at most) or ``all``.
            **options: keyword arguments of the renderer: ``split=True, percent=True`` of ``latex``.
        """
        entry = self.plugins.renderers.entry(format)
        return call(entry, str, entry.value.render, self.table.with_notes(notes), **options)

    def sentences(self) -> list[str]:
        """Return a sentence for each verdict. The text below the table has the most important ones only."""
        return [as_arguments(text) for _, text in verdict_sentences(self.table)]

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each result.

        The columns are ``encoder`` (the label in the table), ``spec``, ``task``, ``seed``, ``protocol``, ``metric`` and
        ``score`` (the main ones), ``n_items``, ``coverage``, and then every metric.

        Raises:
            UsageError: pandas is not installed.
        """
        labels = {}
        for row in self.table.rows:
            if row.spec:
                labels[parse_spec(row.spec), row.protocol] = row.label
        lines: list[dict[str, Any]] = []
        for result in self.results:
            values = {
                "encoder": labels.get((parse_spec(result.spec), result.protocol), result.spec),
                "spec": result.spec,
                "task": result.task,
                "seed": result.seed,
                "protocol": result.protocol,
                "metric": result.main_metric,
                "score": result.main_score,
                "n_items": result.n_items,
                "coverage": result.coverage,
            }
            lines.append({**values, **result.metrics})
        return data_frame(lines)

    def __repr__(self) -> str:
        text = as_arguments(self.render("markdown", "short"))
        if self.failures:
            text += f"\n{self._first_failure()}\n"
        return text

    def _repr_html_(self) -> str | None:
        if "notebook" not in self.plugins.renderers:
            return None
        page = as_arguments(self.render("notebook", "short"))
        if self.failures:
            page += f"<p>{html.escape(self._first_failure())}</p>"
        return page

    def _first_failure(self) -> str:
        """Return a sentence on the first failed cell and the number of further ones."""
        first = self.failures[0]
        text = f"Failed: {first.spec} on {first.task}: {as_arguments(first.reason)}"
        n_others = len(self.failures) - 1
        return f"{text} ({n_others} more in .failures)" if n_others else text


def data_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a DataFrame; a ``UsageError`` where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise not_installed(UsageError, "a DataFrame needs", "pandas", "frames") from error
    return pd.DataFrame(rows)


def provenance(results: Sequence[Result], metrics: Collection[str] = ()) -> list[str]:
    """Return notes on the origin of scores: metrics, protocol, precision, seeds, corpora, versions, notes of tasks.

    Args:
        results: the results behind the scores.
        metrics: names of the metrics that are shown; without them there is no note on metrics.
    """
    lines = []
    if metrics:
        words = ", ".join(map(metric_words, sorted(metrics)))
        lines.append(f"Metric: {words}.")
    settings = "; ".join(_settings(results))
    if settings:
        lines.append(f"{settings[0].upper()}{settings[1:]}.")
    lines += _corpora(results)
    lines += _environments([result for result in results if result.environment.get("mirrorbench")])
    lines += sorted({f"{result.task}: {note}" for result in results for note in result.notes})
    return lines


def _settings(results: Sequence[Result]) -> Iterator[str]:
    """Yield the protocol, precisions and numbers of seeds of results."""
    if not results:
        return
    yield f"protocol: {', '.join(sorted({result.protocol for result in results}))}"
    precisions = {result.evaluated_in for result in results}
    yield f"precision: {', '.join(sorted(precisions))}"
    tuning_precisions = {result.cell["precision"].get("tuning") for result in results} - {None, ""}
    # Tuning in the precisions of the evaluation goes without saying.
    if tuning_precisions - precisions:
        yield f"tuned in {' and '.join(sorted(map(str, tuning_precisions)))}"
    seeds_by_score: dict[tuple[str, str, str, int | None], set[int]] = {}
    for result in results:
        seeds_by_score.setdefault(score_key(result), set()).add(result.seed)
    counts = sorted({len(seeds) for seeds in seeds_by_score.values() if len(seeds) > 1})
    if counts:
        yield f"± sample standard deviation over {' or '.join(map(str, counts))} seeds"


def _corpora(results: Sequence[Result]) -> Iterator[str]:
    """Yield a sentence on the tuning corpora, with their tasks if these differ, and one on overlap with test items."""
    tasks_by_corpus: dict[str, dict[str, None]] = {}
    overlaps: dict[str, float] = {}
    for result in results:
        corpus = result.cell.get("corpus")
        if corpus:
            name = f"{corpus['name']} ({corpus['n']:,} strings)"
            tasks_by_corpus.setdefault(name, {})[result.task] = None
        overlap = _overlap(result)
        if overlap:
            overlaps[result.task] = max(overlap, overlaps.get(result.task, 0.0))
    verb = "tuned on"
    if any(result.cell.get("post") for result in results):
        verb = "tuned or fitted on"
    corpora = sorted(tasks_by_corpus)
    # Tasks are named only if not all corpora are for the same ones.
    task_sets = {frozenset(tasks) for tasks in tasks_by_corpus.values()}
    if len(task_sets) == 1:
        yield f"{verb.capitalize()}: {', '.join(corpora)}."
    elif corpora:
        uses = [f"{corpus} for {', '.join(tasks_by_corpus[corpus])}" for corpus in corpora]
        yield f"{verb.capitalize()}: {'; '.join(uses)}."
    if overlaps:
        shares = ", ".join(f"{task} {overlap:.1%}" for task, overlap in overlaps.items())
        yield f"Test items with a text that was {verb}: {shares}."


def _environments(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line with the number of results, their dates, versions and devices; nothing without results."""
    if not results:
        return
    count = "1 result" if len(results) == 1 else f"{len(results)} results"
    days = sorted({result.created[:10] for result in results})
    created = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    versions = set()
    for result in results:
        torch_version = result.environment.get("packages", {}).get("torch", "unknown")
        versions.add(f"{version_of(result)}, torch {torch_version}")
    devices = {str(result.environment.get("device", "unknown")) for result in results}
    yield (
        f"{count} of {created}{cached_models_phrase(results)}: "
        f"{'; '.join(sorted(versions))}; {', '.join(sorted(devices))}."
    )


def cached_models_phrase(results: Sequence[Result]) -> str:
    """Describe how many results reused a tuned model from the cache; empty where none did."""
    n_reused = sum(result.by_kept_model for result in results)
    if not n_reused:
        return ""
    if n_reused == len(results):
        return ", tuned model from cache"
    return f", {n_reused} by a tuned model from cache"
