"""Verdicts of ``mirrorbench evaluate`` on encoders, BM25 and their fusions; items needed, and items that changed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mirrorbench.own_data.clustering import labels_of_most
from mirrorbench.own_data.in_use import InUse
from mirrorbench.reports.leaderboard import Leaderboard, build_table
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.influence import influence
from mirrorbench.reports.statistics.items import (
    CLUSTERS,
    MEAN,
    ItemScores,
    common_items,
    item_scores,
    with_same_ids,
)
from mirrorbench.reports.statistics.steps import by_row_and_task, with_caveats
from mirrorbench.reports.statistics.verdicts import TableTests, seeds_of_rows, with_verdicts
from mirrorbench.reports.table import Equality, Row, Score, Table, Verdict
from mirrorbench.storage.results import hidden_id

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.data.corpora import Contamination
    from mirrorbench.own_data.planning import Data
    from mirrorbench.reports.comparable import Stored
    from mirrorbench.reports.statistics.comparisons import RowKey, Seeds
    from mirrorbench.runs.compute import Compute
    from mirrorbench.runs.folders import Folders
    from mirrorbench.runs.outcomes import Failure, Reporter
    from mirrorbench.runs.plan import Plan

POWER = 0.8
"""Probability with which a difference is to be detected, for the number of items that it needs."""
BM25 = "BM25"
"""Spec of the row of BM25."""
FUSED = " and BM25"
"""Suffix of an encoder's spec, and of its label, for the row of its fusion with BM25."""


def items_needed(verdict: Verdict) -> int | None:
    """Return the number of items that detect this difference with a power of .8; ``None`` if it is 0 or undefined.

    At the level that is left by the correction for all tests, in its strictest step: .05 over their number.
    """
    from scipy.stats import norm

    if not verdict.difference or not verdict.error or verdict.answer == "equal":
        return None
    level = (1 - LEVEL) / verdict.n_tests
    # The distance of a difference that is detected from 0, in standard errors.
    distance = float(norm.ppf(POWER) + norm.ppf(1 - level / 2))
    return ceil(verdict.n * (distance * verdict.error / verdict.difference) ** 2)


class Change(NamedTuple):
    """An item, with its score and predictions by the first encoder (before) and by another (now)."""

    item: str
    before: float
    now: float
    predictions_before: Sequence[Any]
    predictions_now: Sequence[Any]


@dataclass(frozen=True)
class OwnItems:
    """What stored results on own data hold of each item.

    Attributes:
        by_result: the items by cell id.
        beside: those of other rows, by spec and task: ``BM25``, and fusions with it.
        predictions: what was predicted for each item, by spec and task.
    """

    by_result: dict[str, ItemScores] = field(default_factory=dict)
    beside: dict[tuple[str, str], ItemScores] = field(default_factory=dict)
    predictions: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(
        cls, stored: Iterable[Stored], plugins: Plugins, flags: Mapping[str, Mapping[str, int]]
    ) -> OwnItems:
        """Read the predictions of results once, or take them from memory.

        Args:
            stored: the results.
            plugins: plugins with the metrics.
            flags: by task the overlap of each item, by its stored id, with texts that encoders were tuned on elsewhere.
        """
        own = cls()
        for entry in stored:
            result, arrays = entry.result, entry.predictions()
            items = item_scores(result, arrays, plugins)
            if items is None:
                continue
            if items.overlap is None and result.task in flags:
                known = flags[result.task]
                items = replace(items, overlap=np.array([known[i] for i in items.ids], np.int8))
            own.by_result[result.cell_id] = items
            found = arrays.get("found", [()] * len(items.ids))
            own.predictions[result.spec, result.task] = dict(zip(items.ids, found, strict=True))
            for prefix, spec in (("fused_", f"{result.spec}{FUSED}"), ("bm25_", BM25)):
                values = arrays.get(prefix + result.main_metric)
                if values is not None:
                    overlap = None if spec == BM25 else items.overlap
                    own.beside[spec, result.task] = replace(
                        items, values=values.astype(np.float64), overlap=overlap, score=None
                    )
        return own


