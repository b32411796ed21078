"""The notes below a table: verdicts, measurements, warnings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mirrorbench.reports.renderers.numbers import TIED, metric_words, number
from mirrorbench.reports.renderers.verdicts import (
    Line,
    Names,
    Show,
    column_phrase,
    headline,
    names_of,
    sentence,
    signed,
)
from mirrorbench.reports.table import Column, Row, Score, Table, Verdict

MOST_LINES = 6
"""The largest number of notes with ``--notes short``."""
_MOST_TASKS = 4
"""The largest number of tasks that are listed beside their average."""
HINT_AT_ALL_NOTES = "All tests and settings: --notes all"
"""The last line of short notes."""


class Headlines(NamedTuple):
    """The verdicts in the first notes of a leaderboard; ``None`` where it has none."""

    gain: Verdict | None
    """The best tuned row against the untuned row that it changes, on the tested average of most tasks; without an
    average, the largest significant gain on a task. A table without tuned rows has the best transformed row instead."""
    over_best: Verdict | None
    """The best tuned row of a backbone against its best untuned row, where that is another one."""
    loss: Verdict | None
    """The largest significant loss of a row against the row that it changes, in any column."""


def headlines(table: Table) -> Headlines:
    """Choose the headlines among the tested verdicts of a table."""
    tested = [verdict for verdict in table.verdicts if verdict.p is not None]
    candidates = tested
    if any(row.tuned for row in table.rows):
        candidates = [verdict for verdict in tested if _compares_tuned_with_untuned(table, verdict)]

    # The average of most tasks stands for all; without an average, any task may have the headline.
    tested_columns = {verdict.column for verdict in candidates}
    average = _average_of_most_tasks(c for c in table.columns if c.name in tested_columns)
    columns = [average.name] if average else [column.name for column in table.task_columns]

    gain = _strongest(table, candidates, columns, on_best_rows=False)
    columns_of_best = [gain.column] if gain else columns
    over_best = _strongest(table, candidates, columns_of_best, on_best_rows=True)
    loss = _largest_loss([verdict for verdict in tested if verdict is not gain])
    return Headlines(gain, over_best, loss)


def _compares_tuned_with_untuned(table: Table, verdict: Verdict) -> bool:
    """Test whether a verdict compares a tuned row with an untuned one."""
    row, other = table.rows_of(verdict)
    return row.tuned and not other.tuned


def _average_of_most_tasks(columns: Iterable[Column]) -> Column | None:
    """Return the column that averages most tasks; ``None`` without averages."""
    averages = [column for column in columns if column.average_of]
    return max(averages, key=lambda column: len(column.average_of), default=None)


def _strongest(
    table: Table, verdicts: Sequence[Verdict], columns: Sequence[str], on_best_rows: bool
) -> Verdict | None:
    """Choose one verdict: in a single column the one whose row scores highest, in several the one with the largest gain.

    In several columns, significant gains come before others. ``None`` if there is no verdict.

    Args:
        table: the table.
        verdicts: tested verdicts.
        columns: names of columns.
        on_best_rows: choose among the verdicts on best rows, or among all others.
    """
    candidates = [
        verdict
        for verdict in verdicts
        if verdict.column in columns and verdict.best == on_best_rows
    ]
    names = [column.name for column in table.columns]

    def score_of(verdict: Verdict) -> float:
        row, _ = table.rows_of(verdict)
        score = row.scores[names.index(verdict.column)]
        return score.mean if score else float("-inf")

    def gain_of(verdict: Verdict) -> tuple[bool, float]:
        difference = verdict.difference or 0.0
        return verdict.separable and difference > 0, difference

    # Scores on several tasks are on different scales, so their gains are compared.
    if len(columns) == 1:
        return max(candidates, key=score_of, default=None)
    return max(candidates, key=gain_of, default=None)


def _largest_loss(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the verdict with the largest significant loss, those on best rows left out; ``None`` without any."""
    largest = None
    for verdict in verdicts:
        if verdict.best or not verdict.separable or verdict.difference is None:
            continue
        least_difference = 0.0
        if largest is not None and largest.difference is not None:
            least_difference = largest.difference
        if verdict.difference < least_difference:
            largest = verdict
    return largest


