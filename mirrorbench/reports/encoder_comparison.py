"""The result of comparing two encoders, on each task and on average: as objects, a table and rows."""

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
        task: the task's name; ``avg.`` for the average.
        metric: the task's main metric; empty for the average.
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
        """The difference on the items without a text of a tuning corpus; ``None`` if that is all items."""
        return self.test.unseen

    @property
    def verdict(self) -> str:
        """The answer of the test, such as ``A better``, ``not separable`` or ``equal within .01``."""
        if self.test.answer in ("not tested", "not separable"):
            return self.test.answer
        if self.test.answer == "equal" and self.test.equality:
            answer = f"equal within {margin_words(self.test.equality.margin)}"
        elif self.test.answer == "better":
            answer = "A better"
        else:
            answer = "B better"
        return f"{answer} (this model)" if self.this_model else answer


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
        tasks: the comparison on each task that both have.
        average: the comparison on average over several tasks; ``None`` for one task.
        notes: notes on left-out results and on corrections.
        rows: the rows of A and B in a leaderboard.
        columns: the columns of that leaderboard: the tasks, and their average.
        banner: the banner of that leaderboard, such as that of a smoke run.
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
        if self.average is None:
            return self.tasks
        return (*self.tasks, self.average)

    @property
    def table(self) -> Table:
        """A table with a row for each task, as ``mirrorbench compare`` prints it."""
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
        """Return a sentence for the verdict on each task, then one for the average, worded as below a leaderboard."""
        row_a, row_b = self.rows
        columns = {column.name: column for column in self.columns}
        sentences = []
        for comparison in self.every:
            if row_a.label == row_b.label:
                # One encoder is compared across two folders of results.
                name_a = f"{row_a.label} (A)"
                name_b = f"{row_b.label} (B)"
            else:
                name_a = row_name(row_a, self.rows)
                # ``test.best``: the best tuned row is compared with the best untuned one, so if A is tuned, B is not.
                b_is_best_untuned = comparison.test.best and row_a.tuned
                name_b = over_name(row_b, self.rows, b_is_best_untuned)
            on_column = column_phrase(columns[comparison.task], self.columns)
            _, text = sentence(comparison.test, Names(name_a, name_b, on_column))
            sentences.append(text)
        return sentences


def pair_table(compared: EncoderComparison, title: str) -> Table:
    """Return a table with a row for each task and for the average over several; its notes state the verdicts."""
    heads = ("items", "A", "B", "A - B", f"{LEVEL:.0%} interval", "p", "verdict")
    rows = []
    for entry in compared.every:
        name = entry.task
        if entry.task == AVERAGE:
            name = f"{AVERAGE} of {len(compared.tasks)}"
        # Cells are printed as these texts, so their scores need no number.
        cells = [Score(nan, None, 1, text=text) for text in _cell_texts(entry)]
        rows.append(Row(name, "", tuple(cells)))
    # The last sentence is that on the average, or on the only task; it comes first below the table.
    *other_sentences, main_sentence = compared.sentences()
    notes = [main_sentence, note_on_numbers(compared), *compared.notes, *other_sentences]
    notes += caveat_notes([entry.test for entry in compared.every])
    return Table(
        title,
        columns=tuple(Column(head, head) for head in heads),
        rows=tuple(rows),
        notes=tuple(notes),
        layout="facts",
        corner="task",
        banner=compared.banner,
    )


def _cell_texts(entry: TaskComparison) -> list[str]:
    """Return the texts of the cells of a task, in the order of the headings; ``undefined`` for a missing number."""
    interval = "undefined"
    if entry.test.interval:
        low, high = entry.test.interval
        interval = f"[{_number_text(low)}, {_number_text(high)}]"
    p = "undefined"
    if entry.corrected is not None:
        p = p_words(entry.corrected).removeprefix("= ")
    return [
        f"{entry.n:,}",
        _score_text(entry.first),
        _score_text(entry.second),
        _number_text(entry.difference, "+"),
        interval,
        p,
        entry.verdict,
    ]


def note_on_numbers(compared: EncoderComparison) -> str:
    """Return the note that explains the deviations, intervals and p-values of the table."""
    text = ""
    scores = [score for task in compared.tasks for score in (task.first, task.second)]
    if any(score.sd is not None for score in scores):
        text = "±: over seeds. "
    has_equality = any(entry.test.equality for entry in compared.every)
    p = "p of the difference" if has_equality else "p"
    text += f"Interval and {p}: over items and, if several, seeds"
    if len(compared.tasks) > 1:
        text += f"; p of tasks: corrected for {len(compared.tasks)} (Holm), intervals are not"
    if any(entry.test.best for entry in compared.every):
        text += (
            "; best rows of the leaderboard: p and interval are corrected for the choice, as there"
        )
    return f"{text}."


def _number_text(value: float, sign: str = "") -> str:
    """Return a number as text, with ``sign`` before a positive one; ``undefined`` for NaN and infinity."""
    if not isfinite(value):
        return "undefined"
    return f"{sign}{number(value)}" if value > 0 else number(value)


def _score_text(score: SeedMean) -> str:
    if score.sd is None:
        return _number_text(score.mean)
    return f"{_number_text(score.mean)} ± {_number_text(score.sd)}"


def pair_rows(compared: EncoderComparison) -> list[dict[str, Any]]:
    """Return a row of numbers for each task, and for the average over several; ``None`` where undefined."""
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
