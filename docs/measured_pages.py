"""The pages ``claims.md`` and ``measured.md``, written from kept values.

A page's text is a template in ``docs/measurements`` that names what it shows, as ``score("tiny+mirror", "sts")``;
``values.json`` beside it holds the values, which ``docs/measure.py`` renews. A value that is from no
stored result is of an earlier measurement, and is marked wherever it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from mirrorbench.core.identity import COMPUTATION
from mirrorbench.reports import renderers
from mirrorbench.reports.renderers.notes import p_words
from mirrorbench.reports.table import read_table

FOLDER = Path(__file__).resolve().parent / "measurements"
KEPT = FOLDER / "values.json"
PAGES = ("claims.md", "measured.md")
OLDER = "†"
CLEAR = 0.005
"""From which difference on a score counts as better than another in the verdicts."""
KINDS = ("score", "mean", "deviation", "seconds", "analysis", "overlap", "shared")
"""Of values that are a single number; ``docs/measure.py`` has a function of each name."""
TESTED = ("compared", "unseen")
"""Of values that are a difference with its interval and p-value."""
Value = dict[str, Any]
Values = Callable[..., Value]
"""From a kind and its arguments to the fields of a value."""


class Number(float):
    """A number on a page; ``older``: of an earlier measurement."""

    older = False

    @classmethod
    def of(cls, value: float, *sources: object) -> Number:
        """Make a number from values, marked if any of them is older."""
        number = cls(value)
        number.older = any(getattr(source, "older", False) for source in sources)
        return number

    def __sub__(self, subtrahend: float) -> Number:
        return Number.of(float(self) - float(subtrahend), self, subtrahend)

    def __truediv__(self, divisor: float) -> Number:
        return Number.of(float(self) / float(divisor), self, divisor)

    def __str__(self) -> str:
        return renderers.number(self, 3 if abs(self) < 1 else 2) + OLDER * self.older


def signed(value: Number) -> str:
    """A difference with its sign."""
    return f"{'+' if value > 0 else ''}{value}"


def whole(value: Number) -> str:
    """Rounded to a whole number."""
    return f"{float(value):,.0f}" + OLDER * value.older


def percent(value: Number) -> str:
    """A share in percent."""
    return f"{float(value):.0%}".replace("%", " %") + OLDER * value.older


def writer(values: Values) -> jinja2.Environment:
    """What templates may call: each returns a number or a text."""

    def plain(kind: str, *arguments: str) -> Number:
        value = values(kind, *arguments)
        number = Number(value["value"])
        number.older = not value["from"]
        return number

    def tested(kind: str, *arguments: str) -> str:
        value = values(kind, *arguments)
        ends = ", ".join(map(renderers.number, value["interval"]))
        return f"{signed(Number(value['value']))} [{ends}], p {p_words(value['p'])}{OLDER * (not value['from'])}"

    score = partial(plain, "score")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
        trim_blocks=True, lstrip_blocks=True, autoescape=False,
    )  # fmt: skip
    environment.filters |= {"signed": signed, "whole": whole, "percent": percent}
    environment.globals |= {
        **{kind: partial(plain, kind) for kind in KINDS},
        "gain": lambda before, after, *task: score(after, *task) - score(before, *task),
        "change": lambda before, after, *task: f"{score(before, *task)} → {score(after, *task)}",
        "gained": lambda after, before, task: plain("mean", after, task) - plain("mean", before, task),
        **{kind: partial(tested, kind) for kind in TESTED},
        "holds": lambda *gains: "holds" if min(gains) >= CLEAR else "does not hold",
        "CLEAR": Number(CLEAR), "table": table,
    }  # fmt: skip
    return environment


def table(name: str) -> str:
    """A kept table with its verdicts, without notes."""
    return renderers.markdown(replace(read_table(FOLDER / f"{name}.json"), notes=())).rstrip()


def render(page: str, values: Values) -> str:
    """The text of a page."""
    return writer(values).get_template(f"{page}.jinja").render()


def kept_values() -> dict[str, Value]:
    """The kept values, by kind and arguments; those of another computation are from no stored result."""
    if not KEPT.is_file():
        return {}
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    today = kept["computation"] == COMPUTATION
    return {key: value if today else {**value, "from": []} for key, value in kept["values"].items()}


def keep_values(values: dict[str, Value]) -> None:
    """Keep values of today's computation, and those that are from no stored result."""
    kept = {"computation": COMPUTATION, "values": dict(sorted(values.items()))}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def pages() -> dict[str, str]:
    """Name and text of each page, from the kept values."""
    kept = kept_values()
    return {page: render(page, lambda *asked: kept[" ".join(asked)]) for page in PAGES}
