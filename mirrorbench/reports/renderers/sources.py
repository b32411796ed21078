"""What the page of a leaderboard says of its sources: tasks and papers, BibTeX, commands that make it anew."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.data.cards import Card
from mirrorbench.reports.table import Column, Table

_CITED_BY = {"mirror": "words-en", "mirrorwic": "quick-sentences"}
"""Of each method, a corpus whose card cites its paper."""
_ENTRY = re.compile(r"^@\w+\{([^,\s]+)", re.MULTILINE)
_ADDRESS = re.compile(r"""url\s*=\s*[{"](https?://[^}"]+)""")


def head_in_words(column: Column) -> str:
    """The head of a column; a language's code is preceded by the name of the task: ``Multi-SimLex (English)``."""
    card = builtin_cards().get(column.name)
    if card is None or column.title.lower() not in column.languages:
        return column.title
    name, comma, language = card.title.partition(":")[0].partition(", ")
    return f"{name} ({language})" if comma else name


def task_cards(table: Table) -> list[tuple[Column, Card, str]]:
    """The columns whose task comes with the package, its card, and the address of its paper."""
    cards = builtin_cards()
    found = [(column, cards[column.name]) for column in table.columns if column.name in cards]
    return [(column, card, (_ADDRESS.findall(card.citation) or [""])[0]) for column, card in found]


def bibtex(table: Table) -> str:
    """The BibTeX entries of the papers of a table's methods and tasks, each once."""
    methods = [_CITED_BY[row.method] for row in table.rows if row.method in _CITED_BY]
    cited = [builtin_cards()[name] for name in dict.fromkeys(methods)] + [card for _, card, _ in task_cards(table)]
    entries: dict[str, str] = {}
    for card in cited:
        starts = [*_ENTRY.finditer(card.citation)]
        ends = [*(start.start() for start in starts[1:]), len(card.citation)]
        for start, end in zip(starts, ends, strict=True):
            entries.setdefault(start[1], card.citation[start.start() : end].strip())
    return "\n\n".join(entries.values())


def commands(table: Table) -> str:
    """The commands that make the table anew: a run for rows of the same tasks, and the table."""
    tasks = [column.name for column in table.columns if not column.average_of]
    runs: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(table.rows):
        there = [c.name for c, s in zip(table.columns, row.scores, strict=True) if s and not c.average_of]
        if row.spec and there:
            runs.setdefault((",".join(there), row.protocol), []).append(i)
    lines = []
    for (names, protocol), found in runs.items():
        seeds = max(score.n for i in found for score in table.rows[i].scores if score)
        lines.append(_run_command(list(dict.fromkeys(table.rows[i].spec for i in found)), names, seeds, protocol))
    if not lines:
        return ""
    scores = [score for row in table.rows for score in row.scores if score]
    shown = ["mirrorbench", "leaderboard", "results", "--tasks", ",".join(tasks)]
    shown += ["--intervals"] if any(score.interval for score in scores) else []
    shown += ["--ties"] if any(score.tied for score in scores) else []
    shown += ["--title", table.title] if table.title else []
    return "\n".join([*lines, shlex.join([*shown, "--output", "leaderboard.html"])])


def _run_command(specs: Sequence[str], tasks: str, seeds: int, protocol: str) -> str:
    """The command that computes encoders on tasks, joined by commas."""
    words = ["mirrorbench", "run", *(word for spec in specs for word in ("-e", spec)), "-t", tasks]
    words += ["--seeds", str(seeds)] if seeds > 1 else []
    words += ["--protocol", protocol] if protocol not in ("", "paper") else []
    return shlex.join(words)


def item_commands(table: Table) -> dict[tuple[str, str], dict[str, str]]:
    """By spec and protocol of a row, and by task: the command that shows which items it changed, and how."""
    tasks = {column.name for column in table.columns if not column.average_of}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for verdict in table.verdicts:
        if verdict.best or verdict.column not in tasks:
            continue
        words = ["mirrorbench", "analyze", "errors", "-e", verdict.over, "-e", verdict.spec, "-t", verdict.column]
        words += ["--protocol", verdict.protocol] if verdict.protocol not in ("", "paper") else []
        found.setdefault((verdict.spec, verdict.protocol), {})[verdict.column] = shlex.join(words)
    return found
