"""Numbers as text."""

from __future__ import annotations

from mirrorbench.reports.table import DIGITS, Score, Table

MISSING = "–"
TIED = "†"
"""Marks a score that is not separable from the best one."""


def number(value: float, digits: int = DIGITS) -> str:
    """A score as the papers print it: ``.743``, ``-.012``, ``1.000``."""
    text = f"{value:z.{digits}f}"  # z: what rounds to zero has no sign
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def with_deviation(score: Score | None) -> str:
    """A score and, where there are several seeds, its standard deviation: ``.743 ± .002``."""
    if score is None:
        return MISSING
    return number(score.mean) if score.sd is None else f"{number(score.mean)} ± {number(score.sd)}"


def with_marks(score: Score | None) -> str:
    """What statistics add to a score, where they were asked for: its interval, and a dagger where it is tied."""
    if score is None:
        return ""
    interval = f" [{number(score.interval[0])}, {number(score.interval[1])}]" if score.interval else ""
    return interval + (TIED if score.tied else "")


def with_legend(table: Table) -> list[str]:
    """The table's notes, one of which explains the dagger where one stands."""
    notes = list(table.notes)
    if any(score and score.tied for row in table.rows for score in row.scores):
        explained = [note for note in notes if note.startswith("Tied")]
        place = notes.index(explained[0]) if explained else len(notes)
        notes[place : place + 1] = [f"{TIED} {(explained or ['Not separable from the best of its column.'])[0]}"]
    return notes