class Evaluation:
    """Encoders compared with the first one on own data.

    Args:
        stored: the results, each encoder with one seed.
        plan: their plan.
        failures: cells without a result.
        encoders: specs of the encoders, the first of which all others are compared with.
        data: the data, by their names as tasks.
        plugins: plugins with the metrics.
        tuned_on: the overlap of data, by name, with texts that encoders were tuned on elsewhere.
        equality: with the margin within which encoders are tested to be equal.
        computed: cell ids of the results that were computed in this run.

    Attributes:
        leaderboard: the table, with a verdict on each other row and data; the results; the failures.
        encoders: as given.
        labels: of all rows, by spec.
        in_use: speed, size of vectors and share of cut texts of the encoders that have results, by spec.
    """

    def __init__(
        self,
        stored: Sequence[Stored],
        plan: Plan,
        failures: Sequence[Failure],
        encoders: Sequence[str],
        data: Mapping[str, Data],
        plugins: Plugins,
        tuned_on: Mapping[str, Contamination] = MappingProxyType({}),
        equality: Equality | None = None,
        computed: Container[str] = (),
    ) -> None:
        self.encoders = encoders
        self._data = data
        self._plugins = plugins
        self._equality = equality
        flags = {
            task: {hidden_id(item): flag for item, flag in seen.overlaps.items()}
            | {**seen.overlaps}
            for task, seen in tuned_on.items()
        }
        self._items = OwnItems.read(stored, plugins, flags)
        results = tuple(entry.result for entry in stored)
        table = build_table(
            results, plugins, plan.tasks, plan.rows, failures, plan.title, plan.names
        )
        table = _with_bm25(_titled(table, data), self._items.beside)
        self._seeds: dict[tuple[RowKey, str], Seeds] = seeds_of_rows(table, self._items.by_result)
        for row in table.rows:
            for task in plan.tasks:
                items = self._items.beside.get((row.spec, task))
                if items is not None:
                    self._seeds[row.key, task] = {0: items}
        verdicts = TableTests(table, self._seeds, plugins).verdicts(*self._tests(table, stored))
        table = with_verdicts(table, verdicts)
        self.leaderboard = Leaderboard(table, results, tuple(failures), plugins)
        self.labels = {row.spec: row.label for row in table.rows}
        self.in_use = {
            spec: InUse.of(own, computed)
            for spec in encoders
            if (own := [result for result in results if result.spec == spec])
        }

    @property
    def on_encoders(self) -> list[Verdict]:
        """The verdicts on the other encoders, without untrained rows."""
        others = self.encoders[1:]
        return [verdict for verdict in self.leaderboard.table.verdicts if verdict.spec in others]

    def is_scored(self, spec: str, task: str) -> bool:
        """Return whether a row has a score on a task that its items yield."""
        return any(
            row.spec == spec and (row.key, task) in self._seeds
            for row in self.leaderboard.table.rows
        )

    def _tests(self, table: Table, stored: Sequence[Stored]) -> tuple[list[Verdict], list[str]]:
        """The verdicts to test, and their families: other encoders, and untrained rows.

        Of the fusions only that of the first encoder is tested.
        """
        first = self.encoders[0]
        results = by_row_and_task([entry.result for entry in stored])
        rows = {row.spec: row for row in table.rows}
        if first not in rows:
            return [], []
        untrained = [
            spec
            for spec in rows
            if spec not in self.encoders and not spec.endswith(FUSED) and spec != BM25
        ]
        families = {
            "encoders": self.encoders[1:],
            "untrained rows": [*untrained, BM25, f"{first}{FUSED}"],
        }
        steps: list[Verdict] = []
        names: list[str] = []
        for family, specs in families.items():
            for spec in specs:
                for column in table.task_columns:
                    if spec not in rows or not self._has_both(rows[spec], rows[first], column.name):
                        continue
                    step = Verdict(
                        spec, first, rows[first].protocol, column.name, equality=self._equality
                    )
                    sides = [
                        results.get(((of.removesuffix(FUSED), step.protocol), column.name), [])
                        for of in (spec, first)
                    ]
                    # BM25 has no results of its own.
                    steps.append(with_caveats(step, [[side for side in sides if side]]))
                    names.append(family)
        return steps, names

    def _has_both(self, row: Row, first: Row, task: str) -> bool:
        return (row.key, task) in self._seeds and (first.key, task) in self._seeds

    def changes(self, verdict: Verdict, n: int) -> tuple[list[Change], list[Change]]:
        """Return the items that gained and that lost most against the first encoder, at most ``n`` of each.

        The gain of an item is that of its influence on the score; if the score is a mean, that of its own score.

        Args:
            verdict: on another encoder and a task.
            n: the largest number.
        """
        task = verdict.column
        rows = self.leaderboard.table.rows_of(verdict)
        sides = with_same_ids([self._seeds[row.key, task] for row in rows])
        now, before = (seeds[0] for seeds in common_items(sides))
        # Results may have been stored with MIRRORBENCH_NO_TEXTS, which hides the names of items.
        own = self._data[task]
        names = {hidden_id(item): item for item in own.task.texts(own.items)}
        predictions_now, predictions_before = (
            {
                names.get(item, item): value
                for item, value in self._items.predictions.get((row.spec, task), {}).items()
            }
            for row in rows
        )
        now, before = _with_answers(now), _with_answers(before)
        gains = self._item_values(now) - self._item_values(before)
        order = np.argsort(-gains, kind="stable")

        def change(row: int) -> Change:
            item = names.get(now.ids[row], now.ids[row])
            return Change(
                item,
                float(before.values[row]),
                float(now.values[row]),
                predictions_before.get(item, ()),
                predictions_now.get(item, ()),
            )

        return (
            [change(row) for row in order[:n] if gains[row] > 0],
            [change(row) for row in order[::-1][:n] if gains[row] < 0],
        )

    def _item_values(self, items: ItemScores) -> Any:
        if items.statistic == MEAN:
            return items.values
        return influence(replace(items, shared=None), self._plugins)


