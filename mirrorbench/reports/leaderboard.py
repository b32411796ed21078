"""The leaderboard: a table built from results, notes on their origin, and an object for scripts and notebooks.

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

from mirrorbench.core.errors import UsageError, not_installed, unknown_name
from mirrorbench.core.plugins import call
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.data.cardfile import builtin_suites
from mirrorbench.models.backbones import BACKBONES
from mirrorbench.models.backbones import label as backbone_label
from mirrorbench.models.transformations import post_keys, split_post
from mirrorbench.reports.comparable import maker, mixtures, name_of
from mirrorbench.reports.renderers.notes import metric_words
from mirrorbench.reports.table import AVERAGE, Column, Row, Score, Table, TaskSource
from mirrorbench.runs.outcomes import Failure
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    import pandas as pd

    from mirrorbench.core.plugins import Plugins


def build_table(
    results: Iterable[Result], plugins: Plugins, tasks: Sequence[str] = (), rows: Sequence[EncoderSpec] = (),
    failures: Sequence[Failure] = (), title: str = "",
) -> Table:  # fmt: skip
    """A table of main scores: ``tasks`` are columns, ``rows`` encoders; by default all in the results.

    The results are of one computation; an encoder has a row for each protocol. Baselines of the tasks follow; failures
    become notes.
    """
    results = list(results)
    names = list(tasks) or in_column_order({result.task for result in results}, plugins)
    columns = _with_averages([_column(name, plugins, results) for name in names])
    # Rows with the same label (``./a/model`` and ``./b/model``) are labelled by their specs.
    labels = {spec: row_label(spec, plugins) for spec in dict.fromkeys([*rows, *(parse_spec(r.spec) for r in results)])}
    alike = Counter(labels.values())
    labels = {spec: label if alike[label] == 1 else str(spec) for spec, label in labels.items()}
    protocols = list(dict.fromkeys(result.protocol for result in results)) or [""]
    there = {result.spec for result in results}
    absent = [row for row in rows if str(row) not in there]
    table_rows = _rows(results, rows, absent, protocols, columns, labels, plugins)
    table_rows += _baselines(columns, results, plugins)
    shown = [i for i, c in enumerate(columns) if not c.average_of or any(row.scores[i] for row in table_rows)]
    table_rows = [replace(row, scores=tuple(row.scores[i] for i in shown)) for row in table_rows]
    missing: dict[tuple[str, str], dict[EncoderSpec, str]] = {}  # one line for all rows and seeds with the same failure
    for failure in failures:
        label = labels.get(failure.spec) or row_label(failure.spec, plugins)
        missing.setdefault((failure.task, failure.reason.splitlines()[0]), {})[failure.spec] = label
    notes = provenance(results, {result.main_metric for result in results})
    notes += [
        f"missing: {', '.join(dict.fromkeys(failed.values()))} on {task}: {reason}"
        for (task, reason), failed in missing.items()
    ]
    warnings = []
    if limits := " or ".join(map(str, sorted({result.limit for result in results if result.limit}))):
        warnings.append(f"A smoke run, on the first {limits} items of each task alone: no scores of the tasks.")
    if n := len({(failure.spec, failure.task) for failure in failures}):
        warnings.append(f"{n} score{'s are' if n > 1 else ' is'} missing")
    for name in names:
        if name not in plugins.tasks and (plugin := plugins.tasks.left_out(name)):
            warnings.append(f"{name}: its title and baselines are in the plugin {plugin}, which is left out")
    apart = [row.label for row in table_rows if row.scores and not row.scores[-1] and all(row.scores[:-1])]
    if apart and table_rows[0].spec and len(shown) > 1:
        notes.append(
            f"No average: scores of several models or experiments, or of different seeds ({', '.join(apart)})."
        )
    return Table(title, tuple(columns[i] for i in shown), tuple(table_rows), tuple(notes), warnings=tuple(warnings))


def _rows(
    results: Sequence[Result], rows: Sequence[EncoderSpec], absent: Sequence[EncoderSpec], protocols: Sequence[str],
    columns: Sequence[Column], labels: Mapping[EncoderSpec, str], plugins: Plugins,
) -> list[Row]:  # fmt: skip
    """The rows by encoder and protocol; ``absent`` ones are empty."""
    by_cell: dict[tuple[str, str, str], dict[int, Result]] = {}
    for result in results:
        by_cell.setdefault((result.spec, result.protocol, result.task), {})[result.seed] = result
    there = dict.fromkeys((r.spec, r.protocol) for r in results)
    specs = [(row, p) for row in rows for p in protocols if (str(row), p) in there or row in absent]
    made = []
    for spec, protocol in specs or [(parse_spec(s), p) for s, p in there]:
        cells = {c.name: by_cell.get((str(spec), protocol, c.name), {}) for c in columns if not c.average_of}
        row_results = [result for cell in cells.values() for result in cell.values()]
        mixed = bool(mixtures(row_results, plugins))
        scores = tuple(
            None if mixed and c.average_of else mean_over_seeds([cells[name] for name in c.average_of or (c.name,)])
            for c in columns
        )
        label = labels[spec] + (f" [{protocol}]" if len(protocols) > 1 else "")
        size, dimensions = (
            next((r.encoder[n] for r in row_results if r.encoder.get(n)), None) for n in ("parameters", "dimensions")
        )
        tuned = any(result.cell.get("recipe") for result in row_results)
        row = Row(label, str(spec), scores, spec.backbone, spec.method, protocol, tuned=tuned)
        made.append(replace(row, parameters=size, dimensions=dimensions))
    return made


def mean_over_seeds(cells: Sequence[Mapping[int, Result]], metric: str = "") -> Score | None:
    """The mean over tasks (their results by seed) within each seed, then over seeds; ``None`` where one is missing."""
    values: list[tuple[int, float]] = []
    for seed in sorted(set().union(*cells)):
        results = [cell[seed] for cell in cells if seed in cell]
        scores = [s for r in results if (s := r.metrics.get(metric) if metric else r.main_score) is not None]
        if len(scores) < len(cells):
            return None
        values.append((seed, statistics.fmean(scores)))
    if not values:
        return None
    means = [value for _, value in values]
    sd = statistics.stdev(means) if len(means) > 1 else None
    ids = tuple(cell[seed].cell_id for cell in cells for seed in sorted(cell))
    return Score(statistics.fmean(means), sd, len(means), ids, tuple(values))


def row_label(spec: EncoderSpec, plugins: Plugins) -> str:
    """The label of a row as in the papers: ``BERT-CLS``, ``BERT + Mirror (drophead=0.05)``, ``BERT-mp, whitened``."""
    name, shown = backbone_label(spec), ""
    post = split_post(spec)[1]
    own = BACKBONES[spec.backbone].unnamed if spec.backbone in BACKBONES else {}
    params = {key: value for key, value in spec.params if own.get(key) != value}
    if spec.method == "base":
        pooling = str(params.get("pooling", "" if own else "mean"))
        name += {"": "", "cls": "-CLS", "mean": "-mp"}.get(pooling, f"-{pooling}")
        shown = "pooling"
    elif spec.method in plugins.methods:
        name = plugins.methods[spec.method].label.format(backbone=name, method=spec.method)
    elif spec.method:  # of a plugin that is left out
        name = f"{name} + {spec.method}"
    # Of a path only the last part is shown.
    rest = [
        PurePath(str(value)).name if key == "path" else " ".join(f"{key}={value}".split())  # a prompt may have lines
        for key, value in params.items()
        if key != shown and key not in post_keys(spec)
    ]
    name = f"{name} ({', '.join(rest)})" if rest else name
    return f"{name}, {post.title}" if post else name


def _baselines(columns: Sequence[Column], results: Sequence[Result], plugins: Plugins) -> list[Row]:
    """A row for each baseline of the tasks whose main metric is shown."""
    baselines: dict[str, dict[str, Score]] = {}
    for result in results:
        if result.task not in plugins.tasks:
            continue
        task = plugins.tasks[result.task]
        main = task.main_metric
        if result.main_metric != main or result.main_score != result.metrics.get(main):
            continue
        for label, metric in task.baselines.items():
            if (value := result.metrics.get(metric)) is not None:
                baselines.setdefault(label, {})[task.name] = Score(value, None, 1)
    return [Row(label, "", tuple(scores.get(c.name) for c in columns)) for label, scores in baselines.items()]


def in_column_order(names: set[str], plugins: Plugins) -> list[str]:
    """Tasks as columns: suites, then other registered tasks, then unknown ones."""
    listed = [name for suite in builtin_suites().values() for name in suite]
    order = dict.fromkeys([*listed, *plugins.tasks.names(), *sorted(names)])
    return [name for name in order if name in names]


def _column(name: str, plugins: Plugins, results: Sequence[Result]) -> Column:
    suite = next((suite for suite, members in builtin_suites().items() if name in members), "")
    own = [result for result in results if result.task == name]
    metric = ", ".join(sorted({result.main_metric for result in own}))
    n_items = max((result.n_items for result in own), default=0)
    seen = max((float((result.overlap or {}).get("any_text") or 0) for result in own), default=0.0)
    if name not in plugins.tasks:
        level = str(own[0].cell.get("level", "")) if own else ""
        return Column(name, name, suite, level, (), metric, n_items=n_items, seen=seen)
    task = plugins.tasks[name]
    pairs = "pairs" if task.level == "wic" else f"{task.level} pairs"
    items = pairs if getattr(task, "items_name", "") == "pairs" else "items"
    metric, card = metric or task.main_metric, getattr(task, "card", None)
    source = TaskSource(card.title, card.citation, card.homepage, card.licence, card.licence_url) if card else None
    return Column(name, task.title, suite, task.level, tuple(task.languages), metric, (), items, n_items, seen, source)


def _with_averages(tasks: Sequence[Column]) -> list[Column]:
    """The columns, an average after each of several suites, and an average over all tasks at the end."""
    if len(tasks) < 2:
        return list(tasks)
    runs = [(suite, list(columns)) for suite, columns in groupby(tasks, lambda column: column.suite)]
    if len(runs) == 1:
        return [*tasks, Column(AVERAGE, AVERAGE, runs[0][0], average_of=tuple(c.name for c in tasks))]
    columns: list[Column] = []
    for suite, members in runs:
        columns += members
        once = sum(name == suite for name, _ in runs) == 1
        if suite and once and len(members) > 1:
            average = tuple(column.name for column in members)
            columns.append(Column(f"{AVERAGE} {suite}", AVERAGE, suite, average_of=average))
    return [*columns, Column(AVERAGE, AVERAGE, average_of=tuple(c.name for c in tasks))]


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """The result of ``run``, ``evaluate`` and ``leaderboard``.

    Attributes:
        table: the scores by encoder and task.
        results: one for each encoder, task and seed.
        failures: cells that could not be computed, and why.
        plugins: the registered renderers.
    """

    table: Table
    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    plugins: Plugins

    def __getitem__(self, task: str) -> float:
        """The main score of the only encoder on a task, mean over seeds.

        Raises:
            UnknownNameError: no such task among the results.
            UsageError: there are several encoders, or the score is missing.
        """
        names = [column.name for column in self.table.columns]
        if task not in names:
            raise unknown_name("task of these results", task, names)
        if len(rows := [row for row in self.table.rows if row.spec]) != 1:
            labels = ", ".join(row.label for row in rows)
            raise UsageError(f"there are {len(rows)} encoders, so {task!r} is no single score", f"Rows: {labels}")
        score = rows[0].scores[names.index(task)]
        if score is None:
            reasons = [f.reason for f in self.failures if f.task == task] or ["it is missing or undefined"]
            raise UsageError(f"there is no score on {task}: {reasons[0]}")
        return score.mean

    def render(self, format: str = "markdown", notes: str = "all", **options: Any) -> str:
        """The table as text in ``markdown``, ``latex``, ``html``, ``csv``, ``json`` or a plugin's format.

        Args:
            format: its name.
            notes: below the table: ``none``, ``short`` (six lines at most) or ``all``.
            **options: keyword arguments of its renderer: ``split=True, percent=True`` of ``latex``.

        Raises:
            UnknownNameError: no such format or level of notes.
        """
        entry = self.plugins.renderers.entry(format)
        return call(entry, str, entry.value.render, self.table.with_notes(notes), **options)

    def to_frame(self) -> pd.DataFrame:
        """A row for each result: encoder, task, seed, protocol, main metric and score, then every metric by name.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise not_installed(UsageError, "a DataFrame needs", "pandas", "frames") from error
        rows: list[dict[str, Any]] = [
            {
                "encoder": r.spec, "task": r.task, "seed": r.seed, "protocol": r.protocol, "metric": r.main_metric,
                "score": r.main_score, "n_items": r.n_items, "coverage": r.coverage, **r.metrics,
            }
            for r in self.results
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return self.render("markdown", "short")

    def _repr_html_(self) -> str | None:
        return self.render("notebook", "short") if "notebook" in self.plugins.renderers else None


def provenance(results: Sequence[Result], metrics: Collection[str] = ()) -> list[str]:
    """Notes below a table: the metrics shown, protocol, precision, seeds, corpora, overlap, versions, tasks' notes."""
    corpora: dict[str, dict[str, None]] = {}  # their tasks
    shares: dict[str, float] = {}
    for result in results:
        if corpus := result.cell.get("corpus"):
            corpora.setdefault(f"{corpus['name']} ({corpus['n']:,} strings)", {})[result.task] = None
        if share := float((result.overlap or {}).get("any_text") or 0):
            shares[result.task] = max(share, shares.get(result.task, 0.0))
    lines = [f"Metric: {', '.join(map(metric_words, sorted(metrics)))}."] if metrics else []
    if settings := "; ".join(_settings(results)):
        lines.append(f"{settings[0].upper()}{settings[1:]}.")
    used = "tuned or fitted on" if any(result.cell.get("post") for result in results) else "tuned on"
    apart = len({tuple(sorted(tasks)) for tasks in corpora.values()}) > 1  # tasks of one row differ in their corpus
    if parts := [f"{corpus} for {', '.join(of)}" if apart else corpus for corpus, of in sorted(corpora.items())]:
        lines.append(f"{used.capitalize()}: {('; ' if apart else ', ').join(parts)}.")
    if shares:
        seen = ", ".join(f"{task} {share:.1%}" for task, share in shares.items())
        lines.append(f"Test items with a text that was {used}: {seen}.")
    lines += _environment_note([r for r in results if r.environment.get("mirrorbench")])
    return [*lines, *sorted({f"{result.task}: {note}" for result in results for note in result.notes})]


def _settings(results: Sequence[Result]) -> Iterator[str]:
    """Protocol, precision and seeds."""
    evaluated = {r.evaluated_in for r in results}
    for what, names in {"protocol": {r.protocol for r in results}, "precision": evaluated}.items():
        if names:
            yield f"{what}: {', '.join(sorted(names))}"
    names = {str(tuned) for r in results if (tuned := r.cell["precision"].get("tuning"))}
    if names - evaluated:
        yield f"tuned in {' and '.join(sorted(names))}"
    of_cells: dict[tuple[str | int | None, ...], set[int]] = {}
    for result in results:
        of_cells.setdefault(name_of(result)[:-1], set()).add(result.seed)
    if seeds := sorted({len(own) for own in of_cells.values() if len(own) > 1}):
        yield f"± sample standard deviation over {' or '.join(map(str, seeds))} seeds"


def _environment_note(made: Sequence[Result]) -> list[str]:
    """One line: number of results, dates, versions and devices."""
    if not made:
        return []
    tools = {f"{maker(r)}, torch {r.environment.get('packages', {}).get('torch', 'unknown')}" for r in made}
    devices = {str(r.environment.get("device", "unknown")) for r in made}
    days = sorted({r.created[:10] for r in made})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    count = f"{len(made)} results" if len(made) > 1 else "1 result"
    return [f"{count} of {when}{kept_models(made)}: {'; '.join(sorted(tools))}; {', '.join(sorted(devices))}."]


def kept_models(results: Sequence[Result]) -> str:
    """The words on tuned models that were not tuned for these results; empty where all were."""
    kept = sum(result.by_kept_model for result in results)
    return f", {'' if kept == len(results) else f'{kept} by a '}tuned model from cache" if kept else ""
