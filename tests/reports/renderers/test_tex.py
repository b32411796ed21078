"""LaTeX: marks, groups, options, escaping."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.toy_tables import BOARD, EMPTY, HOSTILE, NASTY, NO_ROWS
from helpers.typesetting import (
    HEADS,
    assert_nothing_leaves_the_page,
    document,
    natural_widths,
    one_document,
)

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.renderers import (
    escape_latex,
    latex,
    number,
)
from mirrorbench.reports.table import Table, Verdict, read_table

RENDERED = [
    read_table(path)
    for path in (Path(__file__).parents[3] / "leaderboards" / "rendered").glob("*.json")
]


PLAIN = replace(
    BOARD,
    rows=tuple(
        replace(r, scores=tuple(s and replace(s, interval=None) for s in r.scores))
        for r in BOARD.rows
    ),
)


def test_latex_table_has_marks_groups_and_blocks() -> None:
    lines = latex(PLAIN, columns=2).splitlines()
    assert lines[:5] == [
        r"% Needs \usepackage{booktabs,threeparttable,graphicx}",
        r"% In \small it is about 629 pt wide (a column: 219 pt), so it is set over both columns, scaled down",
        "% A float for each suite: --format latex:split=true",
        r"\begin{table*}[t]",
        r"\centering",
    ]
    assert r"\begin{tabular}{lcccccccc}" in lines
    head = lines.index(r"\toprule")
    assert lines[head + 1 : head + 5] == [
        r"& \multicolumn{3}{c}{sts} & \multicolumn{3}{c}{simlex} & \multicolumn{1}{c}{wic} & \multicolumn{1}{c}{} \\",
        r"\cmidrule(lr){2-4} \cmidrule(lr){5-7} \cmidrule(lr){8-8}",
        r"encoder & STS12 & STS-b & avg. & EN & FR & avg. & WiC & avg. \\",
        r"\midrule",
    ]
    assert r"BERT-CLS & .215 & .203 & .209 & $-$.042 & .562 & .260 & -- & -- \\" in lines
    mirror = next(line for line in lines if line.startswith("BERT + Mirror"))
    assert r"\textbf{.670 $\pm$ .010} & \underline{.760 $\pm$ .010}$^\dagger$ &" in mirror
    rows = [line for line in lines[head + 5 :] if line.endswith(r"\\") or line == r"\midrule"]
    assert rows.index(r"\midrule") == 3  # between the rows of BERT and those of RoBERTa
    assert rows.count(r"\midrule") == 1
    end = lines.index(r"\end{tabular}")
    assert lines[end + 3 :] == [
        r"\begin{tablenotes}[flushleft]",
        r"\scriptsize",
        r"\item Best on average over 5 tasks: RoBERTa + Mirror .710, then BERT + Mirror .622; not tested against it.",
        r"\item 5 tasks: Spearman's correlation (4), accuracy (1); $^\dagger$ not separable from the best.",
        r"\item Metric: accuracy, spearman.",
        r"\item $^\dagger$ Tied: by some test.",
        r"\item missing: roberta+base on wic.",
        r"\end{tablenotes}",
        r"\end{threeparttable}",
        r"\caption{English and French}",
        r"\label{tab:english-and-french}",
        r"\end{table*}",
    ]


def test_latex_percent_option_shows_one_digit() -> None:
    """The ranks stay those of three digits; verdicts and intervals are in percent too."""
    verdict = Verdict(
        "bert+mirror",
        "bert+base:pooling=mean",
        "paper",
        "sts12",
        0.356,
        (0.3, 0.4),
        0.01,
        0.02,
        True,
    )
    text = latex(replace(PLAIN, verdicts=(verdict,)), percent=True, deviations=False, label="x")
    assert r"BERT-CLS & 21.5 & 20.3 & 20.9 & $-$4.2 & 56.2 & 26.0 & -- & -- \\" in text
    assert r"BERT + Mirror & \textbf{67.0} & \underline{76.0}$^\dagger$ & \textbf{71.5} &" in text
    assert "on STS12: +35.6 [30.0, 40.0], p = .010 (several tests: .020)." in text
    assert r"\label{x}" in text
    assert r"\pm" not in text.partition(r"\end{tabular}")[0]
    with pytest.raises(UsageError, match="as printed"):
        latex(replace(PLAIN, layout="facts"), percent=True)


def test_latex_text_is_escaped() -> None:
    text = escape_latex(NASTY)
    assert (
        r"50\% of\_\{x\} \& \$y\$ \#1 \textasciitilde{}\textasciicircum{}\textbackslash{}" in text
    )
    assert "[U+4E2D]" in text  # no font of pdflatex has it
    assert escape_latex("a\u2028b\x00c\nd") == "a b c d"


LONG = replace(
    PLAIN,
    title="Sixty encoders",
    rows=tuple(
        replace(
            PLAIN.rows[i % 3],
            label=f"{i} {'all but the top ' * (i % 4)}",
            spec=f"s{i}",
            backbone=f"b{i // 7}",
        )
        for i in range(60)
    ),
)


TABLES = [HOSTILE, BOARD, LONG, EMPTY, NO_ROWS, replace(BOARD, rows=BOARD.rows[:2]), *RENDERED]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"percent": True, "deviations": False}, {"split": True}])
def test_standalone_latex_tables_fit_the_page(tmp_path: Path, options: dict[str, Any]) -> None:
    documents = [latex(table, standalone=True, **options) for table in TABLES]
    assert_nothing_leaves_the_page(tmp_path, one_document(documents))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"percent": True, "deviations": False}, {"split": True}])
@pytest.mark.parametrize("name", list(HEADS))
def test_latex_tables_fit_the_column(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    columns = 1 if name.startswith("article") else 2
    bodies = [
        latex(table.with_notes(notes), columns=columns, **options)
        for table in [*TABLES, MANY_NOTES, NARROW]
        for notes in ("short", "all")
    ]
    assert_nothing_leaves_the_page(tmp_path, document(HEADS[name], bodies))


@pytest.mark.slow
def test_estimated_widths_are_slightly_above_real_ones(tmp_path: Path) -> None:
    boards = [BOARD, PLAIN, _first_columns(BOARD, 3), *RENDERED]
    texts = [latex(table, columns=columns) for table in boards for columns in (1, 2)]
    real = natural_widths(tmp_path, texts)
    sizes = [re.search(r"\\centering\n\\(\w+)", text) for text in texts]
    for text, size, points in zip(texts, sizes, real, strict=True):
        assert size is not None
        stated = re.search(r"about (\d+) pt wide \(", text)
        if stated and size[1] == "small":
            assert points <= int(stated[1]) <= 1.12 * points


def _first_columns(table: Table, n: int) -> Table:
    rows = tuple(replace(row, scores=row.scores[:n]) for row in table.rows)
    return replace(table, columns=table.columns[:n], rows=rows)


NARROW = _first_columns(PLAIN, 1)
MANY_NOTES = replace(PLAIN, notes=tuple(f"Note {n}: {'many words ' * 20}" for n in range(60)))


def test_wide_table_becomes_wide_float_then_smaller() -> None:
    """The preferred way first: a float over both columns, then a smaller size, at last scaled down."""

    def ways(columns: int) -> list[tuple[str, str, bool]]:
        found = []
        for n in (1, 3, 4, 9):
            text = latex(_first_columns(PLAIN, n), columns=columns, deviations=n > 3)
            (name,) = set(re.findall(r"\\begin\{(table\*?)\}", text))
            size = re.findall(r"\\centering\n\\(\w+)", text)[0]
            assert (r"\small it is about" in text) == ((name, size) != ("table", "small"))
            found.append((name, size, "resizebox" in text))
        return found

    assert ways(2) == [
        ("table", "small", False),
        ("table", "small", False),
        ("table*", "small", False),
        ("table*", "scriptsize", True),
    ]
    assert ways(1) == [
        ("table", "small", False),
        ("table", "small", False),
        ("table", "footnotesize", False),
        ("table", "scriptsize", True),
    ]
    with pytest.raises(UsageError, match="1 or 2 columns"):
        latex(PLAIN, columns=3)


def test_comment_says_what_does_not_fit() -> None:
    """The number of lines is that of the table with its heading."""
    tall = replace(NARROW, rows=tuple(replace(NARROW.rows[0], spec=f"s{n}") for n in range(80)))
    text = latex(tall)
    assert "81 lines high (a page: about 40), so it is set scaled down" in text
    assert "split=true" not in text  # it has one suite


@pytest.mark.slow
def test_labels_may_begin_with_brackets_and_stars(tmp_path: Path) -> None:
    r"""LaTeX takes a bracket or a star behind \\\\ or \\item for its own."""
    labels = ("中文 model", "[x] foo", "*star", "日本", "[1ex]")
    rows = tuple(replace(PLAIN.rows[0], label=label, spec=label) for label in labels)
    table = replace(PLAIN, rows=rows, notes=("[x] beats y", "* a star"), corner="[encoder]")
    text = latex(table)
    assert text.count("\n{}[") == 5
    assert "\n{}*star" in text
    assert r"\item {}[x] beats y." in text
    assert r"\item {}* a star." in text
    assert_nothing_leaves_the_page(tmp_path, document(HEADS["article"], [text]))


@pytest.mark.slow
def test_resized_table_with_notes_fits_a_column(tmp_path: Path) -> None:
    text = latex(MANY_NOTES, columns=2, resize=True)
    assert_nothing_leaves_the_page(tmp_path, document(HEADS["two columns"], [text]))


def test_notes_stand_in_the_float_or_as_comments() -> None:
    text = latex(MANY_NOTES)
    inside = text.partition(r"\begin{tablenotes}")[2].partition(r"\end{tablenotes}")[0]
    behind = text.partition(r"\end{table}")[2]
    numbers = [list(map(int, re.findall(r"Note (\d+)", part))) for part in (inside, behind)]
    assert numbers[0] + numbers[1] == list(range(60))
    assert min(map(len, numbers)) > 5
    assert all(line.startswith("% ") for line in behind.strip().splitlines())
    assert f"% {len(numbers[1])} notes have no room in the float" in text
    assert "threeparttable" not in latex(PLAIN.with_notes("none"))


def test_narrow_table_with_notes_is_stretched() -> None:
    text = latex(NARROW)
    assert r"\begin{tabular*}{0.6\linewidth}{@{\extracolsep{\fill}}lc}" in text
    assert r"\end{tabular*}" in text
    assert "tabular*" not in latex(NARROW.with_notes("none"))


def test_split_table_contains_every_score_once() -> None:
    for table in (BOARD, LONG):
        text = latex(table, split=True)
        assert len(re.findall("^% Needs", text, re.MULTILINE)) == 1
        assert text.count(r"\label") == 1
        without = latex(replace(PLAIN, rows=table.rows), split=True, deviations=False)
        scores = re.findall(
            r"\d*\.\d{3}(?=[} &\\]| *\$)", "".join(without.split(r"\begin{tabular}")[1:])
        )
        assert sorted(scores) == sorted(
            number(abs(s.mean)) for row in table.rows for s in row.scores if s
        )
        for row in table.rows:
            assert f"\n{row.label.strip()} &" in text
        suites = {column.suite for column in table.columns} - {""}
        assert text.count(r"\begin{tabular}") == text.count(r"\begin{table}") == max(1, len(suites))


@pytest.mark.slow
def test_resized_latex_table_fits_article_column(tmp_path: Path) -> None:
    body = rf"Table~\ref{{tab:sixty-encoders}}. {latex(LONG, resize=True)}"
    assert_nothing_leaves_the_page(tmp_path, document(HEADS["article"], [body]))
