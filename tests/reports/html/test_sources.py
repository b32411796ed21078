"""Headings, BibTeX and commands below a leaderboard; ``test_page_browser`` reads them from the page."""

from __future__ import annotations

import shlex
from dataclasses import replace

from helpers.toy_tables import BOARD, NO_ROWS, score

from mirrorbench.reports.html.sources import (
    bibtex,
    column_sources,
    error_commands,
    full_heading,
    leaderboard_commands,
)
from mirrorbench.reports.table import Column, Row, Table, TaskSource, Verdict

SOURCE = TaskSource(
    "Multi-SimLex, English: pairs of words",
    '@article{one,\n url = "https://example.org/one"}\n@misc{two, note={x}}',
)


def table(*columns: Column, method: str = "base") -> Table:
    scores = tuple(score([0.5], column.name) for column in columns)
    return Table("", columns, (Row("a", "bert", scores, "bert", method, "paper"),))


def test_language_headings_name_task_and_language() -> None:
    column = Column("multisimlex-en", "EN", languages=("en",), source=SOURCE)
    assert full_heading(column) == "Multi-SimLex (English)"
    assert full_heading(replace(column, title="SimLex")) == "SimLex"
    assert full_heading(replace(column, source=None)) == "EN"
    assert full_heading(replace(column, source=TaskSource("Usim: usage", ""))) == "Usim"


def test_cited_papers_are_listed_once() -> None:
    columns = (Column("a", "A", source=SOURCE), Column("b", "B", source=SOURCE), Column("c", "C"))
    found = bibtex(table(*columns))
    assert found == f"{SOURCE.citation.partition(chr(10) + '@')[0]}\n\n@misc{{two, note={{x}}}}"
    of_method = bibtex(table(*columns, method="mirror"))
    assert of_method.endswith(found)
    assert of_method.startswith("@inproceedings{liu-etal-2021-fast")
    addresses = [address for _, _, address in column_sources(table(*columns))]
    assert addresses == ["https://example.org/one"] * 2


def test_commands_repeat_runs_of_equal_tasks_together() -> None:
    first, last, *_ = BOARD.rows[2:]
    rows = (*BOARD.rows[:2], first, last, replace(last, spec="x y", protocol="released"))
    lines = leaderboard_commands(replace(BOARD, rows=rows)).splitlines()
    all_tasks = "sts12,stsb,multisimlex-en,multisimlex-fr"
    run = ["mirrorbench", "run", "-e"]
    assert [shlex.split(line) for line in lines] == [
        [*run, "bert+base:pooling=cls", "-e", "bert+base:pooling=mean", "-t", all_tasks],
        [*run, first.spec, "-e", last.spec, "-t", f"{all_tasks},wic", "--seeds", "3"],
        [*run, "x y", "-t", f"{all_tasks},wic", "--seeds", "3", "--protocol", "released"],
        [
            *("mirrorbench", "leaderboard", "results", "--tasks", f"{all_tasks},wic"),
            *("--intervals", "--ties", "--title", BOARD.title, "--output", "leaderboard.html"),
        ],
    ]
    assert leaderboard_commands(NO_ROWS) == ""


def test_error_commands_compare_rows_on_single_tasks() -> None:
    verdict = Verdict("b+mirror", "b+base", "released", "stsb")
    others = (replace(verdict, column="avg. sts"), replace(verdict, column="sts12", best=True))
    command = "mirrorbench analyze errors -e b+base -e b+mirror -t stsb --protocol released"
    assert error_commands(replace(BOARD, verdicts=(verdict, *others))) == {
        ("b+mirror", "released"): {"stsb": command}
    }
