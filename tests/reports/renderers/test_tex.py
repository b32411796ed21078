from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from toy_tables import BOARD, EMPTY, HOSTILE, NASTY, NO_ROWS

from mirrorbench.reports.renderers import escape_latex, latex


def test_marks_groups_and_blocks() -> None:
    lines = latex(BOARD).splitlines()
    assert lines[0] == r"\begin{table}[t]"
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


def test_siunitx_gets_a_number_and_its_deviation_in_columns_of_their_own() -> None:
    text = latex(BOARD, siunitx=True)
    assert r"\begin{tabular}{lS[table-format=0.3]@{}l" in text
    assert r"S[table-format=-0.3]@{}l" in text  # EN has a negative score
    assert r"S[table-format=1.3]@{}l" in text  # FR has 1.000
    assert r"\bfseries .670 & \bfseries \,$\pm$\,.010" in text
    assert r".760 {\llap{\underline{\phantom{.760}}}} & \,$\pm$\,.010$^\dagger$" in text
    assert r"\multicolumn{2}{c}{--}" in text
    assert r"\cmidrule(lr){2-7} \cmidrule(lr){8-13} \cmidrule(lr){14-15}" in text


def test_text_is_escaped() -> None:
    text = escape_latex(NASTY)
    assert r"50\% of\_\{x\} \& \$y\$ \#1 \textasciitilde{}\textasciicircum{}\textbackslash{}" in text
    assert "[U+4E2D]" in text  # no font of pdflatex has it
    assert escape_latex("a\u2028b\x00c\nd") == "a b c d"


@pytest.mark.parametrize("siunitx", [False, True])
@pytest.mark.parametrize(
    "table",
    [BOARD, HOSTILE, EMPTY, NO_ROWS, replace(BOARD, rows=BOARD.rows[:2])],
    ids=lambda t: t.title[:10] or "empty",
)
def test_a_document_of_its_own_compiles(tmp_path: Path, table, siunitx: bool) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    if siunitx and not _has("siunitx.sty"):
        pytest.skip("the LaTeX package siunitx is not installed")
    (tmp_path / "table.tex").write_text(latex(table, siunitx=siunitx, standalone=True), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_a_pasted_table_needs_booktabs_alone(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{latex(BOARD)}\end{{document}}"
    (tmp_path / "table.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]


def _has(package: str) -> bool:
    return subprocess.run(["kpsewhich", package], capture_output=True).returncode == 0
