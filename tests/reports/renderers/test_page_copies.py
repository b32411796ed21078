"""What the page copies, and the notes and numbers that it shows, are those of the command, for what is shown."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from harness.browser import browser, choose, copied, shown, unpadded
from toy_tables import BOARD, EMPTY, HOSTILE, SIMLEX, STS

from mirrorbench.reports.renderers import comma_separated, latex, markdown, number
from mirrorbench.reports.table import Note, Part, Table, Verdict, read_table

__all__ = ["browser", "shown"]


@pytest.mark.parametrize("table", [BOARD, HOSTILE, replace(BOARD, title="", notes=())])
def test_what_it_copies_is_what_the_command_renders(shown: Callable, table: Table) -> None:
    page = shown(table)
    assert copied(page, "latex") == latex(table)
    text = copied(page, "markdown")
    assert unpadded(text) == unpadded(markdown(table))


def test_what_it_copies_is_what_it_shows(shown: Callable) -> None:
    page = shown(BOARD)
    choose(page, "suite", "simlex")
    choose(page, "text", "BERT mirror")
    text = copied(page, "latex")
    assert r"encoder & EN & FR & avg. \\" in text
    assert r"BERT + Mirror & \textbf{.510 $\pm$ .010}\,{\scriptsize [" in text
    assert "BERT-CLS" not in text


def test_notes_are_on_what_is_shown(shown: Callable) -> None:
    rows = {row.label: row for row in BOARD.rows}
    tuned, base = rows["BERT + Mirror"], rows["BERT-mp"]
    verdict = Verdict(
        tuned.spec, base.spec, base.protocol, "multisimlex-en", 0.1, (0.05, 0.2), "swaps", 0.01, 0.01, True
    )
    page = shown(replace(BOARD, notes=("wic: Every pair.", "Tied by a test."), verdicts=(verdict,)))

    def notes() -> list[str]:
        return [e.text.split(" ")[0] for e in page.find_elements("css selector", "#notes li") if e.is_displayed()]

    assert notes() == ["BERT", "wic:", "†"]
    choose(page, "suite", "simlex")
    assert notes() == ["BERT"]  # no score of these columns is tied
    choose(page, "text", "RoBERTa")
    assert notes() == []
    assert "BERT + Mirror over" not in copied(page, "markdown")
    assert "Every pair" not in copied(page, "latex")


def test_a_note_keeps_the_parts_on_what_is_shown(shown: Callable) -> None:
    wic = [row.spec for row in BOARD.rows if row.scores[6]]
    overlap = Note("Seen: ", (Part("stsb 16%", ("stsb",), (wic[0],)), Part("wic_dev 2%", ("wic",), tuple(wic))))
    metric = Note("Metric: ", (Part("accuracy", ("wic",)), Part("correlation", (*STS, *SIMLEX))))
    page = shown(replace(BOARD, notes=(str(metric), str(overlap)), parted=(metric, overlap)))

    def shown_notes() -> list[str]:
        return [e.text for e in page.find_elements("css selector", "#notes li") if e.is_displayed()][:2]

    whole = shown_notes()
    assert whole == ["Metric: accuracy, correlation.", "Seen: stsb 16%, wic_dev 2%."]
    choose(page, "suite", "wic")
    assert shown_notes() == ["Metric: accuracy.", "Seen: wic_dev 2%."]
    assert r"Metric: accuracy. Seen: wic\_dev 2\%." in copied(page, "latex")
    assert "\n\nSeen: wic_dev 2%.\n" in copied(page, "markdown")
    choose(page, "suite", "simlex")
    assert shown_notes() == ["Metric: correlation."]
    choose(page, "suite", "")
    choose(page, "text", "RoBERTa-mp")
    assert shown_notes() == ["Metric: accuracy, correlation."]
    choose(page, "text", "")
    assert shown_notes() == whole


@pytest.mark.parametrize("table", [BOARD, HOSTILE])
def test_the_csv_is_that_of_the_command(shown: Callable, table: Table) -> None:
    ours = list(csv.reader(io.StringIO(comma_separated(table), newline="")))
    theirs = list(csv.reader(io.StringIO(shown(table).execute_script("return csv()"), newline="")))
    assert theirs[0] == ours[0]
    for line, expected in zip(theirs[1:], ours[1:], strict=True):
        assert line[:2] == expected[:2]
        assert [value and float(value) for value in line[2:]] == [value and float(value) for value in expected[2:]]


def test_the_json_is_a_table_that_the_command_reads(shown: Callable, tmp_path: Path) -> None:
    rows = (replace(BOARD.rows[0], parameters=110_000_000, dimensions=768), *BOARD.rows[1:])
    table = replace(BOARD, rows=rows, notes=("One.",))
    page, path = shown(table), tmp_path / "shown.json"
    path.write_text(page.execute_script("return json()"), encoding="utf-8")
    read = read_table(path)
    assert (read.title, read.columns, read.rows) == (table.title, table.columns, table.rows)
    choose(page, "suite", "simlex")
    choose(page, "text", "mirror")
    path.write_text(page.execute_script("return json()"), encoding="utf-8")
    read = read_table(path)
    assert [c.name for c in read.columns] == [*SIMLEX, "avg. simlex"]
    assert [row.scores for row in read.rows] == [row.scores[3:6] for row in table.rows[2:4]]


def test_numbers_are_those_of_the_command(shown: Callable) -> None:
    values = [i / 16 for i in range(-16, 17)] + [i / 977 - 0.5 for i in range(977)] + [1e-9, -1e-9, 0.9995, 12.3456]
    page = shown(EMPTY)
    assert page.execute_script("return arguments[0].map(number)", values) == [number(v) for v in values]
