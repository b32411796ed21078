"""The papers' tables in every format."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import product
from pathlib import Path

import pytest
from helpers.paper_results import STS, filled, joined, table
from helpers.stored_results import stored
from helpers.typesetting import assert_nothing_leaves_the_page, one_document

from mirrorbench.papers.rendering import render_paper
from mirrorbench.papers.table_files import PaperTable, paper_tables


def test_measured_row_and_difference_follow_published_row() -> None:
    results = [
        stored("roberta+mirror", task, 0.7 + seed / 500, seed) for task in STS for seed in range(3)
    ]
    lines = render_paper(joined("mirror-bert/table7", results), "markdown").splitlines()
    rows = []
    for line in lines:
        if line.startswith("|"):
            cells = line.strip("|").split("|")
            rows.append([cell.strip() for cell in cells])
    assert rows[0] == ["model", "", "avg. ρ", "change"]
    assert rows[2:6] == [
        ["RoBERTa + Mirror", "published", "*.753*", "–"],
        ["", "measured", ".702 ± .002", "–"],
        ["", "difference", "-.051 ≠", ""],
        ["\\- dropout + drophead", "published", "**.764**", "+.011"],
    ]
    assert len(rows) == 2 + 5 + 2
    assert any(line.startswith("≠: differs by more than 2 standard deviations") for line in lines)


def test_scores_are_shown_in_the_papers_scale() -> None:
    results = [
        stored("bert+mirrorwic", "wic", score, seed, metric="dev_accuracy")
        for seed, score in enumerate((0.7194, 0.7196))
    ]
    text = render_paper(joined("mirrorwic/table7", results), "markdown")
    assert "71.95 ± 0.01" in text
    assert "+0.01" in text
    # Table 10 shows areas under the curve, not the accuracies that are the main metric of its tasks.
    result = stored(
        "bert+mirrorwic", "wic-tsv-2", 0.66, metric="dev_accuracy", metrics={"dev_auc": 0.6792}
    )
    text = render_paper(joined("mirrorwic/table10", [result]), "markdown")
    assert "67.92" in text
    assert "Metric: area under the ROC curve on the dev split." in text


def test_table_without_results_shows_only_published_values() -> None:
    text = render_paper(joined("mirrorwic/table9", []), "markdown")
    assert "published" not in text
    # The only value of its row is not marked as the best.
    assert re.search(r"BERT \+ MirrorWiC +\|( +\? \|){5} +70\.84 \| +\? \|", text)


def test_csv_and_json_keep_full_precision() -> None:
    comparison = filled(table("mirror-bert/table2"))
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
    text = render_paper(comparison, "latex")
    assert r"\multicolumn{2}{c}{NCBI} & \multicolumn{2}{c}{BC5-d}" in text
    assert r"\cmidrule(lr){3-4} \cmidrule(lr){5-6}" in text
    facts = list(csv.reader(io.StringIO(render_paper(paper_tables()["mirrorwic/table12"], "csv"))))  # type: ignore[arg-type]
    assert facts[1] == ["BERT", "110M", "bert-base-uncased"]


@pytest.mark.slow
def test_every_paper_table_renders_and_latex_compiles(tmp_path: Path) -> None:
    contents = [
        filled(paper) if isinstance(paper, PaperTable) else paper
        for paper in paper_tables().values()
    ]
    for content, format_ in product(contents, ("markdown", "latex", "csv", "json")):
        text = render_paper(content, format_)
        assert len(text.splitlines()) >= 2, format_
        assert "[U+" not in text
    documents = [render_paper(content, "latex", standalone=True) for content in contents]
    assert_nothing_leaves_the_page(tmp_path, one_document(documents))
