from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reports.typeset import assert_nothing_leaves_the_page
from toy_tables import BOARD, EMPTY, HOSTILE, NASTY, NO_ROWS

from mirrorbench.core.errors import DataFormatError, UnknownNameError, UsageError
from mirrorbench.reports.renderers import (
    as_json,
    comma_separated,
    escape_latex,
    latex,
    markdown,
    number,
)
from mirrorbench.reports.renderers.notes import MISSING, p_words, with_deviation
from mirrorbench.reports.renderers.text import escape_markdown
from mirrorbench.reports.table import Column, Row, Score, Table, Verdict, read_table

RENDERED = [
    read_table(path)
    for path in (Path(__file__).parents[3] / "leaderboards" / "rendered").glob("*.json")
]


def test_numbers_as_the_papers_print_them() -> None:
    for value, text in {
        0.743: ".743",
        0.7435: ".744",
        -0.012: "-.012",
        1.0: "1.000",
        0.9996: "1.000",
        0.0: ".000",
        -0.0001: ".000",
        -1.5: "-1.500",
        10.05: "10.050",
    }.items():
        assert number(value) == text
    assert with_deviation(Score(0.7431, 0.0021, 3)) == ".743 ± .002"
    assert with_deviation(Score(-0.5, None, 1)) == "-.500"
    assert with_deviation(None) == MISSING


def test_rows_are_sorted_by_a_column() -> None:
    """Without a score, and baselines, last; there is no rule between backbones that are mixed."""
    baseline = Row("Majority", "", (Score(0.99, None, 1),) * len(BOARD.columns))
    table = replace(BOARD, rows=(baseline, *BOARD.rows))
    sts = sorted(BOARD.rows, key=lambda row: row.scores[1].mean, reverse=True)
    assert table.sorted_by("stsb").rows == (*sts, baseline)
    assert [row.label for row in table.sorted_by("wic").rows][-1] == "Majority"
    assert table.sorted_by("wic").rows[0].label == "RoBERTa + Mirror"
    assert BOARD.blocks() == [3]
    assert replace(BOARD, rows=tuple(sts)).blocks() == []
    with pytest.raises(UnknownNameError, match="unknown column 'sts'"):
        BOARD.sorted_by("sts")


def cells(text: str) -> list[list[str]]:
    return [
        [c.strip() for c in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_a_github_table_with_marks() -> None:
    table = cells(markdown(BOARD))
    # A title that occurs twice is preceded by its suite.
    assert table[0] == [
        "encoder",
        "STS12",
        "STS-b",
        "sts avg.",
        "EN",
        "FR",
        "simlex avg.",
        "WiC",
        "avg.",
    ]
    assert table[2] == [
        "BERT-CLS",
        ".215 [.195, .225]",
        ".203 [.183, .213]",
        ".209 [.189, .219]",
        "-.042 [-.062, -.032]",
        ".562 [.542, .573]",
        ".260 [.240, .270]",
        "–",
        "–",
    ]
    assert [text.partition(" [")[0] for text in table[4]] == [
        "BERT + Mirror",
        "**.670 ± .010**",
        "*.760 ± .010*",
        "**.715 ± .010**",
        "**.510 ± .010**",
        "*.610 ± .010*",
        "*.560 ± .009*",
        "*.560 ± .010*",
        "*.622 ± .003*",
    ]
    assert table[4][2] == "*.760 ± .010* [.740, .770]†"
    lines = markdown(BOARD).splitlines()
    assert lines[0] == "**English and French**"
    assert lines[-3:] == ["† Tied: by some test.", "", "missing: roberta+base on wic"]


def test_labels_are_no_markup_and_stay_in_their_cells() -> None:
    for text, escaped in {
        "a | b": r"a \| b",
        "<b> & &lt; R&D": r"\<b> & \&lt; R\&D",
        "*a* `b` $c$": r"\*a\* \`b\` \$c\$",
        "[x](y) toy [paper]": r"[x\](y) toy [paper]",
        "drop_head _x_": r"drop_head \_x\_",
        "~/model ~~x~~": r"~/model \~~x\~~",
        "two\nlines  here": "two lines here",
        "# head": r"\# head",
        "a\\b": r"a\\b",
    }.items():
        assert escape_markdown(text) == escaped
    text = markdown(HOSTILE)
    assert [len(line) for line in cells(text)] == [3, 1, 3, 3]  # the second is the rule
    assert "\\<img" in text
    assert " <img" not in text


def test_csv_keeps_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(BOARD))))
    assert [row["spec"] for row in rows] == [row.spec for row in BOARD.rows]
    assert float(rows[0]["multisimlex-en"]) == -0.0421
    assert (rows[2]["stsb seeds"], float(rows[2]["stsb sd"])) == ("3", BOARD.rows[2].scores[1].sd)
    assert (float(rows[0]["sts12 low"]), float(rows[0]["sts12 high"])) == BOARD.rows[0].scores[
        0
    ].interval
    assert {rows[0][f"wic{part}"] for part in ("", " sd", " seeds", " low", " high")} == {""}
    table = Table("", (Column("a", "A"),), (Row("x", "x", (Score(0.1, None, 1),)),))
    assert (
        comma_separated(table) == "encoder,spec,a,a sd,a seeds\nx,x,0.1,,1\n"
    )  # no interval, no columns for it
    hostile = list(csv.reader(io.StringIO(comma_separated(HOSTILE))))
    assert hostile[1][0] == HOSTILE.rows[0].label
    assert {len(row) for row in hostile} == {12}


