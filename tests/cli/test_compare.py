from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.stored_results import correlated
from helpers.toy_plugin import PLUGIN


@pytest.fixture
def results(folder: Path) -> Path:
    """Encoders ``good`` (two seeds) and ``bad`` on two tasks, and ``good`` in another folder too."""
    rng = np.random.default_rng(0)
    for task in ("cats", "dogs"):
        gold = rng.normal(size=80)
        for seed in (0, 1):
            correlated(
                folder / "results", "good", task, gold, gold + 0.5 * rng.normal(size=80), seed
            )
        correlated(folder / "results", "bad", task, gold, gold + 3 * rng.normal(size=80))
        correlated(folder / "old", "good", task, gold, gold + 0.5 * rng.normal(size=80))
        correlated(
            folder / "other", "good", task, gold, gold + 0.5 * rng.normal(size=80), files="2"
        )
    return folder / "results"


def cells(text: str) -> list[list[str]]:
    """The head and the rows of the Markdown table in a text."""
    rows = []
    for line in text.splitlines():
        if line.startswith("|") and "---" not in line:
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_comparison_table_shows_intervals_and_verdicts(
    mirrorbench: Callable, results: Path
) -> None:
    said = mirrorbench("compare", "good", "bad")
    assert (said.code, said.err) == (0, "")
    assert "A: good, B: bad" in said.out
    rows = cells(said.out)
    assert rows[0] == ["task", "items", "A", "B", "A - B", "95% interval", "p", "verdict"]
    assert [row[0] for row in rows[1:]] == ["cats", "dogs", "avg. of 2"]
    assert rows[1][1:] == [
        "80",
        ".875 ± .033",
        ".359",
        "+.516",
        "[.310, .721]",
        "< .001",
        "A better",
    ]
    assert "corrected for 2 (Holm)" in said.out
    assert "\ngood beats bad on cats: +.516 [.310, .721], p < .001 (2 tests)\n" in said.out
    assert "\ngood beats bad on average over 2 tasks: +" in said.out


def test_margin_adds_whether_encoders_are_equal(mirrorbench: Callable, folder: Path) -> None:
    """A table, a sentence and JSON say the same."""
    rng = np.random.default_rng(0)
    gold = rng.normal(size=2000)
    values = gold + rng.normal(size=2000)
    for spec, own in (("one", values), ("other", values + 0.2 * rng.normal(size=2000))):
        correlated(folder / "results", spec, "cats", gold, own)
    command = ("compare", "one", "other")
    said = mirrorbench(*command, "--margin", ".03")
    assert cells(said.out)[1][-1] == "equal within .03"
    assert "\nEqual within .03: one and other +" in said.out
    assert "\nEqual within a margin: two one-sided tests" in said.out
    (row,) = json.loads(mirrorbench(*command, "--margin", ".03", "--json").out)["tasks"]
    assert (row["verdict"], row["equality"]["shown"]) == ("equal within .03", True)
    assert -0.03 < row["interval"]["low"] < row["interval"]["high"] < 0.03
    refused = mirrorbench(*command, "--margin", "3")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("Error: a margin of 3 is not between 0 and 1\n")


def test_json_comparison_reports_difference_and_verdict(
    mirrorbench: Callable, results: Path
) -> None:
    said = mirrorbench("compare", "bad", "good", "--json", "-t", "cats", "--plugin", str(PLUGIN))
    data = json.loads(said.out)
    (row,) = data["tasks"]
    assert (row["task"], row["verdict"], row["n_items"]) == ("cats", "B better", 80)
    assert row["interval"]["low"] < row["difference"] < row["interval"]["high"] < 0
    assert row["difference"] == pytest.approx(row["a"]["mean"] - row["b"]["mean"])
    assert data["average"] is None


def test_scores_undefined_on_shared_items_are_reported(mirrorbench: Callable, folder: Path) -> None:
    """Of items of which both have the first four, one encoder gives these one score; two seeds each."""
    rng = np.random.default_rng(0)
    for spec, n in (("good", 40), ("bad", 4)):
        for seed in (0, 1):
            scores = np.append(np.ones(4), rng.normal(size=36)) if n == 40 else rng.normal(size=4)
            correlated(folder / "results", spec, "cats", np.arange(float(n)), scores[:n], seed)
    said = mirrorbench("compare", "good", "bad").assert_works()
    row = next(row for row in cells(said.out) if row[0] == "cats")
    assert row[1:3] == ["4", "undefined ± undefined"]
    assert row[4:] == ["undefined"] * 3 + ["not tested"]
    found = json.loads(
        mirrorbench("compare", "good", "bad", "--json").out, parse_constant=lambda name: name
    )
    assert (found["tasks"][0]["a"], found["tasks"][0]["df"]) == (
        {"mean": None, "sd": None, "seeds": 2},
        None,
    )


