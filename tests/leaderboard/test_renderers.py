from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from mirrorbench.leaderboard.renderers import as_json, comma_separated, escape_latex, latex, markdown, number
from mirrorbench.leaderboard.table import Column, Row, Score, Table

NASTY = r"50% of_{x} & $y$ #1 ~^\ <b> ± – ρ"
TABLE = Table(
    "Table 3",
    (Column("stsb", "STS-b"), Column("sickr", "SICK-R"), Column("avg.", "avg.")),
    (
        Row("BERT-CLS", "bert+base:pooling=cls", (Score(0.2031, None, 1, ("a",)), Score(0.4, None, 1), None)),
        Row("BERT + Mirror", "bert+mirror", (Score(0.7431, 0.0021, 3), Score(-0.0121, 0.0, 2), Score(1.0, None, 1))),
        Row("x | y", "x", (None, None, None)),
    ),
    ("Metric: spearman.", NASTY),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.743, ".743"), (0.7435, ".744"), (-0.012, "-.012"), (1.0, "1.000"), (0.9996, "1.000"), (0.0, ".000"),
     (-0.0001, ".000"), (-1.5, "-1.500"), (10.05, "10.050")],
)  # fmt: skip
def test_numbers_as_the_papers_print_them(value: float, text: str) -> None:
    assert number(value) == text


def test_markdown_is_a_github_table_with_marks() -> None:
    lines = markdown(TABLE).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
    assert cells[0] == ["encoder", "STS-b", "SICK-R", "avg."]
    assert cells[2:4] == [
        ["BERT-CLS", "<u>.203</u>", "**.400**", "–"],
        ["BERT + Mirror", "**.743 ± .002**", "<u>-.012 ± .000</u>", "1.000"],
    ]
    assert lines[0] == "**Table 3**"
    assert r"x \| y" in markdown(TABLE)
    assert "&lt;b>" in lines[-1]


def test_latex_marks_and_escapes() -> None:
    text = latex(TABLE)
    assert r"BERT-CLS & \underline{.203} & \textbf{.400} & -- \\" in text
    assert r"BERT + Mirror & \textbf{.743 $\pm$ .002} & \underline{-.012 $\pm$ .000} & 1.000 \\" in text
    assert r"\begin{tabular}{lccc}" in text
    assert r"50\% of\_\{x\} \& \$y\$ \#1 \textasciitilde{}\textasciicircum{}\textbackslash{}" in escape_latex(NASTY)
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1


def test_latex_compiles(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{latex(TABLE)}\end{{document}}"
    (tmp_path / "table.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]


def test_csv_keeps_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(TABLE))))
    assert [row["spec"] for row in rows] == ["bert+base:pooling=cls", "bert+mirror", "x"]
    assert float(rows[1]["stsb"]) == 0.7431
    assert (rows[1]["stsb sd"], rows[1]["stsb seeds"]) == ("0.0021", "3")
    assert (rows[0]["stsb sd"], rows[0]["avg."], rows[2]["stsb seeds"]) == ("", "", "")


def test_json_holds_the_values() -> None:
    data = json.loads(as_json(TABLE))
    assert data["title"] == "Table 3"
    assert [column["name"] for column in data["columns"]] == ["stsb", "sickr", "avg."]
    assert data["rows"][0]["scores"]["stsb"] == {"mean": 0.2031, "sd": None, "n": 1, "cell_ids": ["a"]}
    assert data["rows"][0]["scores"]["avg."] is None
    assert data["notes"] == list(TABLE.notes)


@pytest.mark.parametrize("render", [markdown, latex, comma_separated, as_json])
def test_an_empty_table_can_be_rendered(render) -> None:
    assert render(Table("", (), ()))
