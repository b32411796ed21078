"""Short notes say who won, on what, by how much, and what to distrust; all notes say everything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.toy_tables import BOARD, EMPTY, HOSTILE

from mirrorbench.core.errors import UnknownNameError
from mirrorbench.reports.renderers import (
    markdown,
    number,
)
from mirrorbench.reports.renderers.notes import (
    HINT_AT_ALL_NOTES,
    MOST_LINES,
    note_lines,
    summary_lines,
)
from mirrorbench.reports.table import NOTES, Column, Row, Score, Table, Unseen, Verdict

BASE, STATIC, TUNED, WHITENED = (
    "bert+base:pooling=mean",
    "bert+static",
    "bert+mirror",
    "bert+mirror:post=whiten",
)


def row(spec: str, label: str, value: float) -> Row:
    method = spec.partition("+")[2].partition(":")[0]
    return Row(
        label, spec, (Score(value, None, 1),), "bert", method, "paper", tuned=method == "mirror"
    )


ROWS = (
    row(BASE, "BERT-mp", 0.4),
    row(STATIC, "BERT-static", 0.45),
    row(TUNED, "BERT + Mirror", 0.5),
    row(WHITENED, "BERT + Mirror, whitened (256)", 0.48),
)
GAIN = Verdict(
    TUNED,
    BASE,
    "paper",
    "sts",
    0.1,
    (0.08, 0.12),
    0.0001,
    0.0004,
    True,
    unseen=Unseen(0.383, 0.06, (0.04, 0.08), 0.001),
    this_model=True,
    n_tests=4,
)
LOSS = Verdict(
    WHITENED, TUNED, "paper", "sts", -0.02, (-0.03, -0.01), 0.004, 0.012, True, n_tests=3
)
OVER_BEST = Verdict(
    TUNED,
    STATIC,
    "paper",
    "sts",
    0.05,
    (0.01, 0.09),
    0.01,
    0.03,
    True,
    best=True,
    unseen=Unseen(0.383, -0.01, (-0.03, 0.01), 0.3),
    n_tests=3,
)
COLUMN = Column(
    "sts", "STS", "", "sentence", ("en",), "spearman", (), "sentence pairs", 1379, 0.383
)
TABLE = Table(
    "", (COLUMN,), ROWS, ("Protocol: paper.",), verdicts=(GAIN, LOSS, OVER_BEST), shown="short"
)


def short(table: Table) -> list[str]:
    return [f"{mark} {note}".strip() for mark, note in note_lines(table)]


def test_short_notes_summarise_gains_in_six_lines() -> None:
    assert short(TABLE) == [
        "+ Mirror beats the untuned model (mp): +.100 [.080, .120], p < .001 (4 tests)",
        "+ Mirror beats the best untuned row (static): +.050 [.010, .090], p = .010 (3 tests: .030)",
        "- Mirror, whitened (256) loses to Mirror: -.020 [-.030, -.010], p = .0040 (3 tests: .012)",
        "STS: Spearman's correlation, 1,379 sentence pairs; one seed (--seeds 3 for more)",
        "! 38% of the sentence pairs contain a text of the tuning corpus "
        "(without them +.060 [.040, .080]; -.010 [-.030, .010])",
        f"Intervals are for one test each, except the best row's. {HINT_AT_ALL_NOTES}",
    ]


def test_missing_gain_comes_first_in_short_notes() -> None:
    weak = replace(
        GAIN,
        difference=-0.01,
        interval=(-0.03, 0.01),
        p=0.2,
        corrected=0.2,
        separable=False,
        unseen=None,
        n_tests=1,
    )
    lines = short(replace(TABLE, verdicts=(weak,)))
    assert lines[0] == (
        "= No separable difference: Mirror over the untuned model (mp) -.010 [-.030, .010], p = .20"
    )
    assert "! 38% of the sentence pairs contain a text of the tuning corpus" in lines


def test_average_gain_note_uses_full_row_names() -> None:
    """The average speaks for the columns; seeds and missing scores are counted."""
    columns = (
        COLUMN,
        replace(COLUMN, name="b", title="B"),
        Column("avg.", "avg.", average_of=("sts", "b")),
    )
    other = Row(
        "RoBERTa-mp", "roberta+base", (Score(0.3, None, 1), None, None), "roberta", "base", "paper"
    )
    seeds = Score(0.5, 0.01, 3)
    rows = (
        replace(ROWS[0], scores=(seeds, seeds, seeds)),
        replace(ROWS[2], scores=(seeds, seeds, seeds)),
        other,
    )
    lines = short(
        replace(
            TABLE,
            columns=columns,
            rows=rows,
            verdicts=(GAIN, replace(GAIN, column="avg.", unseen=None)),
        )
    )
    assert lines[0] == (
        "+ BERT + Mirror beats BERT-mp on average over 2 tasks: +.100 [.080, .120], p < .001 (4 tests)"
    )
    assert lines[1:3] == [
        "2 tasks: Spearman's correlation, 2,758 sentence pairs; 3 seeds (±)",
        "! 38% of the sentence pairs on STS contain a text of the tuning corpus",
    ]


def test_largest_gain_is_noted_without_an_average() -> None:
    columns = (COLUMN, replace(COLUMN, name="b", title="B"), replace(COLUMN, name="c", title="C"))
    rows = tuple(replace(row, scores=row.scores * 3) for row in ROWS)
    none = replace(
        GAIN,
        column="sts",
        difference=0.01,
        interval=(-0.01, 0.03),
        p=0.3,
        corrected=0.3,
        separable=False,
    )
    verdicts = (none, replace(GAIN, column="b"), replace(none, column="c"))
    (first, *_) = short(replace(TABLE, columns=columns, rows=rows, verdicts=verdicts))
    assert first == (
        "+ Mirror beats the untuned model (mp) on B: +.100 [.080, .120], p < .001 (4 tests); no separable difference on STS, C"
    )


def test_best_row_without_a_verdict_is_named() -> None:
    def leader(table: Table) -> list[str]:
        return [text for _, text in summary_lines(table) if text.startswith("Best")]

    untested = replace(TABLE, verdicts=())
    values = sorted((s.mean for row in TABLE.rows for s in row.scores if s), reverse=True)
    (line,) = leader(untested)
    assert f" {number(values[0])}, then " in line
    assert f" {number(values[1])}; not tested against it" in line
    assert leader(TABLE) == []
    second = next(row for row in TABLE.rows if row.scores[0] and row.scores[0].mean == values[1])
    tied = replace(second, scores=(replace(second.scores[0], tied=True),))
    rows = tuple(tied if row is second else row for row in TABLE.rows)
    assert leader(replace(untested, rows=rows))[0].endswith(f"; not separable from {second.label}")
    assert leader(replace(untested, rows=TABLE.rows[:1])) == []


def test_warnings_precede_remaining_notes() -> None:
    warned = replace(
        TABLE, warnings=("Mixed, not comparable: a. The newest counts.", "b"), notes=("missing: c",)
    )
    lines = short(warned)
    assert len(lines) == MOST_LINES
    assert lines[-2] == "! Mixed, not comparable: a"
    assert short(replace(warned, verdicts=()))[2:4] == ["! Mixed, not comparable: a", "! b"]
    assert {"b", "missing: c"} <= {note for _, note in note_lines(warned.with_notes("all"))}


@pytest.mark.parametrize("table", [BOARD, EMPTY, HOSTILE, TABLE])
def test_note_levels_show_none_short_or_all(table: Table) -> None:
    """None is none; short is at most six lines; all has each note, the dagger's only where one stands."""
    assert note_lines(table.with_notes("none")) == []
    assert len(note_lines(table.with_notes("short"))) <= MOST_LINES
    tied = any(score and score.tied for one in table.rows for score in one.scores)
    every = [note for _, note in note_lines(table.with_notes("all"))]
    assert {note for note in table.notes if not note.startswith("Tied")} <= set(every)
    assert any(line.startswith("† Tied: ") for line in every) == tied
    assert markdown(table.with_notes("short")).startswith(
        markdown(table.with_notes("none")).rstrip()
    )
    with pytest.raises(UnknownNameError, match="few"):
        table.with_notes("few")
    assert NOTES == ("none", "short", "all")
