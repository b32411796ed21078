"""The leaderboard: its table built from results, notes on their origin, and an object for scripts and notebooks.

A row has no average where one of its scores is missing, or where they are not of one model and experiment.
"""

from __future__ import annotations

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
from mirrorbench.core.truncation import Truncation
from mirrorbench.core.unknown_words import UnknownWords
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.models.backbones import BACKBONES
from mirrorbench.models.backbones import label as backbone_label
from mirrorbench.models.transformations import post_keys, split_post
from mirrorbench.reports.comparable import mixtures, seed_key, version_of
from mirrorbench.reports.renderers.numbers import metric_words
from mirrorbench.reports.table import AVERAGE, Column, Row, Score, Table, TaskSource
from mirrorbench.runs.outcomes import Failure
from mirrorbench.storage.results import ZERO_VECTORS, Result

if TYPE_CHECKING:
    import pandas as pd

    from mirrorbench.core.plugins import Plugins


_NO_NAMES: Mapping[EncoderSpec, str] = {}


def build_table(
    results: Iterable[Result],
    plugins: Plugins,
    tasks: Sequence[str] = (),
    rows: Sequence[EncoderSpec] = (),
    failures: Sequence[Failure] = (),
    title: str = "",
    names: Mapping[EncoderSpec, str] = _NO_NAMES,
) -> Table:
    """Build a table of main scores: ``tasks`` are columns, ``rows`` encoders; by default all in the results.

    The results are of one computation; an encoder has a row for each protocol. Baselines of the tasks follow; failures
    become notes. ``names`` are the user's names of rows; by default those that all results of the row state.
    """
    results = list(results)
    task_names = list(tasks) or in_column_order({result.task for result in results}, plugins)
    columns = _with_averages([_column(name, plugins, results) for name in task_names])
    specs = [
        *rows,
        *(parse_spec(result.spec) for result in results),
        *(failure.spec for failure in failures),
    ]
    labels = row_labels(specs, plugins, {**stated_names(results), **names})
    table_rows = [
        *_rows(results, rows, columns, labels, plugins),
        *_baselines(columns, results, plugins),
    ]
    shown = [
        i
        for i, c in enumerate(columns)
        if not c.average_of or any(row.scores[i] for row in table_rows)
    ]
    task_columns = [i for i, column in enumerate(columns) if not column.average_of]
    scored = [row for row in table_rows if row.spec and all(row.scores[i] for i in task_columns)]
    apart = [row.label for row in scored if len(task_names) > 1 and not row.scores[-1]]
    columns = [columns[i] for i in shown]
    table_rows = [replace(row, scores=tuple(row.scores[i] for i in shown)) for row in table_rows]
    notes = provenance(results, {result.main_metric for result in results}) + _missing(
        failures, labels
    )
    if apart:
        rest = ", ".join(apart)
        notes.append(
            f"No average: scores of several models or experiments, or of different seeds ({rest})."
        )
    warnings = (
        *_missing_scores(failures),
        *_remarks(results, columns),
        *_truncations(results, labels, columns),
        *_unknown_words(results, labels, columns),
        *_zero_vectors(results, labels, columns),
    )
    return Table(
        title,
        tuple(columns),
        tuple(table_rows),
        tuple(notes),
        warnings=warnings,
        banner=_banner(results),
    )


def stated_names(results: Iterable[Result]) -> dict[EncoderSpec, str]:
    """Return the user's name of each row whose results all state the same."""
    names: dict[str, set[str]] = {}
    for result in results:
        names.setdefault(result.spec, set()).add(result.name)
    return {parse_spec(spec): own.pop() for spec, own in names.items() if len(own) == 1}


def _missing(failures: Iterable[Failure], labels: Mapping[EncoderSpec, str]) -> list[str]:
    """One note for all rows and seeds with the same failure."""
    rows: dict[tuple[str, str], dict[str, None]] = {}
    for failure in failures:
        rows.setdefault((failure.task, failure.reason.splitlines()[0]), {})[
            labels[failure.spec]
        ] = None
    return [
        f"missing: {', '.join(names)} on {task}: {reason}" for (task, reason), names in rows.items()
    ]


