"""``mirrorbench paper``: listings, tables side by side, runs of missing cells."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from helpers.own_paper_tables import listing, own_tables
from helpers.stored_results import stored, write

from mirrorbench.papers.table_files import PaperTable, paper_tables
from mirrorbench.runs.registry import load_plugins

__all__ = ["own_tables"]


def test_tables_are_listed_with_measured_cell_counts(mirrorbench: Callable, folder: Path) -> None:
    write(folder / "results", *(stored("roberta+mirror", task, 0.7) for task in ("sts12", "sts13")))
    done = mirrorbench("paper").assert_works()
    assert done.err == ""
    rows = listing(done.out)
    assert rows.pop("table") == ["measured", "title"]
    assert list(rows) == list(paper_tables())
    assert rows["mirror-bert/table3"] == ["2 of 112", "English semantic textual similarity"]
    counts = {
        "table20": "2 of 64",
        "table1": "0 of 46",
        "table15": "-",
    }  # the first has the same encoder
    assert {name: rows[f"mirror-bert/{name}"][0] for name in counts} == counts
    elsewhere = listing(mirrorbench("paper", "mirror-bert", "--results", "nowhere").out)
    assert elsewhere["mirror-bert/table3"][0] == "0 of 112"
    assert set(listing(mirrorbench("paper", "mirrorwic").out)) == {
        "table",
        *(name for name in paper_tables() if name.startswith("mirrorwic/")),
    }


def test_measured_scores_appear_beside_published_scores(
    mirrorbench: Callable, folder: Path
) -> None:
    for seed, score in enumerate((0.700, 0.710, 0.720)):
        write(folder / "elsewhere", stored("roberta+mirror", "sts12", score, seed))
    write(folder / "elsewhere", stored("roberta+base:pooling=cls", "sts12", 0.09))
    table = ("paper", "mirror-bert/table3", "--results", "elsewhere")
    mirrorbench(*table).assert_works(".710 ± .010", "+.064 ≠", "+.000 |")
    cells = json.loads(mirrorbench(*table, "-f", "json").out)["cells"]
    measured = {cell["encoder"]: cell["differs"] for cell in cells if cell["measured"] is not None}
    assert measured == {"roberta+base:pooling=cls": False, "roberta+mirror": True}
    facts = mirrorbench("paper", "mirror-bert/table15", "-f", "latex:standalone=true").assert_works(
        "camembert-base"
    )
    assert facts.out.startswith(r"\documentclass")
    assert mirrorbench(*table, "--output", "table.tex").assert_works().out == ""
    assert r".710 $\pm$ .010" in (folder / "table.tex").read_text()


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("mirror-bert/tabel3", "unknown table 'mirror-bert/tabel3'", "mirror-bert/table3"),
        (
            "mirror-bert/table7 --run -e tiny -f docx",
            "unknown renderer 'docx'",
            "markdown",
        ),  # at once
        ("mirror-bert/table3 -f csv:standalone=true", "unknown option of the format csv", ""),
        ("mirror-bert/table3 -f latex:percent=true", "numbers as printed", "percent"),
        (
            "mirrorwic/table6 --run",
            "no cell that a run could measure",
            "mirrorbench paper mirrorwic/table6",
        ),
        ("--run", "need a table", "lists them"),
        ("--output table.md", "need a table", ""),
    ],
)
def test_invalid_paper_arguments_are_rejected(
    mirrorbench: Callable, arguments: str, message: str, hint: str
) -> None:
    mirrorbench("paper", *arguments.split()).assert_fails(2, message, hint, out="")


@pytest.fixture
def small_table(own_tables: Path) -> str:
    """A table of two rows on the embedded data."""
    tuned = "roberta+mirror:corpus=quick-sentences,corpus_size=20"
    (own_tables / "table1.yaml").write_text(
        "{title: Small, where: nowhere, kind: scores, scale: fraction, metric: spearman,\n"
        "defaults: {dropout: 0.1}, columns: [{head: SL, task: quick-simlex}, {head: change, difference: SL}], rows: [\n"
        f"{{label: with, encoder: '{tuned}', values: [.700, '-']}},\n"
        f"{{label: without, encoder: '{tuned},dropout=0', against: 1, values: [.600, -.100]}},\n"
        "{label: a system, encoder: sbert, values: [.650, '-']}]}\n"
    )
    return "own/table1"


def test_plugins_add_papers(mirrorbench: Callable, folder: Path, small_table: str) -> None:
    hook = "import mirrorbench\n@mirrorbench.hookimpl\ndef register_papers(register):\n    register('{}', '{}')\n"
    (folder / "lab.py").write_text(hook.format("lab", folder / "specs" / "own"))
    assert "lab/table1" in mirrorbench("paper", "lab", "--plugin", "lab.py").assert_works().out
    assert ".700" in mirrorbench("paper", "lab/table1", "--plugin", "lab.py").assert_works().out
    mirrorbench("paper", "lab/table2", "--plugin", "lab.py").assert_fails(
        2, "unknown table 'lab/table2'", "lab/table1"
    )
    (folder / "lost.py").write_text(hook.format("lost", "nowhere"))
    mirrorbench("paper", "--plugin", "lost.py").assert_fails(
        2, "the paper 'lost' of", "Name the folder of its tables"
    )


@pytest.mark.slow
def test_run_option_measures_only_missing_cells(
    mirrorbench: Callable, folder: Path, small_table: str, random_model: Callable[[str], Path]
) -> None:
    assert isinstance(paper_tables(load_plugins(False))[small_table], PaperTable)
    model = str(random_model("bert"))
    run = ("paper", small_table, "--encoder", model, "--run", "--seeds", "2")
    done = mirrorbench(*run).assert_works()
    stored = [
        json.loads(path.read_text())["cell"] for path in (folder / "results").rglob("seed-*.json")
    ]
    specs = [
        f"{model}+mirror:corpus=quick-sentences,corpus_size=20,dropout={rate}"
        for rate in ("0", "0.1")
    ]
    assert sorted((cell["spec"], cell["seed"]) for cell in stored) == [*product(specs, (0, 1))]
    assert "4 results in results" in done.err
    assert f"Measured with {model}" in done.out
    again = mirrorbench(*run)
    assert again.out == done.out
    assert ", from earlier runs" in again.err
    assert listing(mirrorbench("paper", "--encoder", model).out)[small_table][0] == "2 of 3"
    assert listing(mirrorbench("paper").out)[small_table][0] == "0 of 3"


def test_unmeasurable_cells_are_reported_as_errors(
    mirrorbench: Callable, own_tables: Path, small_table: str
) -> None:
    copied = (own_tables / "table1.yaml").read_text().replace("encoder:", "encoder: null, note:")
    (own_tables / "table2.yaml").write_text(copied)
    failed = mirrorbench("paper", small_table, "--encoder", "./nowhere", "--run")
    assert (
        ".700" in failed.assert_fails(1, "Failed: ./nowhere+mirror").out
    )  # the table is printed all the same
    mirrorbench("paper", "own/table2", "--run").assert_fails(
        2, "no cell that a run could measure", "says why", out=""
    )
