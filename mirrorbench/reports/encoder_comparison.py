"""What the comparison of two encoders found: on each task and on average, as objects, a table and rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import as_arguments
from mirrorbench.reports.leaderboard import data_frame
from mirrorbench.reports.renderers.numbers import number, p_words
from mirrorbench.reports.renderers.verdicts import (
    Names,
    column_phrase,
    margin_words,
    over_name,
    row_name,
    sentence,
)
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.reports.statistics.comparisons import Comparison
from mirrorbench.reports.statistics.verdicts import caveat_notes
from mirrorbench.reports.table import AVERAGE, Column, Row, Score, Table, Unseen, Verdict

if TYPE_CHECKING:
    import pandas as pd

    from mirrorbench.reports.statistics.comparisons import SeedMean


@dataclass(frozen=True)
class TaskComparison(Comparison):
    """Two encoders, A and B, on one task or on average.

    Attributes:
        task: its name; ``avg.`` for the average.
        metric: of the task; empty for the average.
        test: the verdict on A against B, as below a leaderboard.
    """

    task: str
    metric: str
    test: Verdict

    @property
    def corrected(self) -> float | None:
        """The p-value, corrected for ``test.n_tests`` tests."""
        return self.test.corrected

    @property
    def this_model(self) -> bool:
        """Whether an encoder was tuned with one seed, so that the verdict is about that model."""
        return self.test.this_model

    @property
    def unseen(self) -> Unseen | None:
        """The difference on the items without a text of a tuning corpus; ``None`` where that is all."""
        return self.test.unseen

    @property
    def verdict(self) -> str:
        """The better encoder, if the corrected p-value is significant, or that they are equal within the margin."""
        if self.test.answer in ("not tested", "not separable"):
            return self.test.answer
        answer = "A better" if self.test.answer == "better" else "B better"
        if self.test.answer == "equal" and self.test.equality:
            answer = f"equal within {margin_words(self.test.equality.margin)}"
        return f"{answer}{' (this model)' if self.this_model else ''}"


@dataclass(frozen=True, repr=False)
class EncoderComparison:
    """Two encoders, A and B.

    Example:
        >>> import mirrorbench
        >>> board = mirrorbench.run(["tiny+base:pooling=mean", "tiny+base:pooling=cls"], "quick-sts")
        >>> compared = mirrorbench.compare("tiny+base:pooling=mean", "tiny+base:pooling=cls")
        >>> compared.tasks[0].verdict
        'A better'

    Attributes:
        tasks: each comparable task.
        average: over several tasks; ``None`` for one.
        notes: on left-out results and corrections.
        rows: of A and B in a table.
        columns: of that table: the tasks, and their average.
        banner: of that table, such as that of a smoke run.
    """

    tasks: tuple[TaskComparison, ...]
    average: TaskComparison | None
    notes: tuple[str, ...]
    rows: tuple[Row, Row]
    columns: tuple[Column, ...]
    banner: str = ""

    @property
    def every(self) -> tuple[TaskComparison, ...]:
        """The tasks, and their average if there are several."""
        return (*self.tasks, *([self.average] if self.average else []))

    @property
    def table(self) -> Table:
        """A line for each task, as ``mirrorbench compare`` prints it."""
        first, second = self.rows
        return pair_table(self, f"A: {first.label}, B: {second.label}")

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each task and the average: scores, difference, interval, p-values, verdict.

        Raises:
            UsageError: pandas is not installed.
        """
        return data_frame(pair_rows(self))

    def __repr__(self) -> str:
        from mirrorbench.reports.renderers import markdown

        return as_arguments(markdown(self.table))

    def _repr_html_(self) -> str:
        from mirrorbench.reports.html import notebook

        return notebook(self.table)

    def sentences(self) -> list[str]:
        """Return the verdicts of ``every`` as sentences, as below a leaderboard."""
        first, second = self.rows
        columns = {column.name: column for column in self.columns}
        sentences = []
        for entry in self.every:
            best = entry.test.best and first.tuned
            row, over = row_name(first, self.rows), over_name(second, self.rows, best)
            if first.label == second.label:  # in two folders
                row, over = f"{first.label} (A)", f"{second.label} (B)"
            names = Names(row, over, column_phrase(columns[entry.task], self.columns))
            _, text = sentence(entry.test, names)
            sentences.append(text)
        return sentences


def pair_table(compared: EncoderComparison, title: str) -> Table:
    """Return a line for each task, and for the average over several; the verdicts as sentences below."""
    heads = ("items", "A", "B", "A - B", f"{LEVEL:.0%} interval", "p", "verdict")
    rows = []
    for entry in compared.every:
        name = entry.task if entry.task != AVERAGE else f"{AVERAGE} of {len(compared.tasks)}"
        cells = [Score(nan, None, 1, text=text) for text in _cell_texts(entry)]
        rows.append(Row(name, "", tuple(cells)))
    *of_tasks, last = compared.sentences()  # that of the average, if there is one
    notes = [last, explanation(compared), *compared.notes, *of_tasks]
    notes += caveat_notes([entry.test for entry in compared.every])
    columns = tuple(Column(head, head) for head in heads)
    return Table(
        title,
        columns,
        tuple(rows),
        tuple(notes),
        "facts",
        "task",
        banner=compared.banner,
    )


def _cell_texts(entry: TaskComparison) -> list[str]:
    """Return the cells of a task, in the order of the headings."""
    interval = p = "undefined"
    if entry.test.interval:
        interval = f"[{', '.join(map(_number, entry.test.interval))}]"
    if entry.corrected is not None:
        p = p_words(entry.corrected).removeprefix("= ")
    first, second = _score(entry.first), _score(entry.second)
    difference = _number(entry.difference, "+")
    return [f"{entry.n:,}", first, second, difference, interval, p, entry.verdict]


def explanation(compared: EncoderComparison) -> str:
    """Return the note on the numbers of the table."""
    sides = [side for task in compared.tasks for side in (task.first, task.second)]
    tested = "p of the difference" if any(entry.test.equality for entry in compared.every) else "p"
    text = f"Interval and {tested}: over items and, if several, seeds"
    if any(side.sd is not None for side in sides):
        text = f"±: over seeds. {text}"
    if len(compared.tasks) > 1:
        text += f"; p of tasks: corrected for {len(compared.tasks)} (Holm), intervals are not"
    if any(entry.test.best for entry in compared.every):
        text += (
            "; best rows of the leaderboard: p and interval are corrected for the choice, as there"
        )
    return f"{text}."


def _number(value: float, sign: str = "") -> str:
    return f"{sign if value > 0 else ''}{number(value)}" if isfinite(value) else "undefined"


def _score(score: SeedMean) -> str:
    return (
        _number(score.mean) if score.sd is None else f"{_number(score.mean)} ± {_number(score.sd)}"
    )


def pair_rows(compared: EncoderComparison) -> list[dict[str, Any]]:
    """Return a row of numbers for each task, and for the average over several."""
    rows = []
    for entry in compared.every:
        low, high = entry.test.interval or (None, None)
        rows.append(
            {
                "task": entry.task,
                "metric": entry.metric,
                "n_items": entry.n,
                "first": entry.first.mean,
                "second": entry.second.mean,
                "difference": entry.difference,
                "low": low,
                "high": high,
                "p": entry.p,
                "p_corrected": entry.corrected,
                "verdict": entry.verdict,
            }
        )
    return rows