def _banner(results: Sequence[Result]) -> str:
    """The banner of a smoke run; empty for whole tasks."""
    limits = sorted({result.limit for result in results if result.limit})
    if not limits:
        return ""
    items = " or ".join(map(str, limits))
    return f"SMOKE RUN on only the first {items} items of each task: no valid task scores"


def _missing_scores(failures: Sequence[Failure]) -> Iterator[str]:
    if n := len({(failure.spec, failure.task) for failure in failures}):
        yield f"{n} score{'s are' if n > 1 else ' is'} missing"


def _remarks(results: Sequence[Result], columns: Sequence[Column]) -> Iterator[str]:
    """Yield the remarks on each task's data."""
    by_task: dict[str, dict[str, None]] = {}
    for result in results:
        by_task.setdefault(result.task, {}).update(dict.fromkeys(result.remarks))
    for column in columns:
        if remarks := by_task.get(column.name):
            yield f"{column.title}: {'; '.join(remarks)}"


def _truncations(
    results: Sequence[Result], labels: Mapping[EncoderSpec, str], columns: Sequence[Column]
) -> Iterator[str]:
    """Yield a sentence on the result with the largest share of texts that were cut, and count the others."""
    counted = {
        (result.spec, result.task): Truncation.of_json(result.encoder["truncation"])
        for result in results
        if result.encoder.get("truncation")
    }
    if not counted:
        return
    # Sorted, so that of equal shares every command names the same.
    spec, task = max(sorted(counted), key=lambda row: counted[row].cut / counted[row].texts)
    sentence = counted[spec, task].sentence
    if len({result.spec for result in results}) > 1:
        sentence += f" by {labels[parse_spec(spec)]}"
    if len({result.task for result in results}) > 1:
        title = next(column.title for column in columns if column.name == task)
        sentence += f" on {title}"
    if others := len(counted) - 1:
        sentence += f"; texts were cut in {others} more result{'s' if others > 1 else ''}"
    yield sentence


def _unknown_words(
    results: Sequence[Result], labels: Mapping[EncoderSpec, str], columns: Sequence[Column]
) -> Iterator[str]:
    """Yield a sentence on each row and task with words without a vector; seeds have the same."""
    titles = {column.name: column for column in columns}
    said = set[tuple[str, str]]()
    for result in results:
        counts, row = result.encoder.get("unknown_words"), (result.spec, result.task)
        if counts is None or row in said or result.task not in titles:
            continue
        said.add(row)
        column = titles[result.task]
        where = f"{labels[parse_spec(result.spec)]} on {column.title}"
        yield f"{where}: {UnknownWords.of_json(counts).sentence(column.items)}"


def _zero_vectors(
    results: Sequence[Result], labels: Mapping[EncoderSpec, str], columns: Sequence[Column]
) -> Iterator[str]:
    """Yield a sentence on each row whose vectors are all zero, with its tasks."""
    titles = {column.name: column.title for column in columns}
    tasks: dict[str, dict[str, None]] = {}
    for result in results:
        if result.encoder.get(ZERO_VECTORS) and result.task in titles:
            tasks.setdefault(result.spec, {})[titles[result.task]] = None
    for spec, names in tasks.items():
        yield f"{labels[parse_spec(spec)]}: all its vectors are zero on {', '.join(names)}"


def _rows(
    results: Sequence[Result],
    rows: Sequence[EncoderSpec],
    columns: Sequence[Column],
    labels: Mapping[EncoderSpec, str],
    plugins: Plugins,
) -> list[Row]:
    """A row for each encoder and protocol; an encoder without results has empty rows."""
    by_row: dict[tuple[str, str], dict[str, dict[int, Result]]] = {}
    for result in results:
        by_task = by_row.setdefault((result.spec, result.protocol), {})
        by_task.setdefault(result.task, {})[result.seed] = result
    measured = dict.fromkeys(spec for spec, _ in by_row)
    protocols = dict.fromkeys(protocol for _, protocol in by_row) or {"": None}
    table_rows = []
    for spec in rows or map(parse_spec, measured):
        for protocol in protocols:
            by_task = by_row.get((str(spec), protocol), {})
            if by_task or str(spec) not in measured:
                label = labels[spec] + (f" [{protocol}]" if len(protocols) > 1 else "")
                table_rows.append(_row(label, spec, protocol, by_task, columns, plugins))
    return table_rows


