"""What a page says of its leaderboard: sources of the tasks, BibTeX, commands that make the table again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from mirrorbench.data.card_files import builtin_cards
from mirrorbench.reports.table import Column, Row, Table, TaskSource

_CARDS_OF_METHODS = {"mirror": "words-en", "mirrorwic": "quick-sentences"}
"""For each method a card (of a corpus) that cites the method's paper."""
_ENTRY = re.compile(r"^@\w+\{([^,\s]+)", re.MULTILINE)
_ADDRESS = re.compile(r"""url\s*=\s*[{"](https?://[^}"]+)""")


def full_heading(column: Column) -> str:
    """Return the heading of a column; a mere language code becomes task and language: ``Multi-SimLex (English)``."""
    if column.source is None or column.title.lower() not in column.languages:
        return column.title
    # Such as "Multi-SimLex, English: lexical similarity".
    name_and_language, _, _ = column.source.title.partition(":")
    name, comma, language = name_and_language.partition(", ")
    return f"{name} ({language})" if comma else name


def column_sources(table: Table) -> list[tuple[Column, TaskSource, str]]:
    """Return the columns that state a source, each with its source and the address of the paper (or "")."""
    sources = []
    for column in table.columns:
        if column.source:
            address = _ADDRESS.search(column.source.citation)
            sources.append((column, column.source, address[1] if address else ""))
    return sources


def bibtex(table: Table) -> str:
    """Return the BibTeX entries of the papers of the table's methods and tasks, each once."""
    methods = dict.fromkeys(row.method for row in table.rows if row.method in _CARDS_OF_METHODS)
    citations = [builtin_cards()[_CARDS_OF_METHODS[method]].citation for method in methods]
    citations += [source.citation for _, source, _ in column_sources(table)]
    entries_by_key: dict[str, str] = {}
    for citation in citations:
        matches = list(_ENTRY.finditer(citation))
        # An entry ends where the next one starts.
        ends = [match.start() for match in matches[1:]] + [len(citation)]
        for match, end in zip(matches, ends, strict=True):
            entries_by_key.setdefault(match[1], citation[match.start() : end].strip())
    return "\n\n".join(entries_by_key.values())


def leaderboard_commands(table: Table) -> str:
    """Return the commands that make the table again, one a line; empty if no encoder has a score.

    Rows with scores on the same tasks share a ``run``; the last command makes the page.
    """
    rows_by_run: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        tasks = []
        for column, score in zip(table.columns, row.scores, strict=True):
            if score and not column.average_of:
                tasks.append(column.name)
        if row.spec and tasks:
            rows_by_run.setdefault((",".join(tasks), row.protocol), []).append(row)
    if not rows_by_run:
        return ""
    commands = [
        _run_command(rows, tasks, protocol) for (tasks, protocol), rows in rows_by_run.items()
    ]
    commands.append(_table_command(table))
    return "\n".join(commands)


def _run_command(rows: Sequence[Row], tasks: str, protocol: str) -> str:
    """Return the command that computes the encoders of rows on tasks, which are joined by commas."""
    words = ["mirrorbench", "run"]
    for spec in dict.fromkeys(row.spec for row in rows):
        words += ["-e", spec]
    words += ["-t", tasks]
    n_seeds = max(score.n for row in rows for score in row.scores if score)
    if n_seeds > 1:
        words += ["--seeds", str(n_seeds)]
    return shlex.join([*words, *_protocol_option(protocol)])


def _table_command(table: Table) -> str:
    """Return the command that makes the page from stored results."""
    tasks = ",".join(column.name for column in table.task_columns)
    scores = [score for row in table.rows for score in row.scores if score]
    words = ["mirrorbench", "leaderboard", "results", "--tasks", tasks]
    if any(score.interval for score in scores):
        words.append("--intervals")
    if any(score.tied for score in scores):
        words.append("--ties")
    if table.title:
        words += ["--title", table.title]
    return shlex.join([*words, "--output", "leaderboard.html"])


def _protocol_option(protocol: str) -> list[str]:
    """Return the words of the option ``--protocol``; an empty list for the default protocol."""
    if protocol in ("", "paper"):
        return []
    return ["--protocol", protocol]


def error_commands(table: Table) -> dict[tuple[str, str], dict[str, str]]:
    """Return the ``mirrorbench analyze errors`` commands of each row, by (spec, protocol) and then by task."""
    tasks = {column.name for column in table.task_columns}
    commands_by_row: dict[tuple[str, str], dict[str, str]] = {}
    for verdict in table.verdicts:
        if verdict.best or verdict.column not in tasks:
            continue
        words = ["mirrorbench", "analyze", "errors"]
        words += ["-e", verdict.over, "-e", verdict.spec, "-t", verdict.column]
        words += _protocol_option(verdict.protocol)
        commands = commands_by_row.setdefault((verdict.spec, verdict.protocol), {})
        commands[verdict.column] = shlex.join(words)
    return commands_by_row
