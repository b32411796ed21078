"""Comparison of encoders, BM25 and their fusions with the first encoder, by the items of stored results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mirrorbench.own_data.measures import RETRIEVAL
from mirrorbench.reports.comparable import tuned_with_one_seed
from mirrorbench.reports.statistics.comparisons import Comparisons
from mirrorbench.reports.statistics.estimates import holm
from mirrorbench.reports.statistics.items import ItemScores, influence, item_scores
from mirrorbench.reports.table import Row, Score
from mirrorbench.runs.results import hidden_id, read_predictions

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.comparable import Stored
    from mirrorbench.reports.statistics.comparisons import Comparison
    from mirrorbench.reports.table import Table, Unseen

POWER = 0.8
"""Probability with which a difference is to be detected, for the number of items that it needs."""
SIGNIFICANT = 0.05
BM25 = "BM25"
"""Spec of the row of BM25."""
FUSED = " and BM25"
"""Suffix of an encoder's spec for the row of its fusion with BM25."""


class Answer(NamedTuple):
    """A comparison with the first encoder on one task, and its p-value, corrected for all like it (Holm).

    ``row`` is an encoder's spec, a spec with ``FUSED`` behind it, or ``BM25``.
    """

    row: str
    task: str
    comparison: Comparison
    p: float | None
    n_answers: int
    """Number of answers for which p is corrected, this one included."""
    unseen: Unseen | None = None
    """The difference on the items without a text that an encoder was tuned on; ``None`` where that is all."""
    this_model: bool = False
    """Whether an encoder was tuned with one seed, so that the verdict is about that model."""

    @property
    def verdict(self) -> str:
        """Verdict on the row: ``better``, ``worse`` or ``not separable``."""
        if self.p is None or self.p >= SIGNIFICANT:
            return "not separable"
        return "better" if self.comparison.difference > 0 else "worse"

    @property
    def items_needed(self) -> int | None:
        """Number of items that detect this difference with a power of .8; ``None`` if it is 0 or undefined.

        At the level that is left by the correction for all answers, in its strictest step: .05 over their number.
        """
        from scipy.stats import norm

        difference, error = self.comparison.difference, self.comparison.estimate.error
        if not difference or not error > 0:
            return None
        level = SIGNIFICANT / self.n_answers
        errors = float(
            norm.ppf(POWER) + norm.ppf(1 - level / 2)
        )  # of a difference that is detected
        return ceil(self.comparison.n * (errors * error / difference) ** 2)


class Change(NamedTuple):
    """An item, with its score and predictions by the first encoder (before) and by another (now)."""

    item: str
    before: float
    now: float
    predictions_before: Sequence[Any]
    predictions_now: Sequence[Any]