def test_json_holds_the_values_and_is_read_as_it_was(tmp_path: Path) -> None:
    data = json.loads(as_json(BOARD))
    assert data["columns"][1] == {
        "name": "stsb",
        "title": "STS-b",
        "suite": "sts",
        "level": "sentence",
        "languages": ["en"],
        "metric": "spearman",
        "average_of": [],
        "items": "items",
        "n_items": 0,
        "seen": 0.0,
        "source": None,
    }
    mirror = data["rows"][2]
    assert (mirror["encoder"], mirror["backbone"], mirror["method"]) == (
        "BERT + Mirror",
        "bert",
        "mirror",
    )
    assert mirror["scores"]["wic"]["seeds"] == [[0, 0.55], [1, 0.56], [2, 0.57]]
    assert data["rows"][0]["scores"]["wic"] is None
    file = tmp_path / "table.json"
    for table in (BOARD, EMPTY, HOSTILE, NO_ROWS):
        file.write_text(as_json(table), encoding="utf-8")
        assert read_table(file) == table
        assert all(render(table) for render in (markdown, comma_separated))
    for content, message in (
        ("[]", "is no table"),
        ('{"cell_id": "a", "schema": 1}', "is a single result"),
        ('{"schema": 9}', "schema 9"),
        (json.dumps({**data, "rows": [{"encoder": "x"}]}), "is no table"),
        (as_json(BOARD).replace('"mean": 0.215', '"mean": "high"'), "is no table"),
    ):
        file.write_text(content)
        with pytest.raises(DataFormatError, match=message):
            read_table(file)


PLAIN = replace(
    BOARD,
    rows=tuple(
        replace(r, scores=tuple(s and replace(s, interval=None) for s in r.scores))
        for r in BOARD.rows
    ),
)


def test_marks_groups_and_blocks() -> None:
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


def test_p_values_have_two_digits() -> None:
    said = {
        0: "< .001",
        0.00099: "< .001",
        0.001: "= .0010",
        0.0087: "= .0087",
        0.0996: "= .10",
        1: "= 1.0",
    }
    assert {value: p_words(value) for value in said} == said


def test_percent_one_digit_and_no_deviations() -> None:
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
    assert "+35.6 [30.0, 40.0] on STS12 (p = .010, corrected .020)" in text
    assert r"\label{x}" in text
    assert r"\pm" not in text.partition(r"\end{tabular}")[0]
    with pytest.raises(UsageError, match="as printed"):
        latex(replace(PLAIN, layout="facts"), percent=True)


def test_text_is_escaped() -> None:
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
def test_nothing_leaves_the_page(tmp_path: Path, options: dict[str, Any]) -> None:
    assert_nothing_leaves_the_page(
        tmp_path, [latex(table, standalone=True, **options) for table in TABLES]
    )


def test_every_score_stands_in_one_of_the_floats_of_a_split_table() -> None:
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
def test_a_resized_table_fits_into_a_column_of_an_article(tmp_path: Path) -> None:
    head, text = (
        r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}",
        latex(LONG, resize=True),
    )
    document = rf"{head}Table~\ref{{tab:sixty-encoders}}. {text}\end{{document}}"
    assert_nothing_leaves_the_page(tmp_path, [document])
