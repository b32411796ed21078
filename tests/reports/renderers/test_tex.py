"""LaTeX: marks, groups, options, escaping."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.toy_tables import BOARD, EMPTY, HOSTILE, NASTY, NO_ROWS
from helpers.typesetting import assert_nothing_leaves_the_page

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.renderers import (
    escape_latex,
    latex,
    number,
)
from mirrorbench.reports.table import Verdict, read_table

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
    lines = latex(PLAIN).splitlines()
    assert lines[:3] == [
        r"% Needs \usepackage{booktabs}",
        "% If it is wider than the page: --format latex:resize=true",
        r"\begin{table}[t]",
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
    assert lines[end + 3].endswith(
        r"Metric: accuracy, spearman. $^\dagger$ Tied: by some test. missing: roberta+base on wic."
    )
    assert lines[end + 5 :] == [
        r"\caption{English and French}",
        r"\label{tab:english-and-french}",
        r"\end{table}",
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
def test_latex_tables_fit_the_page(tmp_path: Path, options: dict[str, Any]) -> None:
    assert_nothing_leaves_the_page(
        tmp_path, [latex(table, standalone=True, **options) for table in TABLES]
    )


def test_split_table_contains_every_score_once() -> None:
    for table in (BOARD, LONG):
        text = latex(table, split=True)
        assert [line for line in text.splitlines() if line.startswith("% Needs")] == [
            r"% Needs \usepackage{booktabs}"
        ]
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
    assert "resizebox" not in text


@pytest.mark.slow
def test_resized_latex_table_fits_article_column(tmp_path: Path) -> None:
    head, text = (
        r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}",
        latex(LONG, resize=True),
    )
    document = rf"{head}Table~\ref{{tab:sixty-encoders}}. {text}\end{{document}}"
    assert_nothing_leaves_the_page(tmp_path, [document])
