"""Tables as values: rows of encoders, columns of tasks, a score in each cell. No text is made here.

Averages are taken over values; a missing cell is missing, and so is the average of a row that lacks one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorbench.backbones import label as backbone_label
from mirrorbench.cells import Failure
from mirrorbench.specs import EncoderSpec, parse_spec
from mirrorbench.store import Result

if TYPE_CHECKING:
    from mirrorbench.plugins import Plugins

AVERAGE = "avg."
DIGITS = 3
"""Digits after the point, as the papers print; two scores equal to this many digits share their rank."""


@dataclass(frozen=True, slots=True)
class Score:
    """One cell of a table.

    Attributes:
        mean: over seeds.
        sd: sample standard deviation over seeds; ``None`` for a single one.
        n: number of seeds.
        cell_ids: the results behind it.
    """

    mean: float
    sd: float | None
    n: int
    cell_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the task's name and its head."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row: how it is called, its spec, and its scores in the order of the columns (``None``: missing)."""

    label: str
    spec: str
    scores: tuple[Score | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A leaderboard.

    Attributes:
        title: one line.
        columns: tasks, then the average where there is more than one task.
        rows: encoders.
        notes: provenance and caveats, one line each.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def ranks(self) -> list[list[int]]:
        """For each row and column 1 for the best score, 2 for the second best, 0 for all others and for missing ones.

        Scores that are printed alike share a rank. A column with a single score ranks nothing.
        """
        marks = [[0] * len(self.columns) for _ in self.rows]
        for column in range(len(self.columns)):
            shown = [round(s.mean, DIGITS) if (s := row.scores[column]) else None for row in self.rows]
            values = sorted({value for value in shown if value is not None}, reverse=True)
            if sum(value is not None for value in shown) > 1:
                for row, value in enumerate(shown):
                    if value is not None and value in values[:2]:
                        marks[row][column] = values.index(value) + 1
        return marks


def build_table(
    results: Iterable[Result],
    plugins: Plugins,
    tasks: Sequence[str] = (),
    rows: Sequence[EncoderSpec] = (),
    failures: Sequence[Failure] = (),
    title: str = "",
) -> Table:
    """A table of the main scores.

    Args:
        results: any number of results.
        plugins: for the heads of the columns.
        tasks: columns and their order; by default every task in the results, in the order in which they are registered.
        rows: rows and their order; by default every encoder in the results, in the order in which they come. Where the
            results hold several protocols, each encoder has a row for each: they are different experiments.
        failures: noted below the table.
        title: one line.
    """
    results = list(results)
    by_cell: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        by_cell.setdefault((result.spec, result.protocol, result.task), []).append(result)
    names = list(tasks) or _in_registry_order({result.task for result in results}, plugins)
    protocols = list(dict.fromkeys(result.protocol for result in results)) or [""]
    specs = [(str(row), protocol) for row in rows for protocol in protocols]
    specs = specs or list(dict.fromkeys((result.spec, result.protocol) for result in results))
    columns = [Column(name, plugins.tasks[name].title if name in plugins.tasks else name) for name in names]
    table_rows = []
    for spec, protocol in specs:
        cells = [by_cell.get((spec, protocol, name), []) for name in names]
        scores = [_score({r.seed: r.main_score for r in cell}, cell) for cell in cells]
        if len(names) > 1:
            scores.append(_average(cells))
        label = row_label(parse_spec(spec), plugins) + (f" [{protocol}]" if len(protocols) > 1 else "")
        table_rows.append(Row(label, spec, tuple(scores)))
    if len(names) > 1:
        columns.append(Column(AVERAGE, AVERAGE))
    return Table(title, tuple(columns), tuple(table_rows), tuple(_notes(results, plugins, failures)))


def row_label(spec: EncoderSpec, plugins: Plugins) -> str:
    """How the papers call a row: ``BERT-CLS``, ``BERT-mp``, ``BERT + Mirror (drophead=0.05)``."""
    name, shown = backbone_label(spec), ""
    if spec.method == "base":
        pooling = str(spec.get("pooling", "mean"))
        name += {"cls": "-CLS", "mean": "-mp"}.get(pooling, f"-{pooling}")
        shown = "pooling"
    elif spec.method in plugins.methods:
        name = plugins.methods[spec.method].label.format(backbone=name, method=spec.method)
    rest = [f"{key}={value}" for key, value in spec.params if key != shown]
    return f"{name} ({', '.join(rest)})" if rest else name


def _in_registry_order(names: set[str], plugins: Plugins) -> list[str]:
    known = [name for name in plugins.tasks.names() if name in names]
    return known + sorted(names - set(known))


def _score(values: dict[int, float | None], cells: Sequence[Result]) -> Score | None:
    defined = [value for value in values.values() if value is not None]
    if not defined or len(defined) < len(values):
        return None
    sd = statistics.stdev(defined) if len(defined) > 1 else None
    return Score(statistics.fmean(defined), sd, len(defined), tuple(r.cell_id for r in cells))


def _average(cells: Sequence[Sequence[Result]]) -> Score | None:
    """The mean over tasks within each seed, then over seeds."""
    by_seed = [{r.seed: r.main_score for r in cell} for cell in cells]
    if not all(by_seed):
        return None
    seeds = sorted(set().union(*by_seed))
    averages: dict[int, float | None] = {}
    for seed in seeds:
        values = [scores.get(seed) for scores in by_seed]
        averages[seed] = None if None in values else statistics.fmean(v for v in values if v is not None)
    return _score(averages, [r for cell in cells for r in cell])


def _notes(results: Sequence[Result], plugins: Plugins, failures: Sequence[Failure]) -> list[str]:
    notes = []
    metrics = {r.main_metric for r in results}
    seeds = max((len({x.seed for x in results if x.spec == r.spec}) for r in results), default=1)
    for names, what in ((metrics, "Metric"), ({r.protocol for r in results}, "protocol")):
        if names:
            notes.append(f"{what}: {', '.join(sorted(names))}")
    precisions = {str(r.cell["precision"]["encoding"]) for r in results}
    if precisions:
        notes.append(f"precision: {', '.join(sorted(precisions))}")
    if seeds > 1:
        notes.append(f"± sample standard deviation over {seeds} seeds")
    head = ["; ".join(notes) + "."] if notes else []
    corpora = {
        f"{r.cell['corpus']['name']} ({r.cell['corpus']['n']:,} strings)" for r in results if r.cell.get("corpus")
    }
    if corpora:
        head.append(f"Tuned on: {', '.join(sorted(corpora))}.")
    head += sorted({f"{r.task}: {note}" for r in results for note in r.notes})
    return head + [f"missing: {f.spec} on {f.task}: {f.reason.splitlines()[0]}" for f in failures]
