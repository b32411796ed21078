"""The evaluation of ``mirrorbench evaluate``: verdicts on encoders, BM25 and their fusions, and items that changed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mirrorbench.own_data.clustering import majority_labels
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
"""Probability with which ``items_needed`` items detect a difference."""
BM25 = "BM25"
"""Spec of the row of BM25."""
FUSED = " and BM25"
"""Suffix of an encoder's spec, and of its label, for the row of its fusion with BM25."""


def items_needed(verdict: Verdict) -> int | None:
    """Return the number of items that would detect a difference of this size with a power of .8.

    ``None`` if the difference is 0 or undefined, or the encoders were shown to be equal. The level is that of the
    strictest step of the correction for all tests: .05 over their number.
    """
    from scipy.stats import norm

    if not verdict.difference or not verdict.error or verdict.answer == "equal":
        return None
    level = (1 - LEVEL) / verdict.n_tests
    # A difference of so many standard errors is detected with this power.
    n_errors = float(norm.ppf(POWER) + norm.ppf(1 - level / 2))
    return ceil(verdict.n * (n_errors * verdict.error / verdict.difference) ** 2)


class Change(NamedTuple):
    """An item, with its score and predictions by the first encoder (before) and by another (now)."""

    item: str
    before: float
    now: float
    predictions_before: Sequence[Any]
    predictions_now: Sequence[Any]


class Changes(NamedTuple):
    """The items whose scores changed most from the first encoder to another."""

    gained: list[Change]
    """Those that gained, the largest gain first."""
    lost: list[Change]
    """Those that lost, the largest loss first."""


@dataclass(frozen=True)
class OwnItems:
    """Scores and predictions of each item in stored results on own data.

    Attributes:
        by_cell_id: the scores of each result, by its cell id.
        bm25_items: the scores of BM25 and of fusions with it, which have no result of their own, by spec and task.
        predictions: the predictions for each item, by spec and task.
    """

    by_cell_id: dict[str, ItemScores] = field(default_factory=dict)
    bm25_items: dict[tuple[str, str], ItemScores] = field(default_factory=dict)
    predictions: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(
        cls, stored: Iterable[Stored], plugins: Plugins, flags: Mapping[str, Mapping[str, int]]
    ) -> OwnItems:
        """Read the scores and predictions of the items of results; results without scores of items are left out.

        Args:
            stored: the results.
            plugins: plugins with the metrics.
            flags: for each task, how each item, by its stored id, overlaps with texts that encoders were tuned on.
        """
        own_items = cls()
        for entry in stored:
            result = entry.result
            arrays = entry.predictions()
            items = item_scores(result, arrays, plugins)
            if items is None:
                continue
            # The overlap with texts that the encoder itself was tuned on is in the result, and takes precedence.
            if items.overlap is None and result.task in flags:
                task_flags = flags[result.task]
                overlap = np.array([task_flags[item] for item in items.ids], np.int8)
                items = replace(items, overlap=overlap)
            own_items.by_cell_id[result.cell_id] = items
            # Tasks that store no predictions have an empty one for each item.
            predictions = arrays.get("found", [()] * len(items.ids))
            own_items.predictions[result.spec, result.task] = dict(
                zip(items.ids, predictions, strict=True)
            )
            # Results of retrieval and reranking also hold the scores of BM25 and of the fusion with it.
            fusion_spec = f"{result.spec}{FUSED}"
            for prefix, spec in (("fused_", fusion_spec), ("bm25_", BM25)):
                values = arrays.get(prefix + result.main_metric)
                if values is not None:
                    own_items.bm25_items[spec, result.task] = replace(
                        items,
                        values=values.astype(np.float64),
                        # BM25 was tuned on nothing.
                        overlap=None if spec == BM25 else items.overlap,
                        # The score of the encoder's items, which is not theirs.
                        score=None,
                    )
        return own_items


