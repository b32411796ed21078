from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from paper_results import result

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.papers.measured import PAPER_FORMATS, Content, MeasuredTable, measured_table, render_paper
from mirrorbench.reports.papers.tables import FactTable, PaperTable, find_table, paper_tables
from mirrorbench.runs.results import Result


def measured(table: PaperTable, backbone: str = "") -> MeasuredTable:
    """A table with three seeds in every cell that can be measured, a tenth above what is published."""
    spec = parse_spec(backbone) if backbone else None
    found: dict[tuple[str, str], Result] = {}
    for (row, column), target in table.targets(spec).items():
        value = table.printed[row][column].value or 0.5
        for task in target.tasks:
            for seed in range(3):
                old = found.get((str(target.spec), task, seed))  # type: ignore[call-overload]
                one = old or result(str(target.spec), task, None, seed, metric=target.metric)
                one.metrics.setdefault(target.metric, None)
                if one.metrics[target.metric] is None:
                    one.metrics[target.metric] = value + 0.1 + seed / 1000
                found[str(target.spec), task, seed] = one  # type: ignore[index]
    return measured_table(table, found.values(), backbone=spec)


@lru_cache
def everything() -> list[Content]:
    return [t if isinstance(t, FactTable) else measured(t) for t in paper_tables().values()]


def paper_table(name: str) -> PaperTable:
    table = find_table(name)
    assert isinstance(table, PaperTable)
    return table


def test_published_measured_and_difference_stand_below_each_other() -> None:
    table = paper_table("mirror-bert/table7")
    results = [
        result("roberta+mirror", task, value, seed)
        for task in table.columns[0].tasks
        for seed, value in enumerate((0.700, 0.702, 0.704))
    ]
    lines = render_paper(measured_table(table, results), "markdown").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[0] == ["model", "", "avg. ρ", "change"]
    assert rows[2:6] == [
        ["RoBERTa + Mirror", "published", "<u>.753</u>", "–"],
        ["", "measured", ".702 ± .002", "–"],
        ["", "difference", "-.051 ≠", ""],
        ["\\- dropout + drophead", "published", "**.764**", "+.011"],
    ]
    assert len(rows) == 2 + 5 + 2
    assert any(line.startswith("≠: differs by more than 2 standard deviations") for line in lines)


def test_without_results_only_the_published_values_stand_there() -> None:
    text = render_paper(measured_table(paper_table("mirrorwic/table9"), []), "markdown")
    assert "published" not in text
    assert re.search(r"BERT \+ MirrorWiC +\|( +\? \|){5} +\*\*70\.84\*\* \| +\? \|", text)
    assert "?: not legible" in text


def test_scores_are_shown_in_the_papers_scale() -> None:
    table = paper_table("mirrorwic/table7")
    results = [result("bert+mirrorwic", "wic", score, seed, metric="dev_accuracy")
               for seed, score in enumerate((0.7194, 0.7196))]  # fmt: skip
    text = render_paper(measured_table(table, results), "markdown")
    assert "71.95 ± 0.01" in text
    assert "+0.01" in text


def test_on_another_backbone_no_difference_is_marked() -> None:
    text = render_paper(measured(paper_table("mirror-bert/table7"), "tiny"), "markdown")
    assert "≠" not in text
    assert "difference" not in text
    assert "Measured with tiny in place of the paper's models" in text


def test_notes_say_where_sources_disagree() -> None:
    text = render_paper(measured_table(paper_table("mirror-bert/table1"), []), "markdown")
    assert "Elsewhere otherwise (poster/table1): fastText (row 1), EN: .434 on the poster" in text
    text = render_paper(measured_table(paper_table("mirror-bert/table4"), []), "markdown")
    assert "Inconsistent: BERT (row 1), avg.: the printed values give .535" in text


@pytest.mark.parametrize("format_", PAPER_FORMATS)
def test_every_table_in_every_format(format_: str) -> None:
    for content in everything():
        assert len(render_paper(content, format_).splitlines()) >= 2


def test_csv_and_json_hold_every_cell_in_full_precision() -> None:
    comparison = measured(paper_table("mirror-bert/table2"))
    rows = list(csv.DictReader(io.StringIO(render_paper(comparison, "csv"))))
    cells = json.loads(render_paper(comparison, "json"))["cells"]
    assert len(rows) == len(cells) == 50
    for row, cell in zip(rows, cells, strict=True):
        assert float(row["published"]) == cell["published"] == float(cell["printed"])
        assert float(row["difference"]) == cell["difference"] == pytest.approx(0.101)
        assert row["metric"] == cell["metric"]
        assert cell["differs"] is (cell["encoder"] != "")
    assert rows[0]["encoder"] == "sapbert"
    assert rows[1]["column"] == "NCBI @5"
    facts = list(csv.reader(io.StringIO(render_paper(paper_tables()["mirrorwic/table12"], "csv"))))  # type: ignore[arg-type]
    assert facts[1] == ["BERT", "110M", "bert-base-uncased"]


def test_latex_spans_groups() -> None:
    text = render_paper(measured_table(paper_table("mirror-bert/table2"), []), "latex")
    assert r"\multicolumn{2}{c}{NCBI} & \multicolumn{2}{c}{BC5-d}" in text
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in text
    assert r"\cmidrule(lr){3-4} \cmidrule(lr){5-6}" in render_paper(
        measured(paper_table("mirror-bert/table2")), "latex"
    )


def test_latex_of_every_table_compiles(tmp_path: Path) -> None:
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed")
    tables = [
        re.search(r"\\begin{table}.*\\end{table}", render_paper(c, "latex", standalone=True), re.DOTALL)
        for c in everything()
    ]
    head = render_paper(everything()[0], "latex", standalone=True).partition(r"\begin{table}")[0]
    body = "\n\\clearpage\n".join(match[0] for match in tables if match)
    (tmp_path / "all.tex").write_text(f"{head}{body}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert "Missing character" not in (tmp_path / "all.log").read_text(errors="replace")
    assert "[U+" not in body
    assert f"({len(tables)} pages" in log


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UsageError, match="no format 'html'"):
        render_paper(measured_table(paper_table("mirror-bert/table1"), []), "html")
