from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import typer
from typer.testing import CliRunner

from mirrorbench.cli.formats import chosen_format, with_options_of_formats
from mirrorbench.reports.renderers import markdown
from mirrorbench.reports.table import Table


@pytest.fixture
def stored(toys: Callable, folder: Path) -> Path:
    assert toys("-e", "letters", "-t", "cats,dogs").code == 0
    return folder / "results"


def test_results_are_rendered_in_every_format(toys: Callable, stored: Path) -> None:
    def render(*arguments: str) -> str:
        said = toys(*arguments, command="leaderboard").assert_works()
        return said.out

    assert render().startswith("| encoder")
    assert render("results", "--format", "markdown") == render()
    assert r"\begin{tabular}" in render("-f", "latex")
    assert render("-f", "csv").startswith("encoder,spec,cats,")
    data = json.loads(render("-f", "json", "--tasks", "dogs", "--title", "Dogs"))
    assert data["title"] == "Dogs"
    assert [column["name"] for column in data["columns"]] == ["dogs"]


def test_a_table_goes_into_a_file(toys: Callable, stored: Path, folder: Path) -> None:
    assert toys("-f", "latex", "-o", "paper/table.tex", command="leaderboard").assert_works().out == ""
    assert r"\toprule" in (folder / "paper" / "table.tex").read_text()


def test_a_file_that_cannot_be_written(toys: Callable, stored: Path, folder: Path) -> None:
    (folder / "paper").write_text("in the way")
    toys("-f", "latex", "-o", "paper/table.tex", command="leaderboard").assert_fails(1, "annot write")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no folder of results nowhere"),
        (["-f", "latx"], "unknown renderer 'latx'"),
        (["-t", "birds"], "unknown task or suite 'birds'"),
        (["-t", "stsb"], "no results"),
        (["-e", "leters"], "Did you mean letters"),
        (["--metric", "mrr"], "unknown metric of"),
        (["--protocol", "released"], "no results in results"),
        (["--table", "mirror-bert/table3"], "no results in results"),
        (["--table", "mirror-bert/table9"], "mirror-bert/table9 has no scores of tasks"),
        (["--table", "nope"], "unknown table 'nope'"),
        (["--siunitx", "-f", "csv"], "csv has no --siunitx"),
        (["--no-deviations", "-o", "a.md"], "markdown has no --no-deviations"),
        (["--sort", "birds"], "unknown column 'birds'"),
    ],
)
def test_what_cannot_be_rendered(toys: Callable, stored: Path, arguments: list[str], message: str) -> None:
    toys(*arguments, command="leaderboard").assert_fails(2, message)


def test_a_damaged_result_is_named(toys: Callable, stored: Path) -> None:
    (stored / "letters" / "cats" / "seed-0.json").write_text("{")
    toys(command="leaderboard").assert_fails(1, "seed-0.json is not a result file")


def test_the_name_of_a_file_says_its_format(toys: Callable, stored: Path, folder: Path) -> None:
    starts = {"html": "<!DOCTYPE html>", "csv": "encoder,", "json": "{", "tex": "% Needs", "md": "|", "txt": "|"}
    for ending, start in starts.items():
        name = f"a.{ending}"
        assert toys("-o", name, command="leaderboard").code == 0
        assert (folder / name).read_text().startswith(start)


def test_a_table_is_rendered_anew_from_its_values(toys: Callable, stored: Path, folder: Path) -> None:
    toys("-o", "a.json", "--title", "Pets", "--ties", "--intervals", command="leaderboard")
    assert "[low, high]" in (folder / "a.json").read_text()
    for format_ in ("markdown", "latex", "html", "csv", "json"):
        direct = toys("--title", "Pets", "--ties", "--intervals", "-f", format_, command="leaderboard")
        assert toys("a.json", "-f", format_, command="leaderboard").out == direct.out
    for arguments, message in ((["-t", "cats"], "a finished table"), (["--ties"], "a finished table"),
                               (["results"], "stands for itself")):  # fmt: skip
        toys("a.json", *arguments, command="leaderboard").assert_fails(2, message)


def test_options_of_latex(toys: Callable, stored: Path) -> None:
    said = toys("--siunitx", "--standalone", command="leaderboard")
    assert said.out.startswith(r"\documentclass")
    assert "S[table-format=" in said.out


def test_a_plugin_declares_options_of_its_format() -> None:
    """Keyword-only arguments are options, with the docstring's help; only what differs from the default is passed."""

    def shout(table: Table, *, loud: bool = False, times: int = 2, calm: bool = True, name: str = "") -> str:
        """A format.

        Args:
            table: the table.
            loud: in capitals,
                all of them.
            times: how often.
            calm: without haste.
        """
        return f"{loud}{times}{calm}{name}"

    got: list[dict[str, object]] = []

    def command(options: Mapping[str, object] = MappingProxyType({})) -> None:
        got.append(dict(options))

    app = typer.Typer()
    app.command()(with_options_of_formats(command, {"shout": shout}))
    runner = CliRunner()
    for arguments in ([], ["--loud", "--times", "2"], ["--times", "3", "--no-calm", "--name", "x"]):
        assert runner.invoke(app, arguments).exit_code == 0
    assert got == [{}, {"loud": True}, {"times": 3, "calm": False, "name": "x"}]
    said = runner.invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert "shout: in capitals, all of them." in said
    assert "--no-calm" in said
    assert chosen_format("", None, ["times"], {"markdown": markdown, "shout": shout}) == "shout"


def test_a_metric_is_selected(toys: Callable, stored: Path) -> None:
    assert "letters" in toys("-e", "letters", "--metric", "pearson", command="leaderboard").out


def test_two_folders_of_other_data_do_not_mix(toys: Callable, stored: Path, folder: Path) -> None:
    other = folder / "other" / "letters" / "cats" / "seed-0.json"
    other.parent.mkdir(parents=True)
    result = json.loads((stored / "letters" / "cats" / "seed-0.json").read_text())
    other.write_text(json.dumps({**result, "data": {"version": 2}, "cell_id": "another"}))
    toys("results", "other", command="leaderboard").assert_fails(
        2, "cats: 2 different versions of its data", "--allow-mixed"
    )
    toys("results", "other", "--allow-mixed", command="leaderboard").assert_works("Mixed, not comparable: cats")