def _row(
    label: str,
    spec: EncoderSpec,
    protocol: str,
    by_task: Mapping[str, Mapping[int, Result]],
    columns: Sequence[Column],
    plugins: Plugins,
) -> Row:
    cells = {
        column.name: by_task.get(column.name, {}) for column in columns if not column.average_of
    }
    results = [result for cell in cells.values() for result in cell.values()]
    mixed = bool(mixtures(results, plugins))
    scores = tuple(
        None if mixed and c.average_of else mean_over_seeds([cells[task] for task in c.tasks])
        for c in columns
    )
    size, dimensions = (
        next((r.encoder[key] for r in results if r.encoder.get(key)), None)
        for key in ("parameters", "dimensions")
    )
    tuned = any(result.cell.get("recipe") for result in results)
    return Row(
        label, str(spec), scores, spec.backbone, spec.method, protocol, "", size, dimensions, tuned
    )


def mean_over_seeds(cells: Sequence[Mapping[int, Result]], metric: str = "") -> Score | None:
    """Average over tasks (their results by seed) within each seed, then over seeds; ``None`` where one is missing."""
    means: dict[int, float] = {}
    for seed in sorted(set().union(*cells)):
        results = [cell[seed] for cell in cells if seed in cell]
        scores = [
            s
            for r in results
            if (s := r.metrics.get(metric) if metric else r.main_score) is not None
        ]
        if len(scores) < len(cells):
            return None
        means[seed] = statistics.fmean(scores)
    if not means:
        return None
    sd = statistics.stdev(means.values()) if len(means) > 1 else None
    ids = tuple(cell[seed].cell_id for cell in cells for seed in sorted(cell))
    return Score(statistics.fmean(means.values()), sd, len(means), ids, tuple(means.items()))


def row_labels(
    specs: Iterable[EncoderSpec], plugins: Plugins, names: Mapping[EncoderSpec, str]
) -> dict[EncoderSpec, str]:
    """Return the labels of rows: the user's names, else the papers'; rows of one label are labelled by their specs."""
    labels = {spec: names.get(spec) or row_label(spec, plugins) for spec in specs}
    counts = Counter(labels.values())
    return {spec: label if counts[label] == 1 else str(spec) for spec, label in labels.items()}


def row_label(spec: EncoderSpec, plugins: Plugins) -> str:
    """Return the papers' label of a row: ``BERT-CLS``, ``BERT + Mirror (drophead=0.05)``, ``BERT-mp, whitened``."""
    label, post = backbone_label(spec), split_post(spec)[1]
    own = BACKBONES[spec.backbone].unnamed if spec.backbone in BACKBONES else {}
    params = {
        key: value
        for key, value in spec.params
        if own.get(key) != value and key not in post_keys(spec)
    }
    if spec.method == "base":
        pooling = str(params.pop("pooling", "" if own else "mean"))
        label += {"": "", "cls": "-CLS", "mean": "-mp"}.get(pooling, f"-{pooling}")
    elif spec.method in plugins.methods:
        label = plugins.methods[spec.method].label.format(backbone=label, method=spec.method)
    elif spec.method:  # of a plugin that is not installed
        label = f"{label} + {spec.method}"
    # Of a path only the last part is shown; a prompt may have several lines.
    rest = [
        PurePath(str(v)).name if k == "path" else " ".join(f"{k}={v}".split())
        for k, v in params.items()
    ]
    label = f"{label} ({', '.join(rest)})" if rest else label
    return f"{label}, {post.title}" if post else label


def _baselines(columns: Sequence[Column], results: Sequence[Result], plugins: Plugins) -> list[Row]:
    """A row for each baseline of the tasks whose main metric is shown."""
    baselines: dict[str, dict[str, Score]] = {}
    for result in results:
        if result.task not in plugins.tasks:
            continue
        task = plugins.tasks[result.task]
        if result.main_metric != task.main_metric or result.main_score != result.metrics.get(
            task.main_metric
        ):
            continue
        for label, metric in task.baselines.items():
            if (value := result.metrics.get(metric)) is not None:
                baselines.setdefault(label, {})[task.name] = Score(value, None, 1)
    return [
        Row(label, "", tuple(scores.get(c.name) for c in columns))
        for label, scores in baselines.items()
    ]


