"""Measured scores beside published ones: comparison, labels, notes and formats."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from reports.typeset import assert_nothing_leaves_the_page
from stored import stored

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.reports.papers.measured_tables import MeasuredTable, PaperCell, measured_table
from mirrorbench.reports.papers.measurement_runs import paper_analyses, paper_requests
from mirrorbench.reports.papers.rendering import as_table, render_paper
from mirrorbench.reports.papers.tables import PaperTable, Printed, find_table, paper_tables
from mirrorbench.reports.table import Score
from mirrorbench.runs.results import Result

STS = builtin_suites()["sts"]
SEEDS = {0: 0.80, 1: 0.70, 2: 0.72}


def table(name: str) -> PaperTable:
    paper = find_table(name)
    assert isinstance(paper, PaperTable)
    return paper


def joined(
    name: str, results: Iterable[Result], backbone: str = "", protocol: str = "paper"
) -> MeasuredTable:
    return measured_table(
        table(name), results, protocol, parse_spec(backbone) if backbone else None
    )


def sts(spec: str, shift: float = 0.0) -> list[Result]:
    """Results with scores that differ by task and seed."""
    return [
        stored(spec, t, v + i / 100 + shift, s) for i, t in enumerate(STS) for s, v in SEEDS.items()
    ]


def test_means_deviations_and_averages() -> None:
    comparison = joined("mirror-bert/table3", sts("roberta+mirror"))
    row = comparison.cells[7]
    assert row[0].measured
    assert row[7].measured
    values = np.array(list(SEEDS.values()))
    deviation = values.std(ddof=1)
    first = (row[0].measured.mean, row[0].measured.sd, row[0].measured.n)
    assert first == pytest.approx((values.mean(), deviation, 3))
    assert (row[7].measured.mean, row[7].measured.sd) == pytest.approx(
        (values.mean() + 0.03, deviation)
    )
    assert row[0].difference == pytest.approx(values.mean() - 0.646)
    assert comparison.counts == (8, 112)
    assert all(
        cell.measured is None for i, line in enumerate(comparison.cells) if i != 7 for cell in line
    )
    row = joined(
        "mirror-bert/table3", [result for result in sts("roberta+mirror") if result.task != "sickr"]
    ).cells[7]
    assert row[0].measured
    assert row[6].measured is row[7].measured is None  # an average needs all its tasks


def test_what_makes_no_average_is_noted() -> None:
    two = [
        stored("roberta+mirror", "sts12", 0.5),
        stored("roberta+mirror", "sts12", 0.6, 1, corpus="other"),
    ]
    for name, results, note in (
        (
            "mirror-bert/table3",
            sts("roberta+mirror")[:-1],
            "roberta+mirror: not all tasks have the same seeds",
        ),
        (
            "mirror-bert/table3",
            two,
            "roberta+mirror on sts12: the seeds differ in data, recipe, corpus or precision",
        ),
        (
            "mirrorwic/table4",
            [stored("bert+mirrorwic", "wic", 0.7, metric="dev_accuracy")],
            "wic: the results have no test_accuracy",
        ),
        (
            "mirror-bert/table3",
            [*sts("roberta+mirror"), stored("bert+mirror", "sts12", 0.5, precision="bf16")],
            "not comparable: evaluated in bf16 and fp32",
        ),
    ):
        comparison = joined(name, results)
        assert comparison.notes == (note,)
        assert "not comparable" in note or all(
            line[-1].measured is None for line in comparison.cells
        )


def test_what_counts_as_a_difference() -> None:
    for measured, tuned, differs in (
        (Score(0.760, 0.005, 3), True, True),
        (Score(0.752, 0.005, 3), True, False),  # within two standard deviations
        (Score(0.7435, 0.0001, 3), True, False),  # within a unit of the last digit
        (Score(0.744, 0.0, 3), True, False),  # exactly a unit
        (Score(0.7441, 0.0, 3), True, True),
        (Score(0.900, None, 1), True, None),  # a single seed says nothing
        (None, True, None),
        (Score(0.745, None, 1), False, True),  # what is not tuned has no noise
        (Score(0.7437, None, 1), False, False),
    ):
        assert PaperCell(Printed(".743", 0.743, 0.001), measured, tuned=tuned).differs is differs, (
            measured,
            tuned,
        )
    assert PaperCell(Printed(""), Score(0.5, 0.1, 3)).differs is None


def test_a_sweep_shares_the_papers_own_value_and_differences_are_between_rows_or_columns() -> None:
    comparison = joined(
        "mirror-bert/table12", [*sts("bert+mirror"), *sts("bert+mirror:dropout=0.3", 0.01)]
    )
    assert [cell.measured is not None for cell in comparison.cells[0]] == [
        False,
        True,
        False,
        True,
        False,
    ]
    comparison = joined(
        "mirror-bert/table7", [*sts("roberta+mirror"), *sts("roberta+mirror:dropout=0", -0.02)]
    )
    changes = [row[1].measured and row[1].measured.mean for row in comparison.cells]
    assert changes[:4] == [
        None,
        None,
        pytest.approx(-0.02),
        None,
    ]  # the paper prints none in the first row
    assert comparison.counts == (2, 5)
    results = [
        stored(f"bert+mirrorwic{masks}", "wic", value, metric="dev_accuracy")
        for masks, value in (("", 0.7), (":span_mask=0", 0.6))
    ]
    change = joined("mirrorwic/table8", results).cells[0][2].measured
    assert change
    assert change.mean == pytest.approx(0.1)


def test_only_results_of_the_protocol_and_of_the_mean_over_padding_count() -> None:
    for asked, made, pooling in product(
        ("paper", "released"), ("paper", "released"), ("mean", "mean-padded")
    ):
        result = stored(f"bert+base:pooling={pooling}", "sts12", 0.5, protocol=made)
        n_filled = joined("mirror-bert/table3", [result], protocol=asked).counts[0]
        assert n_filled == (asked == made and pooling == "mean-padded")


def test_requests_cover_the_measurable_cells_and_no_others() -> None:
    for paper in (t for t in paper_tables().values() if isinstance(t, PaperTable)):
        requests = paper_requests(paper, 2)
        wanted = {(t.spec, task) for t in paper.targets().values() for task in t.tasks}
        made = [
            (spec, task)
            for request in requests
            for spec in request.encoders
            for task in request.tasks
        ]
        made += [
            (spec, analysis.task_name)
            for analysis, specs in paper_analyses(paper)
            for spec in specs
        ]
        assert set(made) == wanted, paper.name
        assert len(made) == len(wanted)
        assert all(request.seeds == (0, 1) for request in requests)


def test_only_a_backbone_takes_the_place_of_one_once_a_row_and_not_of_systems() -> None:
    for backbone in ("tiny+mirror", "tiny:pooling=cls"):
        with pytest.raises(UsageError, match="more than a backbone"):
            joined("mirror-bert/table3", [], backbone)
    (request,) = paper_requests(
        table("mirror-bert/table3"), 1, "released", backbone=parse_spec("tiny")
    )
    assert [str(spec) for spec in request.encoders] == [
        "tiny+base:pooling=cls",
        "tiny+base:pooling=mean-padded",
        "tiny+mirror",
        "tiny+mirror:drophead=0.2,dropout=0",
        "tiny+mirror:drophead=0.05,dropout=0",
    ]
    assert (len(request.tasks), request.protocol) == (7, "released")
    specs = [
        str(target.spec)
        for target in table("mirror-bert/table8").targets(parse_spec("tiny")).values()
    ]
    assert specs == [  # no dropout beside the controlled one
        f"tiny+mirror:{dropout},span_mask=0"
        for dropout in ("dropout=0", "dropout=0.1", "controlled_dropout=0.1")
    ]


def filled(paper: PaperTable, backbone: str = "") -> MeasuredTable:
    """A table with three seeds in every measurable cell, a tenth above the published values."""
    spec = parse_spec(backbone) if backbone else None
    results: dict[tuple[str, str, int], Result] = {}
    for (row, column), target in paper.targets(spec).items():
        value = paper.printed[row][column].value or 0.5
        for task, seed in product(target.tasks, range(3)):
            key = str(target.spec), task, seed
            result = results.setdefault(key, stored(*key[:2], None, seed, metrics={}))
            result.metrics.setdefault(target.metric, value + 0.1 + seed / 1000)
    return measured_table(paper, results.values(), backbone=spec)


def test_on_another_backbone_the_encoder_is_named_and_nothing_is_held_against_the_paper() -> None:
    measured = filled(table("mirror-bert/table3"), "tiny")
    assert measured.cells[3][0].measured  # BERT + Mirror
    assert all(cell.differs is None for row in measured.cells for cell in row)
    text = render_paper(measured, "markdown")
    assert "Measured with tiny in place of the paper's models" in text
    assert "≠" not in text
    assert "difference" not in text
    shown = as_table(measured)
    labels = {row.label for row in shown.rows if row.part == "measured"}
    assert {"tiny-CLS", "tiny-mean-padded", "tiny + Mirror (drophead=0.05, dropout=0)"} < labels
    assert {label for label in labels if not label.startswith("tiny")} == {
        "SBERT (pooling=mean-padded)"
    }
    assert shown.blocks() == [
        i for i, row in enumerate(shown.rows) if row.part == "published" and i
    ]
    assert {
        row.label
        for row in as_table(filled(table("mirror-bert/table3"))).rows
        if row.part == "measured"
    } == {""}


def test_published_measured_and_difference_stand_below_each_other() -> None:
    results = [
        stored("roberta+mirror", task, 0.7 + seed / 500, seed) for task in STS for seed in range(3)
    ]
    lines = render_paper(joined("mirror-bert/table7", results), "markdown").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
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


def test_without_results_only_the_published_values_and_where_sources_disagree_stand_there() -> None:
    text = render_paper(joined("mirrorwic/table9", []), "markdown")
    assert "published" not in text
    assert re.search(
        r"BERT \+ MirrorWiC +\|( +\? \|){5} +70\.84 \| +\? \|", text
    )  # alone in its row, so not the best
    assert "?: not legible" in text
    text = render_paper(joined("mirror-bert/table1", []), "markdown")
    assert "Printed differently in poster/table1: fastText (row 1), EN: .434 on the poster" in text
    text = render_paper(joined("mirror-bert/table4", []), "markdown")
    assert "Inconsistent: BERT (row 1), avg.: the printed values give .535" in text


def test_csv_and_json_hold_every_cell_in_full_precision_and_latex_spans_groups() -> None:
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
def test_every_table_has_every_format_and_its_latex_compiles(tmp_path: Path) -> None:
    contents = [
        filled(paper) if isinstance(paper, PaperTable) else paper
        for paper in paper_tables().values()
    ]
    for content, format_ in product(contents, ("markdown", "latex", "csv", "json")):
        text = render_paper(content, format_)
        assert len(text.splitlines()) >= 2, format_
        assert "[U+" not in text
    assert_nothing_leaves_the_page(
        tmp_path, [render_paper(content, "latex", standalone=True) for content in contents]
    )


def test_deviations_and_seconds() -> None:
    scores = np.array([0.5 + np.arange(7) / 9, [0.6] * 7])  # by seed and task
    results = [
        stored("bert+mirror", task, scores[seed, i], seed)
        for i, task in enumerate(STS)
        for seed in range(2)
    ]
    for result in results:
        result.seconds["train"] = 8.0 + 4 * result.seed
        result.cell["recipe"]["epochs"] = 2
    comparison = joined("mirror-bert/text", results)
    measured = [cell.measured and cell.measured.mean for cell in comparison.cells[0]]
    deviation = pytest.approx(scores.mean(axis=1).std(ddof=1))
    assert measured == [deviation, None, pytest.approx(5.0), pytest.approx(10.0)]
    assert [cell.difference for cell in comparison.cells[0]] == [None] * 4
    alone = joined("mirror-bert/text", [r for r in results if r.seed == 0]).cells[0]
    assert [cell.measured is not None for cell in alone] == [False, False, True, True]
    text = render_paper(comparison, "markdown")
    assert "< 0.002" in text
    assert "10.0 ± 2.8" in text


def test_a_sweep_is_ranked_along_its_row_in_each_part_and_a_row_of_another_source_is_not() -> None:
    rates = {"dropout=0.1": 0.65, "dropout=0.2": 0.70, "dropout=0.3": 0.69}
    results = [
        stored(f"bert+mirrorwic:{rate}", "wic", score, metric="dev_accuracy")
        for rate, score in rates.items()
    ]
    marks = as_table(joined("mirrorwic/table7", results)).ranks()
    assert marks[0] == [0, 0, 0, 2, 1, 0, 0]  # published
    assert marks[1] == [0, 0, 1, 2, 0, 0, 0]  # measured
    assert marks[3] == [0, 0, 2, 1, 0, 0, 0]  # DeBERTa, published
    shown = as_table(joined("mirror-bert/table3", []))
    ranks = [row[-1] for row in shown.ranks()]
    assert (
        ranks[8:] == [1] + [0] * 5
    )  # RoBERTa + Mirror (drophead) has .764, its released model .7667
    assert "Not ranked; the values are those of README of mirror-bert: BERT" in "\n".join(
        shown.notes
    )
