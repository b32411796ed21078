"""Scores, p-values and metrics in words, and the notes below a table: gains, measurements, warnings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import label as backbone_label
from mirrorbench.reports.table import DIGITS, Row, Score, Table, Unseen, Verdict

MISSING = "–"
"""The text of a missing score."""
TIED = "†"
"""The mark of a score that is not separable from the best one."""

_METRICS = {
    "spearman": "Spearman's correlation",
    "pearson": "Pearson's correlation",
    "auc": "area under the ROC curve",
    "spearman_mean": "Spearman's correlation, mean over subsets",
    "f1": "F1",
    "mrr": "mean reciprocal rank",
    "spearman_wmean": "Spearman's correlation, weighted mean over subsets",
}


def number(value: float, digits: int = DIGITS) -> str:
    """Format a score as in the papers: ``.743``, ``-.012``, ``1.000``."""
    text = f"{value:z.{digits}f}"  # z: no -0.000
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def p_words(value: float) -> str:
    """Format a p-value with two significant digits, to follow ``p``: ``= .012``; ``< .001``."""
    return "< .001" if value < 0.001 else f"= {value:#.2g}".replace("0.", ".", 1)


def metric_words(name: str) -> str:
    """Return a metric's name in words: ``dev_accuracy`` is ``accuracy on the dev split``."""
    split, _, rest = name.partition("_")
    if split in ("train", "dev", "test") and rest:
        return f"{metric_words(rest)} on the {split} split"
    return _METRICS.get(name) or name.replace("_", " ")


def with_deviation(score: Score | None, show: Callable[[float], str] = number) -> str:
    """Format a score and, for several seeds, its standard deviation: ``.743 ± .002``."""
    if score is None:
        return MISSING
    if score.text is not None:
        return score.text
    return show(score.mean) if score.sd is None else f"{show(score.mean)} ± {show(score.sd)}"


def marks(score: Score | None) -> str:
    """Format the interval and the dagger of a score; empty where it has neither."""
    interval = f" [{', '.join(map(number, score.interval))}]" if score and score.interval else ""
    return interval + (TIED if score and score.tied else "")


MOST_LINES = 6
"""The largest number of notes with ``--notes short``."""
_MOST_TASKS = 4
"""The largest number of tasks that are listed beside their average."""
MORE = "All tests and settings: --notes all"

Line = tuple[str, str]
"""A mark (``+`` gain, ``-`` loss, ``=`` neither, ``!`` warning, or none) and a note."""


class Headlines(NamedTuple):
    """The verdicts in the first notes of a leaderboard; ``None`` where it has none."""

    gain: Verdict | None
    """The best tuned row against the untuned row that it changes, on the longest tested average, else on the task with
    the largest significant gain. A table without tuned rows has the best transformed row instead."""
    over_best: Verdict | None
    """The best tuned row of a backbone against its best untuned row, where that is another one."""
    loss: Verdict | None
    """The largest significant loss of a row against the row that it changes, in any column."""


def headlines(table: Table) -> Headlines:
    """Choose the headlines among the tested verdicts of a table."""
    candidates = tested = [verdict for verdict in table.verdicts if verdict.p is not None]
    if any(row.tuned for row in table.rows):
        candidates = [v for v in tested if [row.tuned for row in table.rows_of(v)] == [True, False]]

    def gain_of(verdict: Verdict) -> tuple[bool, float]:
        difference = verdict.difference or 0.0
        return verdict.separable and difference > 0, difference

    def score_of(verdict: Verdict) -> float:
        row, _ = table.rows_of(verdict)
        score = row.scores[[column.name for column in table.columns].index(verdict.column)]
        return score.mean if score else float("-inf")

    def strongest(columns: Collection[str], best: bool) -> Verdict | None:
        own = [
            verdict for verdict in candidates if verdict.column in columns and verdict.best == best
        ]
        return max(own, key=score_of if len(columns) == 1 else gain_of, default=None)

    averages = [
        c for c in table.columns if c.average_of and any(v.column == c.name for v in candidates)
    ]
    longest = max(averages, key=lambda column: len(column.average_of), default=None)
    columns = [longest.name] if longest else [column.name for column in table.task_columns]
    gain = strongest(columns, best=False)
    over_best = strongest([gain.column] if gain else columns, best=True)
    losses = [
        v
        for v in tested
        if not v.best and v.separable and v is not gain and (v.difference or 0.0) < 0
    ]
    return Headlines(gain, over_best, min(losses, key=lambda v: v.difference or 0.0, default=None))