def in_column_order(names: set[str], plugins: Plugins) -> list[str]:
    """Sort tasks as columns: suites, then other registered tasks, then unknown ones."""
    listed = [name for suite in builtin_suites().values() for name in suite]
    order = dict.fromkeys([*listed, *plugins.tasks.names(), *sorted(names)])
    return [name for name in order if name in names]


def _column(name: str, plugins: Plugins, results: Sequence[Result]) -> Column:
    suite = next((suite for suite, members in builtin_suites().items() if name in members), "")
    own = [result for result in results if result.task == name]
    metric = ", ".join(sorted({result.main_metric for result in own}))
    n_items = max((result.n_items for result in own), default=0)
    seen = max((_overlap(result) for result in own), default=0.0)
    if name not in plugins.tasks:
        level = str(own[0].cell.get("level", "")) if own else ""
        return Column(name, name, suite, level, (), metric, n_items=n_items, seen=seen)
    task = plugins.tasks[name]
    pairs = "pairs" if task.level == "wic" else f"{task.level} pairs"
    items = pairs if getattr(task, "items_name", "") == "pairs" else "items"
    metric, card = metric or task.main_metric, getattr(task, "card", None)
    source = (
        TaskSource(card.title, card.citation, card.homepage, card.licence, card.licence_url)
        if card
        else None
    )
    return Column(
        name,
        task.title,
        suite,
        task.level,
        tuple(task.languages),
        metric,
        (),
        items,
        n_items,
        seen,
        source,
    )


def _overlap(result: Result) -> float:
    """Share of the test items with a text of the tuning corpus."""
    return float((result.overlap or {}).get("any_text") or 0)


def _with_averages(tasks: Sequence[Column]) -> list[Column]:
    """The columns, an average after each of several suites, and an average over all tasks at the end."""
    if len(tasks) < 2:
        return list(tasks)
    runs = [
        (suite, list(columns)) for suite, columns in groupby(tasks, lambda column: column.suite)
    ]
    columns: list[Column] = []
    for suite, members in runs:
        columns += members
        once = sum(name == suite for name, _ in runs) == 1
        if len(runs) > 1 and suite and once and len(members) > 1:
            average = tuple(column.name for column in members)
            columns.append(Column(f"{AVERAGE} {suite}", AVERAGE, suite, average_of=average))
    suite = runs[0][0] if len(runs) == 1 else ""
    return [
        *columns,
        Column(AVERAGE, AVERAGE, suite, average_of=tuple(column.name for column in tasks)),
    ]


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
        """Return the main score of the only encoder on a task, mean over seeds.

        Raises:
            UnknownNameError: no such task among the results.
            UsageError: there are several encoders, or the score is missing.
        """
        names = [column.name for column in self.table.columns]
        if task not in names:
            raise unknown_name("task of these results", task, names)
        if len(rows := [row for row in self.table.rows if row.spec]) != 1:
            labels = ", ".join(row.label for row in rows)
            raise UsageError(
                f"there are {len(rows)} encoders, so {task!r} is no single score", f"Rows: {labels}"
            )
        score = rows[0].scores[names.index(task)]
        if score is None:
            reasons = [f.reason for f in self.failures if f.task == task] or [
                "it is missing or undefined"
            ]
            raise UsageError(f"there is no score on {task}: {reasons[0]}")
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

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each result: encoder as in the table, spec, task, seed, protocol, main metric and score, then every metric.

        Raises:
            UsageError: pandas is not installed.
        """
        labels = {parse_spec(row.spec): row.label for row in self.table.rows if row.spec}
        rows: list[dict[str, Any]] = [
            {
                "encoder": labels.get(parse_spec(r.spec), r.spec),
                "spec": r.spec,
                "task": r.task,
                "seed": r.seed,
                "protocol": r.protocol,
                "metric": r.main_metric,
                "score": r.main_score,
                "n_items": r.n_items,
                "coverage": r.coverage,
                **r.metrics,
            }
            for r in self.results
        ]
        return data_frame(rows)

    def __repr__(self) -> str:
        return as_arguments(self.render("markdown", "short"))

    def _repr_html_(self) -> str | None:
        if "notebook" not in self.plugins.renderers:
            return None
        return as_arguments(self.render("notebook", "short"))


def data_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a DataFrame; a ``UsageError`` where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise not_installed(UsageError, "a DataFrame needs", "pandas", "frames") from error
    return pd.DataFrame(rows)


def provenance(results: Sequence[Result], metrics: Collection[str] = ()) -> list[str]:
    """Return notes below a table: metrics, protocol, precision, seeds, corpora, overlap, versions, tasks' notes."""
    lines = [f"Metric: {', '.join(map(metric_words, sorted(metrics)))}."] if metrics else []
    if settings := "; ".join(_settings(results)):
        lines.append(f"{settings[0].upper()}{settings[1:]}.")
    lines += [
        *_corpora(results),
        *_environments([r for r in results if r.environment.get("mirrorbench")]),
    ]
    return [
        *lines,
        *sorted({f"{result.task}: {note}" for result in results for note in result.notes}),
    ]


