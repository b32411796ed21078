"""Scores, p-values and metrics in words; the lines below a table: who gained, what was measured, what to distrust."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import label as backbone_label
from mirrorbench.reports.headlines import headlines
from mirrorbench.reports.table import DIGITS, Row, Score, Table, Unseen, Verdict

MISSING = "–"
TIED = "†"
"""Marks a score that is not separable from the best one."""

_METRICS = {
    "spearman": "Spearman's correlation", "pearson": "Pearson's correlation", "auc": "area under the ROC curve",
    "spearman_mean": "Spearman's correlation, mean over subsets", "f1": "F1", "mrr": "mean reciprocal rank",
    "spearman_wmean": "Spearman's correlation, weighted mean over subsets",
}  # fmt: skip


def number(value: float, digits: int = DIGITS) -> str:
    """A score as the papers print it: ``.743``, ``-.012``, ``1.000``."""
    text = f"{value:z.{digits}f}"  # z: no -0.000
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def p_words(value: float) -> str:
    """A p-value with two significant digits after ``p``: ``= .012``; ``< .001``."""
    return "< .001" if value < 0.001 else f"= {value:#.2g}".replace("0.", ".", 1)


def metric_words(name: str) -> str:
    """A metric's name in words: ``dev_accuracy`` is ``accuracy on the dev split``."""
    split, _, rest = name.partition("_")
    if split in ("train", "dev", "test") and rest:
        return f"{metric_words(rest)} on the {split} split"
    return _METRICS.get(name) or name.replace("_", " ")


def with_deviation(score: Score | None, show: Callable[[float], str] = number) -> str:
    """A score and, for several seeds, its standard deviation: ``.743 ± .002``."""
    if score is None or score.text is not None:
        return MISSING if score is None else score.text or ""
    return show(score.mean) if score.sd is None else f"{show(score.mean)} ± {show(score.sd)}"


def with_marks(score: Score | None, show: Callable[[float], str] = number) -> str:
    """The interval and the dagger of a score, where there are any."""
    if score is None:
        return ""
    interval = f" [{show(score.interval[0])}, {show(score.interval[1])}]" if score.interval else ""
    return interval + (TIED if score.tied else "")


MOST_LINES = 6
"""The most notes that are printed with ``--notes short``."""
_MOST_TASKS = 4
"""An average over more tasks than this stands for them in a line: it says more."""
MORE = "All tests and settings: --notes all"

Line = tuple[str, str]
"""A mark (``+`` gain, ``-`` loss, ``=`` neither, ``!`` warning, or none) and a note."""


def note_lines(table: Table, show: Callable[[float], str] = number) -> list[Line]:
    """The notes that ``table.shown`` asks for; ``show`` writes a score."""
    if table.shown == "none":
        return []
    return _short(table, show) if table.shown == "short" else _all(table, show)


def _short(table: Table, show: Callable[[float], str]) -> list[Line]:
    """At most three verdicts, one line on what was measured, warnings, and where the rest is."""
    if table.layout != "leaderboard":
        lines = [("", note) for note in table.notes]
        return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], ("", MORE)]
    chosen = headlines(table)
    named = [(chosen.gain, "{}"), (chosen.over_best, "the best untuned row ({})"), (chosen.loss, "{}")]
    lines = [_headline(table, verdict, over, show) for verdict, over in named if verdict]
    lines += [*_measured(table), *_warnings(table, chosen.gain or chosen.over_best, show)]
    return [*lines[: MOST_LINES - 1], ("", MORE)]


def _headline(table: Table, verdict: Verdict, over: str, show: Callable[[float], str]) -> Line:
    """One verdict as a sentence: ``Mirror beats the untuned model: +.067 [.051, .083], p < .001``."""
    rows = {(row.spec, row.protocol): row for row in reversed(table.rows)}
    alone = len({(row.backbone, row.protocol) for row in table.rows if row.spec}) == 1
    name, lower = (_name(rows[spec, verdict.protocol], alone) for spec in (verdict.spec, verdict.over))
    lower = over.format(lower.removeprefix("the untuned model (").removesuffix(")" * alone)) if verdict.best else lower
    p, corrected = (p_words(value or 0.0) for value in (verdict.p, verdict.corrected))
    value = f"{_signed(verdict, show)}, {'corrected ' * (corrected != p)}p {corrected}"
    column = next(column for column in table.columns if column.name == verdict.column)
    where = f" on average over {len(column.average_of)} tasks" if column.average_of else f" on {column.title}"
    where = where if len(table.columns) > 1 else ""
    if not verdict.separable:
        return "=", f"No gain shown{where}: {name} over {lower} {value}"
    if (verdict.difference or 0.0) > 0:
        return "+", f"{name} beats {lower}{where}: {value}{_elsewhere(table, verdict)}"
    return "-", f"{name} loses to {lower}{where}: {value}"


