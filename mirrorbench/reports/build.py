"""Builds tables from results. A row that lacks one of the scores of an average has no average."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.data.cardfile import builtin_suites
from mirrorbench.models.backbones import label as backbone_label
from mirrorbench.reports.provenance import provenance_notes
from mirrorbench.reports.table import AVERAGE, Column, Row, Score, Table
from mirrorbench.runs.cells import Failure
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


def build_table(
    results: Iterable[Result], plugins: Plugins, tasks: Sequence[str] = (), rows: Sequence[EncoderSpec] = (),
    failures: Sequence[Failure] = (), title: str = "",
) -> Table:  # fmt: skip
    """A table of main scores: ``tasks`` are columns, ``rows`` encoders; by default all in the results.

    An encoder has a row for each protocol. Baselines of the tasks follow; failures become notes.
    """
    results = list(results)
    by_cell: dict[tuple[str, str, str], dict[int, Result]] = {}
    for result in results:
        by_cell.setdefault((result.spec, result.protocol, result.task), {})[result.seed] = result
    names = list(tasks) or _in_column_order({result.task for result in results}, plugins)
    columns = _with_averages([_column(name, plugins, results) for name in names])
    protocols = list(dict.fromkeys(result.protocol for result in results)) or [""]
    there = dict.fromkeys((r.spec, r.protocol) for r in results)
    some = {spec for spec, _ in there}  # no empty row where only another protocol has results
    specs = [(row, p) for row in rows for p in protocols if (str(row), p) in there or str(row) not in some]
    specs = specs or [(parse_spec(s), p) for s, p in there]
    # Rows with the same label (``./a/model`` and ``./b/model``) are labelled by their specs.
    labels = {spec: row_label(spec, plugins) for spec, _ in specs}
    alike = Counter(labels.values())
    labels = {spec: label if alike[label] == 1 else str(spec) for spec, label in labels.items()}
    table_rows = []
    for spec, protocol in specs:
        cells = {name: by_cell.get((str(spec), protocol, name), {}) for name in names}
        scores = tuple(mean_over_seeds([cells[name] for name in c.average_of or (c.name,)]) for c in columns)
        label = labels[spec] + (f" [{protocol}]" if len(protocols) > 1 else "")
        table_rows.append(Row(label, str(spec), scores, spec.backbone, spec.method, protocol))
    table_rows += _baselines(columns, results, plugins)
    missing: dict[tuple[str, str], dict[str, None]] = {}  # one line for all rows and seeds with the same failure
    for failure in failures:
        label = labels.get(failure.spec) or row_label(failure.spec, plugins)
        missing.setdefault((failure.task, failure.reason.splitlines()[0]), {})[label] = None
    notes = [f"missing: {', '.join(failed)} on {task}: {reason}" for (task, reason), failed in missing.items()]
    return Table(title, tuple(columns), tuple(table_rows), (*provenance_notes(results), *notes))


def mean_over_seeds(cells: Sequence[Mapping[int, Result]], metric: str = "") -> Score | None:
    """The mean over tasks (their results by seed) within each seed, then over seeds; ``None`` where one is missing."""
    values: list[tuple[int, float]] = []
    for seed in sorted(set().union(*cells)):
        found = [cell[seed] for cell in cells if seed in cell]
        scores = [s for r in found if (s := r.metrics.get(metric) if metric else r.main_score) is not None]
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
    """The label of a row as in the papers: ``BERT-CLS``, ``BERT-mp``, ``BERT + Mirror (drophead=0.05)``."""
    name, shown = backbone_label(spec), ""
    if spec.method == "base":
        pooling = str(spec.get("pooling", "mean"))
        name += {"cls": "-CLS", "mean": "-mp"}.get(pooling, f"-{pooling}")
        shown = "pooling"
    elif spec.method in plugins.methods:
        name = plugins.methods[spec.method].label.format(backbone=name, method=spec.method)
    # Of a path only the last part is shown.
    rest = [
        PurePath(str(value)).name if key == "path" else f"{key}={value}" for key, value in spec.params if key != shown
    ]
    return f"{name} ({', '.join(rest)})" if rest else name


def _baselines(columns: Sequence[Column], results: Sequence[Result], plugins: Plugins) -> list[Row]:
    """A row for each baseline of the tasks whose main metric is shown."""
    found: dict[str, dict[str, Score]] = {}
    for result in results:
        if result.task not in plugins.tasks:
            continue
        task = plugins.tasks[result.task]
        main = task.main_metric
        if result.main_metric != main or result.main_score != result.metrics.get(main):
            continue
        for label, metric in task.baselines.items():
            if (value := result.metrics.get(metric)) is not None:
                found.setdefault(label, {})[task.name] = Score(value, None, 1)
    return [Row(label, "", tuple(scores.get(c.name) for c in columns)) for label, scores in found.items()]


def _in_column_order(names: set[str], plugins: Plugins) -> list[str]:
    listed = [name for suite in builtin_suites().values() for name in suite]
    order = dict.fromkeys([*listed, *plugins.tasks.names(), *sorted(names)])
    return [name for name in order if name in names]


def _column(name: str, plugins: Plugins, results: Sequence[Result]) -> Column:
    suite = next((suite for suite, members in builtin_suites().items() if name in members), "")
    own = [result for result in results if result.task == name]
    metric = ", ".join(sorted({result.main_metric for result in own}))
    if name in plugins.tasks:
        task = plugins.tasks[name]
        return Column(name, task.title, suite, task.level, tuple(task.languages), metric or task.main_metric)
    level = str(own[0].cell.get("level", "")) if own else ""
    return Column(name, name, suite, level, (), metric)


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