def _settings(results: Sequence[Result]) -> Iterator[str]:
    if not results:
        return
    yield f"protocol: {', '.join(sorted({result.protocol for result in results}))}"
    evaluated = {result.evaluated_in for result in results}
    yield f"precision: {', '.join(sorted(evaluated))}"
    tuned = {
        str(precision)
        for result in results
        if (precision := result.cell["precision"].get("tuning"))
    }
    if tuned - evaluated:
        yield f"tuned in {' and '.join(sorted(tuned))}"
    seeds: dict[tuple[str | int | None, ...], set[int]] = {}
    for result in results:
        seeds.setdefault(seed_key(result)[:-1], set()).add(result.seed)
    if counts := sorted({len(own) for own in seeds.values() if len(own) > 1}):
        yield f"± sample standard deviation over {' or '.join(map(str, counts))} seeds"


def _corpora(results: Sequence[Result]) -> Iterator[str]:
    """Tuning corpora, with their tasks where those of a row differ, and their overlap with test items."""
    tasks: dict[str, dict[str, None]] = {}  # by corpus
    shares: dict[str, float] = {}
    for result in results:
        if corpus := result.cell.get("corpus"):
            tasks.setdefault(f"{corpus['name']} ({corpus['n']:,} strings)", {})[result.task] = None
        if share := _overlap(result):
            shares[result.task] = max(share, shares.get(result.task, 0.0))
    used = (
        "tuned or fitted on" if any(result.cell.get("post") for result in results) else "tuned on"
    )
    names, separator = sorted(tasks), ", "
    if len(set(map(frozenset, tasks.values()))) > 1:
        names, separator = [f"{corpus} for {', '.join(tasks[corpus])}" for corpus in names], "; "
    if names:
        yield f"{used.capitalize()}: {separator.join(names)}."
    if shares:
        seen = ", ".join(f"{task} {share:.1%}" for task, share in shares.items())
        yield f"Test items with a text that was {used}: {seen}."


def _environments(results: Sequence[Result]) -> Iterator[str]:
    """One line: number of results, dates, versions and devices."""
    if results:
        tools = {
            f"{version_of(r)}, torch {r.environment.get('packages', {}).get('torch', 'unknown')}"
            for r in results
        }
        devices = {str(result.environment.get("device", "unknown")) for result in results}
        days = sorted({result.created[:10] for result in results})
        created = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        count = f"{len(results)} result{'s' * (len(results) > 1)}"
        cached = kept_models(results)
        yield f"{count} of {created}{cached}: {'; '.join(sorted(tools))}; {', '.join(sorted(devices))}."


def kept_models(results: Sequence[Result]) -> str:
    """Return words on tuned models that were not tuned for these results; empty where all were."""
    kept = sum(result.by_kept_model for result in results)
    return (
        f", {'' if kept == len(results) else f'{kept} by a '}tuned model from cache" if kept else ""
    )
