"""Scores as text, and the formats Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from mirrorbench.reports.table import DIGITS, Score, Table, Verdict, to_object

MISSING = "–"
TIED = "†"
"""Marks a score that is not separable from the best one."""

# Characters that Markdown could take for markup; "_" only at the edge of a word, "]" only where a link would follow.
_SPECIAL = re.compile(
    r"[\\`*|$]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z0-9])|~(?=~)|\](?=\()|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^(?:[#>+-]|\d+[.)])(?=\s)"
)
_METRICS = {
    "spearman": "Spearman's correlation", "pearson": "Pearson's correlation", "auc": "area under the ROC curve",
    "spearman_mean": "Spearman's correlation, mean over subsets", "f1": "F1", "mrr": "mean reciprocal rank",
    "spearman_wmean": "Spearman's correlation, weighted mean over subsets",
}  # fmt: skip
_EQUAL = "no separable difference"
_MOST_TASKS = 4
"""An average over more tasks than this stands for them in a line: it says more."""
_MARKS = ("{}", "**{}**", "<u>{}</u>")


def number(value: float, digits: int = DIGITS) -> str:
    """A score as the papers print it: ``.743``, ``-.012``, ``1.000``."""
    text = f"{value:z.{digits}f}"  # z: no -0.000
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def p_words(value: float) -> str:
    """A p-value with two significant digits after ``p``: ``= .012``; ``< .001``."""
    return "< .001" if value < 0.001 else f"= {value:#.2g}".replace("0.", ".", 1)


def metric_words(name: str) -> str:
    """A metric's name in words: ``dev_accuracy`` is ``accuracy on dev``."""
    split, _, rest = name.partition("_")
    if split in ("train", "dev", "test") and rest:
        return f"{metric_words(rest)} on {split}"
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


def with_legend(table: Table, show: Callable[[float], str] = number) -> list[str]:
    """The verdicts and notes of a table, with an explanation of the dagger only where it is used."""
    notes = list(table.notes)
    explained = [note for note in notes if note.startswith("Tied")]
    if any(score and score.tied for row in table.rows for score in row.scores):
        place = notes.index(explained[0]) if explained else len(notes)
        notes[place : place + 1] = [f"{TIED} {(explained or ['Not separable from the best of its column.'])[0]}"]
    else:
        notes = [note for note in notes if note not in explained]
    return [*(line for line, _ in verdict_lines(table, show)), *notes]


def verdict_lines(table: Table, show: Callable[[float], str] = number) -> list[tuple[str, list[Verdict]]]:
    """A line for each step with its verdicts: ``A over B: +.067 [.053, .082] on X (p = .012); not tested on Y``.

    An average over more than four tasks stands for them. With rows changed without tuning, a long table:
    steps that gained nothing are one line, and one for each backbone is on its best rows.
    """
    rows = {(row.spec, row.protocol): row for row in reversed(table.rows)}  # verdicts are on the first computation's
    heads = dict(zip([column.name for column in table.columns], table.heads(), strict=True))

    def pair(verdict: Verdict) -> tuple[str, str, str]:
        return verdict.spec, verdict.over, verdict.protocol

    def names(verdict: Verdict) -> str:
        both = [(name, verdict.protocol) for name in (verdict.spec, verdict.over)]
        return " over ".join(rows[name].label if name in rows else name[0] for name in both)  # a file may lack a row

    def line(verdicts: list[Verdict]) -> str:
        said: dict[tuple[str, str], list[str]] = {}  # what, in words, of which columns
        for verdict in verdicts:
            said.setdefault(_said(verdict, show), []).append(heads.get(verdict.column, verdict.column))
        parts = "; ".join(f"{what} on {', '.join(columns)}{rest}" for (what, rest), columns in said.items())
        return f"{names(verdicts[0])}: {parts}"

    averages = {column.name: column.average_of for column in table.columns if column.average_of}
    steps = [_shown(list(found), averages) for _, found in groupby((v for v in table.verdicts if not v.best), pair)]
    best: dict[tuple[str, str], list[Verdict]] = {}  # by backbone and protocol
    for verdict in (v for v in table.verdicts if v.best):
        backbone = rows[own].backbone if (own := (verdict.spec, verdict.protocol)) in rows else ""
        best.setdefault((backbone, verdict.protocol), []).append(verdict)
    equal = [found for found in steps if best and {_said(verdict, show) for verdict in found} == {(_EQUAL, "")}]
    lines = [(f"{line(found)}.", found) for found in steps if found not in equal]
    if equal:
        text = f"{_EQUAL.capitalize()} in any column: {'; '.join(names(found[0]) for found in equal)}."
        lines.append((text, [verdict for found in equal for verdict in found]))
    for several in best.values():
        several = _shown(several, averages)
        said = "; ".join(line(list(found)) for _, found in groupby(sorted(several, key=pair), pair))
        lines.append((f"Best tuned row over best untuned row: {said}.", several))
    return lines


