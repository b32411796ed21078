"""Measured scores beside published ones: comparison, labels, notes and formats."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers.paper_results import SEEDS, STS, filled, joined, sts, table
from helpers.stored_results import stored

from mirrorbench.papers.measured_tables import PaperCell
from mirrorbench.papers.rendering import as_table, render_paper
from mirrorbench.papers.table_files import Printed
from mirrorbench.reports.table import Score


def test_measured_means_and_averages_equal_numpy() -> None:
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
    for cells in (*comparison.cells[:7], *comparison.cells[8:]):
        assert all(cell.measured is None for cell in cells)
    without_sickr = [result for result in sts("roberta+mirror") if result.task != "sickr"]
    row = joined("mirror-bert/table3", without_sickr).cells[7]
    assert row[0].measured
    assert row[6].measured is row[7].measured is None  # an average needs all its tasks


def test_missing_averages_are_explained_by_notes() -> None:
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


def test_differences_need_more_than_noise_and_rounding() -> None:
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


def test_measured_sweeps_and_differences_fill_their_cells() -> None:
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


def test_only_matching_protocol_and_pooling_fill_cells() -> None:
    protocols = ("paper", "released")
    for asked, stored_under, pooling in product(protocols, protocols, ("mean", "mean-padded")):
        result = stored(f"bert+base:pooling={pooling}", "sts12", 0.5, protocol=stored_under)
        counts = joined("mirror-bert/table3", [result], protocol=asked).counts
        matches = asked == stored_under and pooling == "mean-padded"
        assert counts.measured == (1 if matches else 0)


def test_other_backbone_is_not_compared_with_paper() -> None:
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
    own_backbone = as_table(filled(table("mirror-bert/table3")))
    assert {row.label for row in own_backbone.rows if row.part == "measured"} == {""}


def test_deviations_and_training_seconds_are_measured() -> None:
    scores = np.array([0.5 + np.arange(7) / 9, [0.6] * 7])  # by seed and task
    results = []
    for i, task in enumerate(STS):
        for seed in range(2):
            result = stored("bert+mirror", task, scores[seed, i], seed)
            result.seconds["train"] = 8.0 + 4 * seed
            result.cell["recipe"]["epochs"] = 2
            results.append(result)
    comparison = joined("mirror-bert/text", results)
    measured = [cell.measured and cell.measured.mean for cell in comparison.cells[0]]
    deviation = pytest.approx(scores.mean(axis=1).std(ddof=1))
    assert measured == [deviation, None, pytest.approx(5.0), pytest.approx(10.0)]
    assert [cell.difference for cell in comparison.cells[0]] == [None] * 4
    first_seed = [result for result in results if result.seed == 0]
    cells = joined("mirror-bert/text", first_seed).cells[0]
    assert [cell.measured is not None for cell in cells] == [False, False, True, True]
    text = render_paper(comparison, "markdown")
    assert "< 0.002" in text
    assert "10.0 ± 2.8" in text


def test_sweeps_are_ranked_along_their_row() -> None:
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
    # RoBERTa + Mirror (drophead) has .764, its released model .7667.
    assert ranks[8:] == [1] + [0] * 5
    assert "Not ranked; the values are those of README of mirror-bert: BERT" in "\n".join(
        shown.notes
    )