class Evaluation:
    """Results of encoders on own data, by item.

    Args:
        stored: the results with their paths, each encoder with one seed.
        encoders: specs of the encoders, the first of which all others are compared with.
        baselines: specs of untrained rows, which are compared with the first encoder too.
        ids: ids of the scored items, by the name of the data.
        plugins: plugins with the metrics.
    """

    def __init__(
        self,
        stored: Iterable[Stored],
        encoders: Sequence[str],
        baselines: Sequence[str],
        ids: Mapping[str, Sequence[str]],
        plugins: Plugins,
    ) -> None:
        self.encoders, self.baselines, self.tasks, self.plugins = (
            encoders,
            baselines,
            list(ids),
            plugins,
        )
        hidden = {task: {hidden_id(item): item for item in items} for task, items in ids.items()}
        self.items: dict[tuple[str, str], ItemScores] = {}
        self._predictions: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._tuned: set[str] = set()
        for result, path in stored:
            if tuned_with_one_seed([result]):
                self._tuned.add(result.spec)
            arrays = {**read_predictions(path, result)}
            # Results may have been stored with and without MIRRORBENCH_NO_TEXTS.
            arrays["ids"] = np.array(
                [hidden[result.task].get(item, item) for item in arrays["ids"].tolist()]
            )
            if (items := item_scores(result, arrays, plugins)) is None:
                continue
            if result.main_metric in RETRIEVAL:
                items = replace(items, statistic="mean")
            self.items[result.spec, result.task] = items
            self._predictions[result.spec, result.task] = dict(
                zip(items.ids, arrays.get("found", [()] * len(items.ids)), strict=True)
            )
            for prefix, row in (("fused_", f"{result.spec}{FUSED}"), ("bm25_", BM25)):
                if (values := arrays.get(prefix + result.main_metric)) is not None:
                    overlap = None if row == BM25 else items.overlap
                    self.items[row, result.task] = replace(
                        items, values=values.astype(np.float64), overlap=overlap
                    )

    def answers(self) -> list[Answer]:
        """Return the answers on the other encoders and on untrained rows; p-values are corrected within each group."""
        first, *compared = self.encoders
        return [
            *self._answers(first, compared),
            *self._answers(first, [*self.baselines, BM25, first + FUSED]),
        ]

    def _answers(self, first: str, rows: Sequence[str]) -> list[Answer]:
        seeds = Comparisons({key: {0: items} for key, items in self.items.items()}, self.plugins)
        comparisons = [
            (row, task, seeds.compare(row, first, [task])) for row, task in self.compared(rows)
        ]
        corrected = holm([comparison.p for *_, comparison in comparisons])
        return [
            Answer(
                row,
                task,
                comparison,
                p,
                len(comparisons),
                seeds.compare_unseen(row, first, [task]),
                bool({row.removesuffix(FUSED), first} & self._tuned),
            )
            for (row, task, comparison), p in zip(comparisons, corrected, strict=True)
        ]

    def compared(self, rows: Sequence[str]) -> list[tuple[str, str]]:
        """Return the pairs of row and data for which both the row and the first encoder have scores."""
        first = self.encoders[0]
        return [
            (row, task)
            for row in rows
            for task in self.tasks
            if {(row, task), (first, task)} <= {*self.items}
        ]

    def table(self, table: Table, labels: Mapping[str, str], titles: Mapping[str, str]) -> Table:
        """Return a table with labels of rows and titles of data, and each encoder's fusion with BM25 below it."""
        columns = tuple(
            replace(column, title=titles.get(column.name, column.title)) for column in table.columns
        )
        table, rows = replace(table, columns=columns), list[Row]()
        for row in table.rows:
            row = replace(row, label=labels.get(row.spec, row.label))
            rows.append(
                row if row.spec else replace(row, spec=BM25, scores=self._scores(BM25, table))
            )
            if any(scores := self._scores(f"{row.spec}{FUSED}", table)):
                rows.append(Row(f"{row.label}{FUSED}", f"{row.spec}{FUSED}", scores))
        table = replace(table, rows=tuple(rows), verdicts=())  # answers replace them
        if len({column.metric for column in table.columns if not column.average_of}) == 1:
            return table
        kept = [
            index for index, column in enumerate(table.columns) if not column.average_of
        ]  # averages mix metrics
        rows = [replace(row, scores=tuple(row.scores[index] for index in kept)) for row in rows]
        return replace(
            table, rows=tuple(rows), columns=tuple(table.columns[index] for index in kept)
        )

    def _scores(self, row: str, table: Table) -> tuple[Score | None, ...]:
        """The scores of a row of means, in the order of the columns; averages if no score is missing."""
        means = {
            task: items.values.mean() for (spec, task), items in self.items.items() if spec == row
        }
        parts = [column.average_of or (column.name,) for column in table.columns]
        return tuple(
            Score(float(np.mean([means[name] for name in names])), None, 1)
            if {*names} <= means.keys()
            else None
            for names in parts
        )

    def changes(self, encoder: str, task: str, n: int) -> tuple[list[Change], list[Change]]:
        """Return the items that gained and that lost most against the first encoder, at most ``n`` of each.

        The gain of an item is that of its influence on the score; if the score is a mean, that of its own score.
        """
        rows = [(encoder, task), (self.encoders[0], task)]
        now, before = (self.items[row] for row in rows)
        if now.statistic == "macro_f1":  # its values are indices of labels
            now, before = (
                replace(x, statistic="mean", values=(x.values == x.gold) * 1.0)
                for x in (now, before)
            )
        influences = (
            x.values if x.statistic == "mean" else influence(replace(x, shared=None), self.plugins)
            for x in (now, before)
        )
        gains = np.subtract(*influences)
        order = np.argsort(-gains, kind="stable")

        def change(row: int) -> Change:
            item = now.ids[row]
            predictions = (self._predictions[key].get(item, ()) for key in reversed(rows))
            return Change(item, float(before.values[row]), float(now.values[row]), *predictions)

        return (
            [change(row) for row in order[:n] if gains[row] > 0],
            [change(row) for row in order[::-1][:n] if gains[row] < 0],
        )
