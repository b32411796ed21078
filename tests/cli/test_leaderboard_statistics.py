from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from stored import correlated

RNG = np.random.default_rng(0)
GOLD = RNG.normal(size=60)
GOOD, BAD = GOLD + 0.5 * RNG.normal(size=60), GOLD + 4 * RNG.normal(size=60)
FLAGS = np.array([2, 1, 1] + [0] * 57, np.int8)


@pytest.fixture
def results(folder: Path) -> Path:
    """``good``, tuned on three of 60 items, its twin ``alike``, and ``bad``."""
    correlated(folder / "results", "good", "cats", GOLD, GOOD, overlap=FLAGS, corpus="x")
    correlated(folder / "results", "alike", "cats", GOLD, 2 * GOOD)
    correlated(folder / "results", "bad", "cats", GOLD, BAD)
    return folder / "results"


def rows(text: str) -> dict[str, str]:
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0].strip(): row[1].strip() for row in cells}


def test_ties_are_marked(mirrorbench: Callable, results: Path) -> None:
    said = mirrorbench("leaderboard", "--ties").assert_works()
    marked = {name for name, score in rows(said.out).items() if "†" in score}
    assert len(marked) == 1  # one of the twins is the best, and the other is tied with it
    assert marked < {"good", "alike"}
    assert "† Tied: not separable" in said.out


def test_intervals_are_shown(mirrorbench: Callable, results: Path) -> None:
    said = mirrorbench("leaderboard", "--intervals")
    shown = rows(said.out)
    assert all("[" in shown[name] for name in ("good", "alike", "bad"))
    assert shown["good"].split("[")[1] == shown["alike"].split("[")[1]
    assert "percentile bootstrap over items" in said.out
    assert r"{\scriptsize [" in (tex := mirrorbench("leaderboard", "--intervals", "-f", "latex").out)
    assert "bootstrap" in tex
    data = json.loads(mirrorbench("leaderboard", "--intervals", "-f", "json").out)
    for row in data["rows"]:
        score = row["scores"]["cats"]
        assert score["interval"][0] < score["mean"] < score["interval"][1]


def test_scores_without_what_was_tuned_on(mirrorbench: Callable, results: Path) -> None:
    said = mirrorbench("leaderboard", "--without-overlap", "--ties", "--intervals", "-f", "json")
    data = json.loads(said.out)
    scores = {row["spec"]: row["scores"]["cats"]["mean"] for row in data["rows"]}
    for spec, values in (("good", GOOD), ("alike", GOOD), ("bad", BAD)):
        assert scores[spec] == pytest.approx(spearmanr(values[3:], GOLD[3:])[0])
    assert "cats: 57 of 60 items, of which no text was tuned on." in data["notes"]


def test_without_predictions_the_table_stands_unmarked(mirrorbench: Callable, results: Path) -> None:
    for file in results.rglob("*.npz"):
        file.unlink()
    said = mirrorbench("leaderboard", "--ties", "--intervals").assert_works()
    assert "†" not in said.out
    assert "Not marked" in said.out
    said = mirrorbench("leaderboard", "--without-overlap")
    assert "its items are not stored" in said.out


def test_rows_and_columns_of_a_paper(mirrorbench: Callable, folder: Path) -> None:
    for spec, task in (("tiny+mirror", "stsb"), ("roberta+mirror", "stsb"), ("bert+mirror", "stsb"), ("sbert", "qnli"),
                       ("bert+mirror", "sickr")):  # fmt: skip
        correlated(folder / "results", spec, task, GOLD, GOOD)
    said = mirrorbench("leaderboard", "--table", "mirror-bert/table3")
    heads = [cell.strip() for cell in said.out.splitlines()[0].strip("|").split("|")]
    assert heads == ["encoder", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-b", "SICK-R"]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.out.splitlines()[2:4]]
    assert [line[0] for line in lines] == ["BERT + Mirror", "RoBERTa + Mirror"]  # as printed there, and no others
    assert [cell != "–" for cell in lines[1]] == [True, False, False, False, False, False, True, False]
    correlated(folder / "other", "tiny+mirror", "stsb", GOLD, GOOD)
    mirrorbench("leaderboard", "other", "--table", "mirror-bert/table3").assert_fails(
        2, "mirrorbench paper TABLE --encoder BACKBONE"
    )