def test_comparison_across_folders_requires_the_same_data(
    mirrorbench: Callable, results: Path
) -> None:
    same = mirrorbench("compare", "good", "good", "-r", "results", "-r", "old").assert_works()
    assert same.out.count("not separable") == 3
    arguments = ("compare", "good", "good", "-r", "results", "-r", "other")
    mirrorbench(*arguments).assert_fails(2, "cats: different data")
    mirrorbench(*arguments, "--allow-mixed").assert_works("not comparable: cats: different data")


def test_comparison_requires_one_protocol_and_predictions(
    mirrorbench: Callable, results: Path
) -> None:
    gold = np.arange(30.0)
    correlated(results, "good", "cats", gold, gold % 7, protocol="released")
    asked = ("compare", "good", "bad")
    mirrorbench(*asked).assert_fails(2, "good has results of the protocols paper and released")
    mirrorbench(*asked, "--protocol", "paper").assert_works()
    (results / "bad" / "cats" / "seed-0.npz").unlink()
    mirrorbench(*asked, "--protocol", "paper").assert_fails(1, "the predictions of")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("good goof", "Did you mean good?"),
        ("good bad -r nowhere", "there is no folder nowhere with results"),
        ("good bad -r a -r b -r c", "results names 3 folders"),
        ("good bad+", "cannot read the encoder spec"),
    ],
)
def test_invalid_comparison_arguments_are_rejected(
    mirrorbench: Callable, results: Path, arguments: str, message: str
) -> None:
    mirrorbench("compare", *arguments.split()).assert_fails(2, message)


def test_table_labels_and_short_names_resolve_to_encoders(
    mirrorbench: Callable, folder: Path
) -> None:
    rng = np.random.default_rng(0)
    gold = rng.normal(size=80)
    specs = (
        "tiny+base:pooling=cls",
        "tiny+base:pooling=mean",
        "tiny+base:pooling=mean,post=whiten",
        "tiny+mirror",
    )
    for spec in specs:
        correlated(folder / "results", spec, "cats", gold, gold + rng.normal(size=80))
    exact = mirrorbench("compare", "tiny+mirror", "tiny+base:pooling=mean").assert_works()
    typed = mirrorbench("compare", "tiny + Mirror", "tiny").assert_works(
        "tiny + Mirror stands for tiny+mirror\n", "tiny stands for tiny+base:pooling=mean\n"
    )
    assert cells(typed.out) == cells(exact.out)
    assert " stands for " not in exact.out
    mirrorbench("compare", "tiny+mirror", "tiny+base").assert_works(
        "tiny+base stands for tiny+base:pooling=mean\n"
    )
    for spec in ("tiny+base:pooling=last", "tiny+mirror:span_mask=3", "bert+base"):
        mirrorbench("compare", "tiny+mirror", spec).assert_fails(
            2, "unknown encoder among the results"
        )


def test_ambiguous_name_means_the_row_with_the_task(mirrorbench: Callable, folder: Path) -> None:
    """``m`` is a row on own data, and on the papers' tasks the untuned row; each is compared where it has scores."""
    rng = np.random.default_rng(0)
    gold = rng.normal(size=80)

    def row(spec: str, task: str, name: str = "") -> None:
        entry = correlated(folder / "results", spec, task, gold, gold + rng.normal(size=80))
        data = json.loads(entry.path.read_text())
        data["cell"] |= {"name": name} if name else {}
        entry.path.write_text(json.dumps(data))

    row("m+base", "own", "m")
    row("m+mirror", "own", "m+mirror")
    row("m+base:pooling=mean", "cats")
    row("m+static", "cats")
    own = mirrorbench("compare", "m", "m+mirror").assert_works("A: m, B: m+mirror")
    assert " stands for " not in own.out
    mirrorbench("compare", "m", "m+static").assert_works("m stands for m+base:pooling=mean")