def note_lines(table: Table, show: Show = number) -> list[Line]:
    """Return the notes at the level ``table.shown``; ``show`` formats a score.

    The notes at the level ``all`` begin with the short ones, unabridged: what the first screen says is in every file.
    """
    if table.shown == "none":
        return []
    if table.layout != "leaderboard":
        lines: list[Line] = [("", note) for note in table.notes]
        if table.shown == "all" or len(lines) <= MOST_LINES:
            return lines
        return [*lines[: MOST_LINES - 1], ("", HINT_AT_ALL_NOTES)]
    if table.shown == "all":
        return [*_summary(table, show, sentence), *_other_lines(table, show)]
    return [*_short_lines(table, show), ("", f"{_sentence_on_intervals(table)}{HINT_AT_ALL_NOTES}")]


def answer_lines(table: Table, show: Show = number) -> list[Line]:
    """Return the short notes, which a page shows above the table; none for a paper's table or at the level ``none``."""
    if table.shown == "none" or table.layout != "leaderboard":
        return []
    return _short_lines(table, show)


def _short_lines(table: Table, show: Show) -> list[Line]:
    """Return the lines of the summary, each cut to its first sentence, as many as short notes have room for."""
    lines = [_first_sentence(line) for line in summary_lines(table, show)]
    return lines[: MOST_LINES - 1]


def _sentence_on_intervals(table: Table) -> str:
    """Return a sentence that intervals of headlines are not corrected for several tests; empty if all are."""
    verdicts = [verdict for verdict in headlines(table) if verdict]
    if not any(verdict.n_tests > 1 and not verdict.best for verdict in verdicts):
        return ""
    if any(verdict.best for verdict in verdicts):
        return "Intervals are for one test each, except the best row's. "
    return "Intervals are for one test each. "


def summary_lines(table: Table, show: Show = number) -> list[Line]:
    """Return at most three verdicts of a leaderboard, a line on the measurement, and warnings."""
    return _summary(table, show, headline)


def _summary(table: Table, show: Show, say: Callable[[Verdict, Names, Show], Line]) -> list[Line]:
    """Return lines on the headlines, as ``say`` words them, on the best row and the measurement, and the warnings."""
    verdicts = [verdict for verdict in headlines(table) if verdict]
    lines = []
    for verdict in verdicts:
        mark, text = say(verdict, names_of(table, verdict), show)
        lines.append((mark, text + _tasks_without_gain(table, verdict)))
    best_row = _sentence_on_best_row(table, verdicts, show)
    if best_row:
        lines.append(("", best_row))
    return [*lines, *_measurement(table), *_warnings(table, verdicts, show)]


def _sentence_on_best_row(table: Table, verdicts: Sequence[Verdict], show: Show) -> str:
    """Return a sentence on the best and second best encoder, on the average of most tasks or on the only column.

    Empty where one of ``verdicts`` is about the best one, where fewer than two have a score, and where there are
    several columns but no average.
    """
    column = _average_of_most_tasks(table.columns)
    if column is None and len(table.columns) == 1:
        column = table.columns[0]
    if column is None:
        return ""
    index = table.columns.index(column)
    scores: list[tuple[Row, Score]] = []
    for row in table.rows:
        score = row.scores[index]
        is_baseline = not row.spec
        if score and not is_baseline:
            scores.append((row, score))
    if len(scores) < 2:
        return ""
    scores.sort(key=lambda row_and_score: row_and_score[1].mean, reverse=True)
    (best, best_score), (second, second_score) = scores[:2]
    if any(best in table.rows_of(verdict) for verdict in verdicts):
        return ""
    labels_of_tied = [row.label for row, score in scores[1:] if score.tied]
    caveat = "not tested against it"
    if labels_of_tied:
        caveat = f"not separable from {', '.join(labels_of_tied)}"
    return (
        f"Best{column_phrase(column, table.columns)}: {best.label} {show(best_score.mean)}, "
        f"then {second.label} {show(second_score.mean)}; {caveat}"
    )


def _first_sentence(line: Line) -> Line:
    """Return the first sentence of a warning; other lines are one sentence."""
    mark, text = line
    if mark != "!":
        return line
    return mark, re.split(r"\.\s", text)[0]


def _tasks_without_gain(table: Table, gain: Verdict) -> str:
    """Return a clause on the other tasks, on which the row of a gain on one task has no significant difference.

    Empty for any other verdict, and without such tasks.
    """
    titles = {column.name: column.title for column in table.task_columns}
    if gain.best or gain.answer != "better" or gain.column not in titles:
        return ""
    tasks = []
    for verdict in table.verdicts:
        is_of_row = (verdict.spec, verdict.protocol) == (gain.spec, gain.protocol)
        if not is_of_row or verdict.best or verdict.column not in titles:
            continue
        if verdict.p is not None and not verdict.separable:
            tasks.append(titles[verdict.column])
    return f"; no separable difference on {', '.join(tasks)}" if tasks else ""


