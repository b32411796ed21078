from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def stored(toys: Callable, folder: Path) -> Path:
    assert toys("-e", "letters", "-t", "cats,dogs").code == 0
    return folder / "results"


def test_results_are_rendered_in_every_format(toys: Callable, stored: Path) -> None:
    def render(*arguments: str) -> str:
        said = toys(*arguments, command="leaderboard")
        assert said.code == 0
        return said.out

    assert render().startswith("| encoder")
    assert render("results", "--format", "markdown") == render()
    assert r"\begin{tabular}" in render("-f", "latex")
    assert render("-f", "csv").startswith("encoder,spec,cats,")
    data = json.loads(render("-f", "json", "--tasks", "dogs", "--title", "Dogs"))
    assert data["title"] == "Dogs"
    assert [column["name"] for column in data["columns"]] == ["dogs"]


def test_a_table_goes_into_a_file(toys: Callable, stored: Path, folder: Path) -> None:
    said = toys("-f", "latex", "-o", "paper/table.tex", command="leaderboard")
    assert (said.code, said.out) == (0, "")
    assert r"\toprule" in (folder / "paper" / "table.tex").read_text()


def test_a_file_that_cannot_be_written(toys: Callable, stored: Path, folder: Path) -> None:
    (folder / "paper").write_text("in the way")
    said = toys("-f", "latex", "-o", "paper/table.tex", command="leaderboard")
    assert said.code == 1
    assert "annot write" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no folder of results nowhere"),
        (["-f", "latx"], "unknown renderer 'latx'"),
        (["-t", "birds"], "unknown task or suite 'birds'"),
        (["-t", "stsb"], "no results"),
    ],
)
def test_what_cannot_be_rendered(toys: Callable, stored: Path, arguments: list[str], message: str) -> None:
    said = toys(*arguments, command="leaderboard")
    assert said.code == 2
    assert message in said.err


def test_a_damaged_result_is_named(toys: Callable, stored: Path) -> None:
    (stored / "letters" / "cats" / "seed-0.json").write_text("{")
    said = toys(command="leaderboard")
    assert said.code == 1
    assert "seed-0.json is not a result file" in said.err
