from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.stored_results import correlated
from scipy.stats import spearmanr

RNG = np.random.default_rng(0)
GOLD = RNG.normal(size=60)
GOOD = GOLD + 0.5 * RNG.normal(size=60)
BAD = GOLD + 4 * RNG.normal(size=60)
FLAGS = np.array([2, 1, 1] + [0] * 57, np.int8)


@pytest.fixture
def stored(folder: Path) -> Path:
    """``good``, tuned on three of 60 items, its twin ``alike``, and ``bad``."""
    correlated(folder / "results", "good", "cats", GOLD, GOOD, overlap=FLAGS, corpus="x")
    correlated(folder / "results", "alike", "cats", GOLD, 2 * GOOD)
    correlated(folder / "results", "bad", "cats", GOLD, BAD)
    correlated(folder / "results", "bad", "dogs", GOLD, BAD)
    return folder / "results"


def test_results_are_rendered_in_every_format(toys: Callable, stored: Path, folder: Path) -> None:
    """Named, or by the name of the file; a table that was stored as its values is rendered anew from them."""

    def render(*arguments: str) -> str:
        return toys(*arguments, command="leaderboard").assert_works().out

    asked = ("--title", "Pets", "--intervals", "--notes", "all")
    assert render("results") == render("--format", "markdown")
    assert render(*asked, "-o", "deep/a.json") == ""
    assert "[low, high]" in (folder / "deep" / "a.json").read_text()
    starts = {"csv": "encoder,", "tex": "% Needs", "md": "**Pets", "json": "{"}
    for ending, start in starts.items():
        format_ = {"tex": "latex", "md": "markdown"}.get(ending, ending)
        direct = render(*asked, "-f", format_)
        assert direct.startswith(start)
        assert render("deep/a.json", "-f", format_, "--notes", "all") == direct
        render(*asked[:-2], "-o", f"a.{ending}")
        assert (folder / f"a.{ending}").read_text().rstrip() == direct.rstrip()
    toys("-f", "latex", "-o", "a.md/table.tex", command="leaderboard").assert_fails(
        1, "annot write"
    )
    for arguments, message in (
        (["-t", "cats"], "a finished table"),
        (["--ties"], "a finished table"),
        (["results"], "Name it alone"),
    ):
        toys("deep/a.json", *arguments, command="leaderboard").assert_fails(2, message)
    (column,) = json.loads(render("-f", "json", "--tasks", "dogs", "--metric", "pearson"))[
        "columns"
    ]
    assert (column["name"], column["metric"]) == ("dogs", "pearson")
    text = render("-f", "latex:standalone=true")  # options of LaTeX alone
    assert text.startswith(r"\documentclass")
    damaged = stored / "bad" / "dogs" / "seed-0.json"
    damaged.write_text("{")
    toys(command="leaderboard").assert_fails(1, str(damaged.relative_to(folder)), out="")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere", "there is no folder nowhere with results"),
        ("-f latx", "unknown renderer 'latx'"),
        ("-t birds", "unknown task or suite 'birds'"),
        ("--table nope", "unknown table 'nope'"),
        ("--table mirror-bert/table9", "mirror-bert/table9 has no scores of tasks"),
        ("-f csv:resize=true", "unknown option of the format csv"),
        ("-f latex:resized=true", "Did you mean resize?"),
        ("-f latex:resize=3", "resize=3 is not of type bool"),
    ],
)
def test_invalid_leaderboard_arguments_are_rejected(
    toys: Callable, stored: Path, arguments: str, message: str
) -> None:
    toys(*arguments.split(), command="leaderboard").assert_fails(2, message)


def test_results_of_different_data_are_not_mixed(
    toys: Callable, stored: Path, folder: Path
) -> None:
    correlated(folder / "other", "bad", "cats", GOLD, BAD, version=2, files="2")
    refused = toys("results", "other", command="leaderboard")
    refused.assert_fails(2, "cats: 2 different versions of its data", "--allow-mixed")
    toys("results", "other", "--allow-mixed", command="leaderboard").assert_works(
        "Mixed, not comparable: cats"
    )


def test_leaderboard_marks_ties_and_reports_intervals(mirrorbench: Callable, stored: Path) -> None:
    said = mirrorbench("leaderboard", "--ties").assert_works("† not separable from the best")
    cells = [
        line.strip("| ").split(" | ") for line in said.out.splitlines() if line.startswith("| ")
    ]
    shown = {row[0].strip(): row[1].strip() for row in cells}
    # One of the twins is the best, and the other is tied with it.
    assert [name for name, score in shown.items() if "†" in score] in (["good"], ["alike"])
    said = mirrorbench("leaderboard", "--without-overlap", "--ties", "--intervals", "-f", "json")
    data = json.loads(said.out)
    scores = {row["spec"]: row["scores"]["cats"] for row in data["rows"]}
    for spec, values in (("good", GOOD), ("alike", GOOD), ("bad", BAD)):
        assert scores[spec]["mean"] == pytest.approx(spearmanr(values[3:], GOLD[3:])[0])
        assert scores[spec]["interval"][0] < scores[spec]["mean"] < scores[spec]["interval"][1]
    assert (
        "Scored on items without a text of the tuning corpora: cats 57 of 60, dogs 60 of 60"
        in data["warnings"]
    )


def test_paper_table_selects_leaderboard_rows_and_columns(
    mirrorbench: Callable, folder: Path
) -> None:
    for spec in ("tiny+mirror", "roberta+mirror", "bert+mirror", "sbert"):
        correlated(folder / "results", spec, "stsb", GOLD, GOOD)
    said = mirrorbench("leaderboard", "--table", "mirror-bert/table3")
    cells = [line.strip("|").split("|") for line in said.out.splitlines()[:4]]
    heads, _, *lines = [[cell.strip() for cell in row] for row in cells]
    assert heads == ["encoder", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-b", "SICK-R"]
    assert [line[0] for line in lines] == [
        "BERT + Mirror",
        "RoBERTa + Mirror",
    ]  # as printed there, and no others
    assert [cell != "–" for cell in lines[1]] == [
        True,
        False,
        False,
        False,
        False,
        False,
        True,
        False,
    ]
    named = (
        mirrorbench("leaderboard", "-e", "tiny + Mirror", "-e", "BERT + Mirror").assert_works().out
    )
    assert named.index("| tiny + Mirror") < named.index(
        "| BERT + Mirror"
    )  # as they are shown, in this order
    correlated(folder / "other", "tiny+mirror", "stsb", GOLD, GOOD)
    refused = mirrorbench("leaderboard", "other", "--table", "mirror-bert/table3")
    refused.assert_fails(2, "mirrorbench paper TABLE --encoder BACKBONE")