def note_lines(table: Table, show: Callable[[float], str] = number) -> list[Line]:
    """Return the notes at the level ``table.shown``; ``show`` formats a score."""
    if table.shown == "none":
        return []
    return _short(table, show) if table.shown == "short" else _all(table, show)


def _short(table: Table, show: Callable[[float], str]) -> list[Line]:
    """Return three verdicts at most, one line on the measurement, warnings, and the option that shows the rest."""
    if table.layout != "leaderboard":
        lines = [("", note) for note in table.notes]
        return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], ("", MORE)]
    chosen = headlines(table)
    lines = [_headline(table, verdict, show) for verdict in chosen if verdict]
    lines += [*_measured(table), *_warnings(table, [v for v in chosen if v], show)]
    return [*lines[: MOST_LINES - 1], ("", MORE)]


def _headline(table: Table, verdict: Verdict, show: Callable[[float], str]) -> Line:
    """A verdict as a sentence: ``Mirror beats the untuned model: +.067 [.051, .083], p < .001``."""
    alone = len({(row.backbone, row.protocol) for row in table.rows if row.spec}) == 1
    name, lower = (_name(row, alone) for row in table.rows_of(verdict))
    if verdict.best:
        lower = f"the best untuned row ({lower.removeprefix('the untuned model (').removesuffix(')' * alone)})"
    p, corrected = (p_words(value or 0.0) for value in (verdict.p, verdict.corrected))
    value = f"{_signed(verdict, show)}, {'corrected ' * (corrected != p)}p {corrected}"
    column = next(column for column in table.columns if column.name == verdict.column)
    on = (
        f" on average over {len(column.average_of)} tasks"
        if column.average_of
        else f" on {column.title}"
    )
    on *= len(table.columns) > 1
    if not verdict.separable:
        return "=", f"No gain shown{on}: {name} over {lower} {value}"
    if (verdict.difference or 0.0) > 0:
        return "+", f"{name} beats {lower}{on}: {value}{_without_gain(table, verdict)}"
    return "-", f"{name} loses to {lower}{on}: {value}"


def without_overlap(unseen: Unseen | None, show: Callable[[float], str] = number) -> str:
    """Return a difference on unseen items as the end of a sentence: ``; without overlap +.009 [-.006, .023], p = .21``."""
    if unseen is None:
        return ""
    if unseen.p is None:
        return f"; {unseen.share:.0%} of the items hold a text that was tuned on"
    return f"; without overlap {_signed(unseen, show)}, p {p_words(unseen.p)}"


def _without_gain(table: Table, gain: Verdict) -> str:
    """The other tasks, if any, on which the row with a gain on one task has no significant one."""
    titles = {column.name: column.title for column in table.task_columns}
    if gain.best or gain.column not in titles:
        return ""
    same = [
        v
        for v in table.verdicts
        if (v.spec, v.protocol, v.best) == (gain.spec, gain.protocol, False)
    ]
    none = [
        titles[v.column] for v in same if v.p is not None and not v.separable and v.column in titles
    ]
    return f"; no gain shown on {', '.join(none)}" if none else ""


def _name(row: Row, alone: bool) -> str:
    """A row's label, without its backbone if that is alone in the table."""
    backbone = backbone_label(parse_spec(row.spec))
    if not alone or not row.label.startswith(backbone):
        return row.label
    rest = row.label.removeprefix(backbone).lstrip(" +,-")
    return rest if row.tuned else f"the untuned model ({rest})" if rest else "the untuned model"


def _signed(gain: Verdict | Unseen, show: Callable[[float], str]) -> str:
    """A difference and its interval: ``+.067 [.053, .082]``."""
    if gain.difference is None:
        return "undefined"
    sign = "+" if gain.difference > 0 else ""
    interval = f" [{', '.join(map(show, gain.interval))}]" if gain.interval else ""
    return f"{sign}{show(gain.difference)}{interval}"


def _measured(table: Table) -> list[Line]:
    """Tasks, metrics, numbers of items and of seeds, in one line."""
    tasks = table.task_columns
    if not tasks:
        return []
    metrics = Counter(column.metric for column in tasks)
    parts = [
        metric_words(name) + (f" ({n})" if len(metrics) > 1 else "")
        for name, n in metrics.items()
        if name
    ]
    if n_items := sum(column.n_items for column in tasks):
        parts.append(f"{n_items:,} {_items(table)}")
    text = f"{table.heads()[0] if len(tasks) == 1 else f'{len(tasks)} tasks'}: {', '.join(parts)}"
    seeds = sorted({score.n for row in table.rows if row.tuned for score in row.scores if score})
    if seeds == [1]:
        text += "; one seed (--seeds 3 for more)"
    elif seeds:
        text += f"; {' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds (±)"
    if _has_tied(table):
        text += f"; {TIED} not separable from the best"
    return [("", text)]