def _elsewhere(table: Table, verdict: Verdict) -> str:
    """Name the other tasks, if any, on which the row of a gain has no significant one."""
    titles = {column.name: column.title for column in table.columns if not column.average_of}
    same = [v for v in table.verdicts if (v.spec, v.protocol) == (verdict.spec, verdict.protocol) and not v.best]
    none = [titles[v.column] for v in same if v.p is not None and not v.separable and v.column in titles]
    return f"; no gain shown on {', '.join(none)}" if none and verdict.column in titles and not verdict.best else ""


def _name(row: Row, alone: bool) -> str:
    """A row's label, without its backbone where the table has one backbone alone."""
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
    """Tasks, metric, number of items and of seeds, in one line."""
    tasks = [column for column in table.columns if not column.average_of]
    if not tasks:
        return []
    metrics = Counter(column.metric for column in tasks)
    parts = [metric_words(name) + (f" ({n})" if len(metrics) > 1 else "") for name, n in metrics.items() if name]
    n_items = sum(column.n_items for column in tasks)
    parts += [f"{n_items:,} {_items(table)}"] if n_items else []
    text = f"{table.heads()[0] if len(tasks) == 1 else f'{len(tasks)} tasks'}: {', '.join(parts)}"
    seeds = sorted({score.n for row in table.rows if row.tuned for score in row.scores if score})
    if seeds:
        several = " to ".join(map(str, seeds[:: len(seeds) - 1 or 1]))
        text += "; one seed (--seeds 3 for more)" if seeds == [1] else f"; {several} seeds (±)"
    if _has_tied(table):
        text += f"; {TIED} not separable from the best"
    return [("", text)]


def _has_tied(table: Table) -> bool:
    return any(score and score.tied for row in table.rows for score in row.scores)


def _items(table: Table) -> str:
    """The word for the test items of all tasks."""
    items = {column.items for column in table.columns if not column.average_of}
    return items.pop() if len(items) == 1 else "items"


def _warnings(table: Table, first: Verdict | None, show: Callable[[float], str]) -> list[Line]:
    """Reasons to distrust the table and the verdict of its first line, the weightiest first."""
    reasons = [re.split(r"\.\s", warning)[0] for warning in table.warnings]
    columns = [column for column in table.columns if not column.average_of]
    column = max(columns, key=lambda column: column.seen, default=None)
    if first and (unseen := first.unseen):
        own = [column for column in columns if first.column == column.name]
        on = f" on {own[0].title}" if own and len(columns) > 1 else ""
        without = _signed(unseen, show)
        reasons.append(f"{unseen.share:.0%} of the {_items(table)}{on} hold a tuned text (without them {without})")
    elif column and column.seen:
        on = f" on {column.title}" * (len(columns) > 1)
        reasons.append(f"{column.seen:.0%} of the {_items(table)}{on} hold a tuned text")
    return [("!", text) for text in reasons]


def _all(table: Table, show: Callable[[float], str]) -> list[Line]:
    """Every verdict, a line for two rows, then warnings and notes; the dagger is explained only where it is used."""
    rows = {(row.spec, row.protocol): row for row in reversed(table.rows)}  # verdicts are on the first computation's
    heads = dict(zip([column.name for column in table.columns], table.heads(), strict=True))
    averages = [column for column in table.columns if len(column.average_of) > _MOST_TASKS]
    groups: dict[tuple[bool, str, str, str], list[Verdict]] = {}
    for verdict in table.verdicts:
        groups.setdefault((verdict.best, verdict.spec, verdict.over, verdict.protocol), []).append(verdict)
    lines = []
    for (best, spec, over, protocol), group in groups.items():
        tested = {verdict.column for verdict in group if not verdict.why_not}
        hidden = {name for column in averages if column.name in tested for name in column.average_of}
        verdicts = [verdict for verdict in group if verdict.column not in hidden]
        wordings: dict[tuple[str, str], list[str]] = {}  # what, in words, of which columns
        for verdict in verdicts:
            wordings.setdefault(_said(verdict, show), []).append(heads.get(verdict.column, verdict.column))
        names = " over ".join(rows[of, protocol].label if (of, protocol) in rows else of for of in (spec, over))
        parts = "; ".join(f"{what} on {', '.join(columns)}{rest}" for (what, rest), columns in wordings.items())
        parts = parts.removesuffix(".")  # of "avg."
        lines.append(f"{'Best tuned row over best untuned row: ' * best}{names}: {parts}.")
    tied = _has_tied(table)
    for note in (*table.warnings, *table.notes):
        if tied or not note.startswith("Tied"):
            lines.append(f"{TIED} {note}" if note.startswith("Tied") else note)
    return [("", line) for line in lines]


def _said(verdict: Verdict, show: Callable[[float], str]) -> tuple[str, str]:
    """A verdict in words: the part before the name of its column, and the part after it."""
    if verdict.difference is None or verdict.corrected is None:
        return "not tested", f" ({verdict.why_not})"
    if not verdict.separable:
        return "no separable difference", ""
    p, corrected = (p_words(value) for value in (verdict.p or 0.0, verdict.corrected))
    rest = f", corrected {corrected.removeprefix('= ')}" if corrected != p else ""
    return _signed(verdict, show), f" (p {p}{rest}{', this model' * verdict.this_model})"