def _measurement(table: Table) -> list[Line]:
    """Return a line on what was measured: tasks, metrics, numbers of items and seeds; none without tasks."""
    tasks = table.task_columns
    if not tasks:
        return []
    parts = []
    n_tasks_by_metric = Counter(column.metric for column in tasks)
    for metric, n_tasks in n_tasks_by_metric.items():
        if metric and len(n_tasks_by_metric) > 1:
            # Several metrics: each with the number of its tasks.
            parts.append(f"{metric_words(metric)} ({n_tasks})")
        elif metric:
            parts.append(metric_words(metric))
    n_items = sum(column.n_items for column in tasks)
    if n_items:
        parts.append(f"{n_items:,} {_noun_of_items(table)}")
    subject = table.heads()[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
    text = f"{subject}: {', '.join(parts)}"

    # Seeds are those of tuning, so only tuned rows count.
    seed_counts = {score.n for row in table.rows if row.tuned for score in row.scores if score}
    if seed_counts == {1}:
        text += "; one seed (--seeds 3 for more)"
    elif len(seed_counts) == 1:
        text += f"; {seed_counts.pop()} seeds (±)"
    elif seed_counts:
        text += f"; {min(seed_counts)} to {max(seed_counts)} seeds (±)"
    if _has_ties(table):
        text += f"; {TIED} not separable from the best"
    return [("", text)]


def _has_ties(table: Table) -> bool:
    return any(score and score.tied for row in table.rows for score in row.scores)


def _noun_of_items(table: Table) -> str:
    """Return the noun for the test items of all tasks."""
    nouns = {column.items for column in table.task_columns}
    return nouns.pop() if len(nouns) == 1 else "items"


def _warnings(table: Table, verdicts: Sequence[Verdict], show: Show) -> list[Line]:
    """Return the warnings of a table, and one on test items with a text of a tuning corpus.

    ``verdicts`` are those in the lines above; the warning says what remains of their differences without such items.
    """
    lines = [("!", warning) for warning in table.warnings]
    overlapping = [(verdict, verdict.unseen) for verdict in verdicts if verdict.unseen]
    if overlapping:
        verdict, unseen = overlapping[0]
        text = _sentence_on_seen_items(table, verdict.column, unseen.share)
        differences = [signed(unseen, show) for _, unseen in overlapping if unseen.p is not None]
        if differences:
            text += f" (without them {'; '.join(differences)})"
        lines.append(("!", text))
    elif table.task_columns:
        task = max(table.task_columns, key=lambda task: task.seen)
        if task.seen:
            lines.append(("!", _sentence_on_seen_items(table, task.name, task.seen)))
    return lines


def _sentence_on_seen_items(table: Table, column: str, share: float) -> str:
    """Return a sentence on the share of a column's items with a text of a tuning corpus.

    An average and the only task of a table are not named.
    """
    place = ""
    for task in table.task_columns:
        if task.name == column and len(table.task_columns) > 1:
            place = f" on {task.title}"
    return f"{share:.0%} of the {_noun_of_items(table)}{place} contain a text of the tuning corpus"


def _other_lines(table: Table, show: Show) -> list[Line]:
    """Return the verdicts that are not in the summary, and the notes; that on ties only if there are some."""
    chosen = headlines(table)
    lines = []
    for verdict in table.verdicts:
        if verdict not in chosen and not _average_says_more(table, verdict):
            _, text = sentence(verdict, names_of(table, verdict), show)
            lines.append(text)
    has_ties = _has_ties(table)
    for note in table.notes:
        if not note.startswith("Tied"):
            lines.append(note)
        elif has_ties:
            lines.append(f"{TIED} {note}")
    return [("", line) for line in lines]


def _average_says_more(table: Table, verdict: Verdict) -> bool:
    """Test whether the same rows have a tested verdict on an average of many tasks, this column among them."""

    def rows_of(verdict: Verdict) -> tuple[str, str, str, bool]:
        return verdict.spec, verdict.over, verdict.protocol, verdict.best

    tested_columns = set()
    for other in table.verdicts:
        if not other.why_not and rows_of(other) == rows_of(verdict):
            tested_columns.add(other.column)
    for column in table.columns:
        averages_many = len(column.average_of) > _MOST_TASKS
        if averages_many and column.name in tested_columns and verdict.column in column.average_of:
            return True
    return False
