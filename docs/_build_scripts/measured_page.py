"""Build the page ``measured.md`` from stored values.

Its text is a template in ``docs/measurements`` that calls functions such as ``score("tiny+mirror", "sts")``. ``values.json``
beside it holds the values; ``measure.py`` updates them. A value without a stored result comes from an earlier
measurement and is marked; in a table, the row or the whole table is marked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from mirrorbench.core.identity import COMPUTATION
from mirrorbench.reports import renderers
from mirrorbench.reports.renderers.numbers import p_words

FOLDER = Path(__file__).resolve().parents[1] / "measurements"
KEPT = FOLDER / "values.json"
PAGE = "measured.md"
OLDER = "†"
CLEAR = 0.005
"""Smallest difference by which a score counts as better than another in the verdicts."""
KINDS = ("score", "mean", "deviation", "analysis")
"""Kinds of values that are a single number; ``measure.py`` has a function of each name."""
TESTED = ("compared", "unseen")
"""Kinds of values that are a difference with its interval and p-value."""
Value = dict[str, Any]
Values = Callable[..., Value]
"""Maps a kind and its arguments to the fields of a value."""


class Number(float):
    """A number on the page; ``older``: from an earlier measurement."""

    older: bool

    def __new__(cls, value: float, older: bool = False) -> Number:
        """Make a number."""
        number = super().__new__(cls, value)
        number.older = older
        return number

    def __sub__(self, subtrahend: float) -> Number:
        return Number(
            float(self) - float(subtrahend), self.older or getattr(subtrahend, "older", False)
        )

    def __str__(self) -> str:
        digits = 3 if abs(self) < 1 else 0 if self.is_integer() else 2
        return renderers.number(self, digits) + OLDER * self.older


def signed(value: Number) -> str:
    """Format a difference with its sign."""
    return f"{'+' if value > 0 else ''}{value}"


def writer(values: Values) -> jinja2.Environment:
    """Return the functions that templates may call; each returns a number or a text."""

    def plain(kind: str, *arguments: str) -> Number:
        value = values(kind, *arguments)
        return Number(value["value"], not value["from"])

    def tested(kind: str, *arguments: str) -> str:
        value = values(kind, *arguments)
        ends = ", ".join(map(renderers.number, value["interval"]))
        return f"{signed(Number(value['value']))} [{ends}], p {p_words(value['p'])}{OLDER * (not value['from'])}"

    score = partial(plain, "score")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["signed"] = signed
    environment.globals |= {
        **{kind: partial(plain, kind) for kind in KINDS},
        **{kind: partial(tested, kind) for kind in TESTED},
        "gain": lambda before, after, *task: score(after, *task) - score(before, *task),
        "change": lambda before, after, *task: f"{score(before, *task)} → {score(after, *task)}",
        "holds": lambda *gains: "yes" if min(gains) >= CLEAR else "no",
        "CLEAR": Number(CLEAR),
    }
    return environment


def render(values: Values) -> str:
    """Render the text of the page."""
    text = writer(values).get_template(f"{PAGE}.jinja").render()
    return re.sub(r"(?:^\|.*\n)+", lambda table: marked_once(table[0]), text, flags=re.M)


def marked_once(table: str) -> str:
    """Mark rows with older numbers in their first cell; if all rows are older, mark only the header."""
    lines = table.splitlines(keepends=True)
    older = [OLDER in line for line in lines]
    if all(older[2:]):
        older = [line is lines[0] for line in lines]
    lines = [line.replace(OLDER, "") for line in lines]
    return "".join(
        re.sub(r"(\S)( *\|)", rf"\1 {OLDER}\2", line, count=1) if old else line
        for line, old in zip(lines, older, strict=True)
    )


def kept_values() -> dict[str, Value]:
    """Return the stored values by kind and arguments; those of another computation count as not stored."""
    if not KEPT.is_file():
        return {}
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    today = kept["computation"] == COMPUTATION
    return {key: value if today else {**value, "from": []} for key, value in kept["values"].items()}


def keep_values(values: dict[str, Value]) -> None:
    """Store values of the current computation, and those without a stored result."""
    kept = {"computation": COMPUTATION, "values": dict(sorted(values.items()))}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def page() -> str:
    """Return the text of the page, from the stored values."""
    kept = kept_values()
    return render(lambda *asked: kept[" ".join(asked)])