def _shown(verdicts: list[Verdict], averages: Mapping[str, Sequence[str]]) -> list[Verdict]:
    """The verdicts that a line shows: those on long averages in place of those on their tasks."""
    names = {verdict.column for verdict in verdicts if not verdict.why_not}
    hidden: set[str] = set()
    for name, tasks in averages.items():
        if name in names and len(tasks) > _MOST_TASKS and not hidden & set(tasks):
            hidden |= set(tasks)
    return [verdict for verdict in verdicts if verdict.column not in hidden]


def _said(verdict: Verdict, show: Callable[[float], str]) -> tuple[str, str]:
    """What a verdict says before the name of its column, and after it."""
    if verdict.difference is None or verdict.corrected is None:
        return "not tested", f" ({verdict.why_not})"
    if not verdict.separable:
        return _EQUAL, ""
    sign = "+" if verdict.difference > 0 else ""
    interval = f" [{', '.join(map(show, verdict.interval))}]" if verdict.interval else ""
    p, corrected = (p_words(value) for value in (verdict.p or 0.0, verdict.corrected))
    rest = f", corrected {corrected.removeprefix('= ')}" if corrected != p else ""
    return f"{sign}{show(verdict.difference)}{interval}", f" (p {p}{rest}{', this model' * verdict.this_model})"


def escape_markdown(text: str) -> str:
    """Text escaped for Markdown, also in a cell of a table."""
    return _SPECIAL.sub(lambda match: "\\" + match[0], " ".join(text.split()))


def markdown(table: Table) -> str:
    """A GitHub table: bold best, ``<u>`` second."""
    from tabulate import tabulate

    head, *labels = table.labels()
    rows = []
    for label, row, ranks in zip(labels, table.rows, table.ranks(), strict=True):
        marked = zip(row.scores, ranks, strict=True)
        cells = [_MARKS[rank].format(escape_markdown(with_deviation(s))) + with_marks(s) for s, rank in marked]
        rows.append([*map(escape_markdown, label), *cells])
    text = tabulate(
        rows, headers=[*head, *map(escape_markdown, table.heads())], disable_numparse=True,
        tablefmt="pipe" if table.kind == "leaderboard" else "github",
        colalign=["left"] * len(head) + ["right"] * len(table.columns) if rows else None,
    )  # fmt: skip
    title = f"**{escape_markdown(table.title)}**\n\n" if table.title else ""
    notes = "".join(f"\n\n{escape_markdown(note)}" for note in with_legend(table))
    return f"{title}{text}{notes}\n"


def comma_separated(table: Table) -> str:
    """CSV with full precision: encoder, spec, then for each column mean, sd, number of seeds, and any interval."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    intervals = any(score and score.interval for row in table.rows for score in row.scores)
    parts = ("", " sd", " seeds", *((" low", " high") if intervals else ()))
    writer.writerow(["encoder", "spec", *(f"{column.name}{part}" for column in table.columns for part in parts)])
    for row in table.rows:
        values: list[float | None] = []
        for s in row.scores:
            values += ([s.mean, s.sd, s.n, *(s.interval or (None, None))] if s else [None] * 5)[: len(parts)]
        writer.writerow([row.label, row.spec, *values])
    return stream.getvalue()


def as_json(table: Table) -> str:
    """The table's values as JSON, which ``mirrorbench leaderboard`` can read."""
    return json.dumps(to_object(table), indent=2, ensure_ascii=False) + "\n"