def _has_tied(table: Table) -> bool:
    return any(score and score.tied for row in table.rows for score in row.scores)


def _items(table: Table) -> str:
    """The word for the test items of all tasks."""
    items = {column.items for column in table.task_columns}
    return items.pop() if len(items) == 1 else "items"


def _warnings(
    table: Table, verdicts: Sequence[Verdict], show: Callable[[float], str]
) -> list[Line]:
    """Reasons to distrust the table, and the share of items with a text of a tuning corpus.

    With what is left without them of the ``verdicts`` in the lines above, in their order.
    """
    reasons = [re.split(r"\.\s", warning)[0] for warning in table.warnings]
    tasks, column, share, rest = table.task_columns, "", 0.0, ""
    qualified = [verdict for verdict in verdicts if verdict.unseen]
    if qualified and (first := qualified[0].unseen):
        column, share = qualified[0].column, first.share
        left = "; ".join(_signed(v.unseen, show) for v in qualified if v.unseen)
        rest = f" (without them {left})"
    elif tasks:
        most = max(tasks, key=lambda task: task.seen)
        column, share = most.name, most.seen
    if share:
        on = "".join(
            f" on {task.title}" for task in tasks if task.name == column and len(tasks) > 1
        )
        reasons.append(
            f"{share:.0%} of the {_items(table)}{on} contain a text of the tuning corpus{rest}"
        )
    return [("!", text) for text in reasons]


def _all(table: Table, show: Callable[[float], str]) -> list[Line]:
    """Every verdict, in one line for two rows, then warnings and notes; the dagger is explained if it is used."""
    by_rows: dict[tuple[bool, str, str, str], list[Verdict]] = {}
    for verdict in table.verdicts:
        by_rows.setdefault((verdict.best, verdict.spec, verdict.over, verdict.protocol), []).append(
            verdict
        )
    lines = [_verdict_line(table, verdicts, show) for verdicts in by_rows.values()]
    tied = _has_tied(table)
    for note in (*table.warnings, *table.notes):
        if not note.startswith("Tied"):
            lines.append(note)
        elif tied:
            lines.append(f"{TIED} {note}")
    return [("", line) for line in lines]


def _verdict_line(table: Table, verdicts: Sequence[Verdict], show: Callable[[float], str]) -> str:
    """All verdicts on two rows; an average over many tasks stands for them."""
    headings = dict(zip((column.name for column in table.columns), table.heads(), strict=True))
    tested = {verdict.column for verdict in verdicts if not verdict.why_not}
    averages = [c for c in table.columns if len(c.average_of) > _MOST_TASKS and c.name in tested]
    hidden = {task for column in averages for task in column.average_of}
    columns: dict[tuple[str, str], list[str]] = {}  # by the words before and after them
    for verdict in verdicts:
        if verdict.column not in hidden:
            columns.setdefault(_verdict_words(verdict, show), []).append(headings[verdict.column])
    names = " over ".join(row.label for row in table.rows_of(verdicts[0]))
    parts = "; ".join(
        f"{before} on {', '.join(on)}{after}" for (before, after), on in columns.items()
    )
    parts = parts.removesuffix(".")  # of "avg."
    return f"{'Best tuned row over best untuned row: ' * verdicts[0].best}{names}: {parts}."


def _verdict_words(verdict: Verdict, show: Callable[[float], str]) -> tuple[str, str]:
    """A verdict in words: the part before the name of its column, and the part after it."""
    if verdict.difference is None or verdict.corrected is None:
        return "not tested", f" ({verdict.why_not})"
    p, corrected = (p_words(value) for value in (verdict.p or 0.0, verdict.corrected))
    rest = f", corrected {corrected.removeprefix('= ')}" if corrected != p else ""
    this_model = ", this model" * (verdict.this_model and verdict.separable)
    end = f" (p {p}{rest}{this_model}{without_overlap(verdict.unseen, show)})"
    start = "" if verdict.separable else "no separable difference, "
    return f"{start}{_signed(verdict, show)}", end
