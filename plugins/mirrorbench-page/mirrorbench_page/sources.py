"""Sources on the page of a leaderboard: tasks and papers, BibTeX, commands that make it anew."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from mirrorbench.plugin import Column, Table, TaskSource, builtin_cards

_CITED_BY = {"mirror": "words-en", "mirrorwic": "quick-sentences"}
"""A corpus for each method, whose card cites its paper."""
_ENTRY = re.compile(r"^@\w+\{([^,\s]+)", re.MULTILINE)
_ADDRESS = re.compile(r"""url\s*=\s*[{"](https?://[^}"]+)""")


def head_in_words(column: Column) -> str:
    """The head of a column; a language's code is preceded by the name of the task: ``Multi-SimLex (English)``."""
    if column.source is None or column.title.lower() not in column.languages:
        return column.title
    name, comma, language = column.source.title.partition(":")[0].partition(", ")
    return f"{name} ({language})" if comma else name


def with_source(table: Table) -> list[tuple[Column, TaskSource, str]]:
    """The columns whose data have a card, what it says of their source, and the address of their paper."""
    sources = [(column, column.source) for column in table.columns if column.source]
    return [(column, source, (_ADDRESS.findall(source.citation) or [""])[0]) for column, source in sources]


def bibtex(table: Table) -> str:
    """The BibTeX entries of the papers of a table's methods and tasks, each once."""
    methods = [_CITED_BY[row.method] for row in table.rows if row.method in _CITED_BY]
    cited = [builtin_cards()[name].citation for name in dict.fromkeys(methods)]
    entries: dict[str, str] = {}
    for citation in (*cited, *(source.citation for _, source, _ in with_source(table))):
        starts = [*_ENTRY.finditer(citation)]
        ends = [*(start.start() for start in starts[1:]), len(citation)]
        for start, end in zip(starts, ends, strict=True):
            entries.setdefault(start[1], citation[start.start() : end].strip())
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
    for (names, protocol), indices in runs.items():
        seeds = max(score.n for i in indices for score in table.rows[i].scores if score)
        lines.append(_run_command(list(dict.fromkeys(table.rows[i].spec for i in indices)), names, seeds, protocol))
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
    by_row: dict[tuple[str, str], dict[str, str]] = {}
    for verdict in table.verdicts:
        if verdict.best or verdict.column not in tasks:
            continue
        words = ["mirrorbench", "analyze", "errors", "-e", verdict.over, "-e", verdict.spec, "-t", verdict.column]
        words += ["--protocol", verdict.protocol] if verdict.protocol not in ("", "paper") else []
        by_row.setdefault((verdict.spec, verdict.protocol), {})[verdict.column] = shlex.join(words)
    return by_row
