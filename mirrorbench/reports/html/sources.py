"""Text about a leaderboard on its page: sources of the tasks, BibTeX, commands that make the table again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from mirrorbench.data.card_files import builtin_cards
from mirrorbench.reports.table import Column, Row, Table, TaskSource

_CORPORA = {"mirror": "words-en", "mirrorwic": "quick-sentences"}
"""A corpus for each method whose card cites the paper of the method."""
_ENTRY = re.compile(r"^@\w+\{([^,\s]+)", re.MULTILINE)
_ADDRESS = re.compile(r"""url\s*=\s*[{"](https?://[^}"]+)""")


def full_heading(column: Column) -> str:
    """Return the heading of a column; the code of a language becomes task and language: ``Multi-SimLex (English)``."""
    if column.source is None or column.title.lower() not in column.languages:
        return column.title
    name, comma, language = column.source.title.partition(":")[0].partition(", ")
    return f"{name} ({language})" if comma else name


def column_sources(table: Table) -> list[tuple[Column, TaskSource, str]]:
    """Return the columns that state a source, each with its source and the address of the paper (or "")."""
    sources = [(column, column.source) for column in table.columns if column.source]
    return [
        (column, source, (_ADDRESS.findall(source.citation) or [""])[0])
        for column, source in sources
    ]


def bibtex(table: Table) -> str:
    """Return the BibTeX entries of the papers of the table's methods and tasks, each once."""
    methods = [_CORPORA[row.method] for row in table.rows if row.method in _CORPORA]
    cited = [builtin_cards()[name].citation for name in dict.fromkeys(methods)]
    entries: dict[str, str] = {}
    for citation in (*cited, *(source.citation for _, source, _ in column_sources(table))):
        starts = [*_ENTRY.finditer(citation)]
        ends = [*(start.start() for start in starts[1:]), len(citation)]
        for start, end in zip(starts, ends, strict=True):
            entries.setdefault(start[1], citation[start.start() : end].strip())
    return "\n\n".join(entries.values())


def leaderboard_commands(table: Table) -> str:
    """Return the commands that make the table again: a run for rows with scores on the same tasks, and the table."""
    tasks = [column.name for column in table.columns if not column.average_of]
    runs: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        scored = [
            c.name for c, s in zip(table.columns, row.scores, strict=True) if s and not c.average_of
        ]
        if row.spec and scored:
            runs.setdefault((",".join(scored), row.protocol), []).append(row)
    if not runs:
        return ""
    lines = [_run_command(rows, names, protocol) for (names, protocol), rows in runs.items()]
    scores = [score for row in table.rows for score in row.scores if score]
    shown = ["mirrorbench", "leaderboard", "results", "--tasks", ",".join(tasks)]
    shown += ["--intervals"] if any(score.interval for score in scores) else []
    shown += ["--ties"] if any(score.tied for score in scores) else []
    shown += ["--title", table.title] if table.title else []
    return "\n".join([*lines, shlex.join([*shown, "--output", "leaderboard.html"])])


def _run_command(rows: Sequence[Row], tasks: str, protocol: str) -> str:
    """The command that computes the encoders of rows on tasks, which are joined by commas."""
    seeds = max(score.n for row in rows for score in row.scores if score)
    specs = dict.fromkeys(row.spec for row in rows)
    words = ["mirrorbench", "run", *(word for spec in specs for word in ("-e", spec)), "-t", tasks]
    words += ["--seeds", str(seeds)] if seeds > 1 else []
    words += ["--protocol", protocol] if protocol not in ("", "paper") else []
    return shlex.join(words)


def error_commands(table: Table) -> dict[tuple[str, str], dict[str, str]]:
    """Return the ``mirrorbench analyze errors`` commands of each row, by (spec, protocol) and then by task."""
    tasks = {column.name for column in table.columns if not column.average_of}
    by_row: dict[tuple[str, str], dict[str, str]] = {}
    for verdict in table.verdicts:
        if verdict.best or verdict.column not in tasks:
            continue
        words = [
            "mirrorbench",
            "analyze",
            "errors",
            "-e",
            verdict.over,
            "-e",
            verdict.spec,
            "-t",
            verdict.column,
        ]
        words += ["--protocol", verdict.protocol] if verdict.protocol not in ("", "paper") else []
        by_row.setdefault((verdict.spec, verdict.protocol), {})[verdict.column] = shlex.join(words)
    return by_row