class Evaluation:
    """Encoders compared with the first one on own data.

    Args:
        stored: the results; each encoder has one seed.
        plan: the plan of the results.
        failures: the cells without a result.
        encoders: specs of the encoders; the first is the one that all others are compared with.
        data: the data sets, by their names as tasks.
        plugins: plugins with the metrics.
        tuned_on: the overlap of data sets, by name, with texts that encoders were tuned on elsewhere.
        equality: the test of equality within a margin; ``None`` for no test.
        computed: cell ids of the results that were computed in this run.

    Attributes:
        leaderboard: results, failures, and the table, with a verdict on each other row for each data set.
        encoders: specs of the encoders, the first one first.
        labels: labels of all rows, by spec.
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

        flags = {task: _overlap_flags(contamination) for task, contamination in tuned_on.items()}
        self._items = OwnItems.read(stored, plugins, flags)
        results = tuple(entry.result for entry in stored)
        table = build_table(
            results, plugins, plan.tasks, plan.rows, failures, plan.title, plan.names
        )
        table = _with_headings(table, data)
        table = _with_bm25(table, self._items.bm25_items)

        # BM25 and its fusions have no seeds; their scores are filed under seed 0, the only one that encoders have here.
        self._seeds: dict[tuple[RowKey, str], Seeds] = seeds_of_rows(table, self._items.by_cell_id)
        for row in table.rows:
            for task in plan.tasks:
                items = self._items.bm25_items.get((row.spec, task))
                if items is not None:
                    self._seeds[row.key, task] = {0: items}
        # The others are compared with the first encoder.
        tests, families = self._tests(table, stored)
        verdicts = TableTests(table, self._seeds, plugins).verdicts(tests, families)
        table = with_verdicts(table, verdicts)

        self.leaderboard = Leaderboard(table, results, tuple(failures), plugins)
        self.labels = {row.spec: row.label for row in table.rows}
        self.in_use: dict[str, InUse] = {}
        for spec in encoders:
            encoder_results = [result for result in results if result.spec == spec]
            if encoder_results:
                self.in_use[spec] = InUse.of(encoder_results, computed)

    @property
    def encoder_verdicts(self) -> list[Verdict]:
        """The verdicts on the other encoders; verdicts on BM25, fusions and baselines are left out."""
        others = self.encoders[1:]
        return [verdict for verdict in self.leaderboard.table.verdicts if verdict.spec in others]

    def is_scored(self, spec: str, task: str) -> bool:
        """Return whether a row has scores of the items of a task."""
        rows = [row for row in self.leaderboard.table.rows if row.spec == spec]
        return any((row.key, task) in self._seeds for row in rows)

    def _tests(self, table: Table, stored: Sequence[Stored]) -> tuple[list[Verdict], list[str]]:
        """Return what to test against the first encoder, as verdicts without an answer, and the family of each verdict.

        The other encoders form one family; baselines, BM25, and its fusion with the first encoder form another. Other
        fusions are not tested.
        """
        first = self.encoders[0]
        results = by_row_and_task([entry.result for entry in stored])
        rows = {row.spec: row for row in table.rows}
        # Without results of the first encoder there is nothing to compare with.
        if first not in rows:
            return [], []
        protocol = rows[first].protocol
        baselines = [
            spec
            for spec in rows
            if spec not in self.encoders and not spec.endswith(FUSED) and spec != BM25
        ]
        specs_by_family = {
            "encoders": self.encoders[1:],
            "other rows": [*baselines, BM25, f"{first}{FUSED}"],
        }
        verdicts: list[Verdict] = []
        families: list[str] = []
        for family, specs in specs_by_family.items():
            for spec in specs:
                if spec not in rows:
                    continue
                for column in table.task_columns:
                    task = column.name
                    if not self._are_scored(rows[spec], rows[first], task):
                        continue
                    verdict = Verdict(spec, first, protocol, task, equality=self._equality)
                    compared_results = []
                    for compared_spec in (spec, first):
                        # A fusion has the results of its encoder; BM25 has none.
                        encoder = compared_spec.removesuffix(FUSED)
                        row_results = results.get(((encoder, protocol), task))
                        if row_results:
                            compared_results.append(row_results)
                    results_by_task = [compared_results]  # of one task
                    verdicts.append(with_caveats(verdict, results_by_task))
                    families.append(family)
        return verdicts, families

    def _are_scored(self, row: Row, first: Row, task: str) -> bool:
        """Return whether both a row and the first encoder's row have scores of the items of a task."""
        return (row.key, task) in self._seeds and (first.key, task) in self._seeds

    def changes(self, verdict: Verdict, n: int) -> Changes:
        """Return the items that gained and that lost most from the first encoder to another.

        If the score of the task is a mean, items are compared by their own scores, else by their influence on it.

        Args:
            verdict: the verdict on another encoder, on one task.
            n: the largest number of items that gained, and of items that lost.
        """
        task = verdict.column
        row, first_row = self.leaderboard.table.rows_of(verdict)
        # The items of each seed, for both encoders: those that both have, in one order.
        both_seeds = [self._seeds[row.key, task], self._seeds[first_row.key, task]]
        seeds, first_seeds = common_items(with_same_ids(both_seeds))
        # Encoders are evaluated with one seed, 0.
        now = _with_answers(seeds[0])
        before = _with_answers(first_seeds[0])

        # Results may have been stored with MIRRORBENCH_NO_TEXTS, which hides the ids of items.
        data_set = self._data[task]
        ids_by_hidden_id = {hidden_id(item): item for item in data_set.task.texts(data_set.items)}
        predictions_now = self._predictions(row.spec, task, ids_by_hidden_id)
        predictions_before = self._predictions(first_row.spec, task, ids_by_hidden_id)

        gains = self._scores_or_influences(now) - self._scores_or_influences(before)
        # The largest gain first, the largest loss last.
        order = np.argsort(-gains, kind="stable")

        def change(index: int) -> Change:
            # An id that is not hidden is not among the hidden ones, and stays.
            stored_id = now.ids[index]
            item = ids_by_hidden_id.get(stored_id, stored_id)
            return Change(
                item,
                float(before.values[index]),
                float(now.values[index]),
                predictions_before.get(item, ()),
                predictions_now.get(item, ()),
            )

        gained = [change(index) for index in order[:n] if gains[index] > 0]
        lost = [change(index) for index in order[::-1][:n] if gains[index] < 0]
        return Changes(gained, lost)

    def _predictions(
        self, spec: str, task: str, ids_by_hidden_id: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return what a row predicted for each item, by the item's id in the data, even if the result hides it."""
        predictions = self._items.predictions.get((spec, task), {})
        return {
            ids_by_hidden_id.get(item, item): prediction for item, prediction in predictions.items()
        }

    def _scores_or_influences(self, items: ItemScores) -> Any:
        """Return the scores of items if the task's score is their mean, else their influence on it."""
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
    """Compute the results of a plan, and compare its encoders with the first one.

    Args:
        plan: the plan, from ``planning.evaluation_plan``.
        rows: specs of the encoders by name, from ``planning.specs_by_name``.
        data: the data sets by name.
        plugins: the registered tasks, metrics and methods.
        folders: the folders of results, data and cache.
        compute: device and executor.
        reporter: receives progress and notes.
        tuned_on: the overlap of each data set with texts that encoders were tuned on elsewhere.
        equality: the test of equality within a margin; ``None`` for no test.
    """
    from mirrorbench.pipeline import execute_plan
    from mirrorbench.reports.comparable import stored_results

    outcome = execute_plan(plan, plugins, folders, compute, reporter)
    return Evaluation(
        stored_results(outcome, plan, folders.results),
        plan,
        outcome.failures,
        [str(spec) for spec in rows.values()],
        data,
        plugins,
        tuned_on=tuned_on,
        equality=equality,
        computed=outcome.predictions,
    )


def _overlap_flags(contamination: Contamination) -> dict[str, int]:
    """Return the overlap of each item by its id, and by its hidden id in results that are stored without texts."""
    hidden = {hidden_id(item): flag for item, flag in contamination.overlaps.items()}
    return {**hidden, **contamination.overlaps}


def _with_answers(items: ItemScores) -> ItemScores:
    """Return items whose values are right (1) or wrong (0), if they are indices of labels or clusters; others as given.

    For clusters, the value is the share of seeds in which most of the item's cluster have its label.
    """
    if items.statistic == "macro_f1":
        return replace(items, statistic=MEAN, values=(items.values == items.gold) * 1.0)
    if items.statistic == CLUSTERS:
        labels = items.gold.astype(np.intp)
        is_right = [
            majority_labels(clusters, labels) == labels
            for clusters in items.values.T.astype(np.intp)
        ]
        return replace(items, statistic=MEAN, values=np.mean(is_right, axis=0))
    return items


def _with_headings(table: Table, data: Mapping[str, Data]) -> Table:
    """Return the table with the headings of the data sets, without averages if they would mix several metrics."""
    columns = []
    for column in table.columns:
        if column.name in data:
            column = replace(column, title=data[column.name].heading)
        columns.append(column)
    indices = list(range(len(columns)))
    if len({column.metric for column in table.task_columns}) > 1:
        indices = [index for index in indices if not columns[index].average_of]
    rows = []
    for row in table.rows:
        scores = tuple(row.scores[index] for index in indices)
        rows.append(replace(row, scores=scores))
    return replace(table, columns=tuple(columns[index] for index in indices), rows=tuple(rows))


def _with_bm25(table: Table, bm25_items: Mapping[tuple[str, str], ItemScores]) -> Table:
    """Return the table with scores and a spec in the row of BM25, and a row for each encoder's fusion with BM25."""
    protocol = next((row.protocol for row in table.rows if row.spec), "")
    bm25_scores = _mean_scores(BM25, table, bm25_items)
    rows: list[Row] = []
    for row in table.rows:
        # BM25 is the only row of a baseline, which has no spec.
        if not row.spec:
            row = replace(row, spec=BM25, protocol=protocol, scores=bm25_scores)
        rows.append(row)
        fused = f"{row.spec}{FUSED}"
        fused_scores = _mean_scores(fused, table, bm25_items)
        if any(fused_scores):
            rows.append(Row(f"{row.label}{FUSED}", fused, fused_scores, protocol=protocol))
    return replace(table, rows=tuple(rows))


def _mean_scores(
    spec: str, table: Table, bm25_items: Mapping[tuple[str, str], ItemScores]
) -> tuple[Score | None, ...]:
    """Return the mean of a row's items for each column; ``None`` for a column if a task of it is missing."""
    means: dict[str, float] = {}
    for (row_spec, task), items in bm25_items.items():
        if row_spec == spec:
            means[task] = items.values.mean()
    scores: list[Score | None] = []
    for column in table.columns:
        values = [means[task] for task in column.tasks if task in means]
        if len(values) == len(column.tasks):
            scores.append(Score(float(np.mean(values)), None, 1))
        else:
            scores.append(None)
    return tuple(scores)