def computed_evaluation(
    plan: Plan,
    rows: Mapping[str, EncoderSpec],
    data: Mapping[str, Data],
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
    tuned_on: Mapping[str, Contamination] = MappingProxyType({}),
    equality: Equality | None = None,
) -> Evaluation:
    """Compute a plan, and compare its encoders with the first one.

    Args:
        plan: of the encoders on the data: ``planning.evaluation_plan``.
        rows: specs of the encoders by their texts: ``planning.encoder_rows``.
        data: the data by name.
        plugins: all that is registered.
        folders: results, data and cache.
        compute: device and executor.
        reporter: receives progress and notes.
        tuned_on: overlap of each data with the texts that an encoder was tuned on.
        equality: a margin within which encoders are tested to be equal.
    """
    from mirrorbench.pipeline import execute_plan
    from mirrorbench.reports.comparable import stored_results

    outcome = execute_plan(plan, plugins, folders, compute, reporter)
    return Evaluation(
        stored_results(outcome, plan, folders.results),
        plan,
        outcome.failures,
        list(map(str, rows.values())),
        data,
        plugins,
        tuned_on,
        equality,
        outcome.predictions,
    )


def _with_answers(items: ItemScores) -> ItemScores:
    """The items with right (1) and wrong (0) answers in place of indices of labels and of clusters."""
    if items.statistic == "macro_f1":
        return replace(items, statistic=MEAN, values=(items.values == items.gold) * 1.0)
    if items.statistic == CLUSTERS:
        labels = items.gold.astype(np.intp)
        right = [
            labels_of_most(clusters, labels) == labels
            for clusters in items.values.T.astype(np.intp)
        ]
        return replace(items, statistic=MEAN, values=np.mean(right, axis=0))
    return items


def _titled(table: Table, data: Mapping[str, Data]) -> Table:
    """The table with titles of data and their scores; without averages, which would mix metrics, if there are several."""
    columns = [
        replace(column, title=data[column.name].heading) if column.name in data else column
        for column in table.columns
    ]
    kept = list(range(len(columns)))
    if len({column.metric for column in table.task_columns}) > 1:
        kept = [index for index in kept if not columns[index].average_of]
    rows = [replace(row, scores=tuple(row.scores[index] for index in kept)) for row in table.rows]
    return replace(table, columns=tuple(columns[index] for index in kept), rows=tuple(rows))


def _with_bm25(table: Table, beside: Mapping[tuple[str, str], ItemScores]) -> Table:
    """The table with a spec for the row of BM25, and each encoder's fusion with BM25 below the encoder."""
    protocol = next((row.protocol for row in table.rows if row.spec), "")
    rows: list[Row] = []
    for row in table.rows:
        if not row.spec:
            row = replace(row, spec=BM25, protocol=protocol, scores=_means(BM25, table, beside))
        rows.append(row)
        fused = f"{row.spec}{FUSED}"
        scores = _means(fused, table, beside)
        if any(scores):
            rows.append(Row(f"{row.label}{FUSED}", fused, scores, protocol=protocol))
    return replace(table, rows=tuple(rows))


def _means(
    spec: str, table: Table, items: Mapping[tuple[str, str], ItemScores]
) -> tuple[Score | None, ...]:
    """The scores of a row of means, in the order of the columns; averages if no score is missing."""
    means = {task: own.values.mean() for (of, task), own in items.items() if of == spec}
    scores: list[Score | None] = []
    for column in table.columns:
        values = [means[task] for task in column.tasks if task in means]
        complete = len(values) == len(column.tasks)
        scores.append(Score(float(np.mean(values)), None, 1) if complete else None)
    return tuple(scores)
