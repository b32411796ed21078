from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from stored import stored, write
from suites import few

from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.selection import Choice, Stored, select, stored_leaderboard
from mirrorbench.runs.results import Result
from mirrorbench.runs.rows import expand_ladder, with_rivals

SPECS = ("bert+base:pooling=cls", "bert+mirror", "bert+mirror:drophead=0.2", "roberta+mirror")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("a"), *(stored(spec, task, 0.5) for spec in SPECS for task in ("stsb", "sts12"))
    )


Selected = tuple[list[Stored], list[EncoderSpec], list[str]]


def specs(selected: Selected) -> list[str]:
    return [str(row) for row in selected[1]]


def results(selected: Selected) -> list[Result]:
    return [entry.result for entry in selected[0]]


def test_everything_by_default(folder: Path, plugins: Plugins, tmp_path: Path) -> None:
    selection = select([folder], plugins)
    assert len(results(selection)) == 8
    assert sorted(specs(selection)) == sorted(SPECS)
    assert all(entry.path.is_file() for entry in selection[0])
    assert selection[2] == []
    copy = write(tmp_path / "b", stored("bert+mirror", "stsb", 0.5))
    assert len(results(select([folder, copy], plugins))) == 8  # the same cell counts once


def test_results_without_predictions_have_no_intervals(folder: Path, plugins: Plugins) -> None:
    table = stored_leaderboard([folder], Choice(intervals=True), plugins).table
    assert all(score is None or score.interval is None for row in table.rows for score in row.scores)
    assert table.notes[-1].startswith("Not marked, since no stored predictions give the score: ")


def test_plain_rows_of_a_backbone_come_before_varied_ones(tmp_path: Path, plugins: Plugins) -> None:
    ladder = ["tiny+base:pooling=cls", "tiny+base:pooling=mean", "tiny+base:layers=-4:,pooling=target", "tiny+mirror",
              "tiny+mirror:dropout=0", "tiny+mirrorwic", "bert+base"]  # fmt: skip
    shuffled = [ladder[i] for i in (5, 2, 4, 6, 0, 1, 3)]
    folders = [write(tmp_path / str(i), stored(spec, "wic", 0.5)) for i, spec in enumerate(shuffled)]
    assert specs(select(folders, plugins)) == ladder


@pytest.mark.parametrize(
    ("backbone", "tasks", "rivals"),
    few(
        product(
            ["tiny", "roberta", "minilm"],
            [("stsb", "multisimlex-en", "wic"), ("wic", "stsb"), ("wic",), ("stsb",)],
            [False, True],
        ),
        1, 18,
    ),
)  # fmt: skip
def test_rows_come_as_in_the_run_that_made_them(
    tmp_path: Path, plugins: Plugins, backbone: str, tasks: tuple[str, ...], rivals: bool
) -> None:
    spec, planned = parse_spec(backbone), dict[EncoderSpec, dict[str, None]]()
    for task in tasks:  # as the planner does: a ladder for each level, in the order of the tasks
        level = plugins.tasks[task].level
        ladder = expand_ladder(spec, level, plugins)
        for row in with_rivals(spec, ladder, level, plugins, 384) if rivals else ladder:
            planned.setdefault(row, {})[task] = None
    for i, (row, of) in enumerate(planned.items()):
        for task in of:
            result = stored(str(row), task, 0.5)
            result.cell["level"] = plugins.tasks[task].level
            write(tmp_path / str(99 - i), result)
    folders = sorted(tmp_path.iterdir())
    assert select(folders, plugins, Choice(tasks=tasks))[1] == list(planned)
    if tasks[0] != "wic" or len(tasks) == 1:  # a table of its own puts sentences before words in context
        assert select(folders, plugins)[1] == list(planned)


def test_a_spec_leaves_open_what_it_does_not_name(folder: Path, plugins: Plugins) -> None:
    for wanted, expected in (
        (["bert"], SPECS[:3]),
        (["roberta", "bert+base"], (SPECS[3], SPECS[0])),  # in this order
        (["bert+mirror"], SPECS[1:3]),
        (["bert:drophead=0.2"], SPECS[2:3]),
    ):
        selection = select([folder], plugins, Choice(encoders=tuple(map(parse_spec, wanted)), tasks=("stsb",)))
        assert tuple(specs(selection)) == expected
        assert {(r.spec, r.task) for r in results(selection)} == {(spec, "stsb") for spec in expected}


def test_rows_of_a_layout_without_results_are_left_out(folder: Path, plugins: Plugins) -> None:
    rows = tuple(map(parse_spec, ("sbert", "roberta+mirror", "bert+mirror")))
    assert specs(select([folder], plugins, Choice(rows=rows))) == ["roberta+mirror", "bert+mirror"]
    assert specs(select([folder], plugins, Choice(rows=rows, encoders=(parse_spec("bert"),)))) == ["bert+mirror"]


def test_another_metric(folder: Path, plugins: Plugins) -> None:
    everywhere = select([folder], plugins, Choice(metrics={"": "pearson"}))
    assert {(r.main_metric, r.main_score) for r in results(everywhere)} == {("pearson", 0.25)}
    one = select([folder], plugins, Choice(metrics={"stsb": "pearson"}))
    assert {(r.task, r.main_score) for r in results(one)} == {("stsb", 0.25), ("sts12", 0.5)}


def test_mixed_results_are_refused_unless_that_is_wanted(folder: Path, plugins: Plugins, tmp_path: Path) -> None:
    other = replace(stored("bert+mirror", "stsb", 0.9), data={"version": 2}, cell_id="b", created="2030-01-01")
    more = write(tmp_path / "b", other)
    with pytest.raises(UsageError, match="stsb: 2 different versions of its data"):
        select([folder, more], plugins)
    mixed = select([folder, more], plugins, Choice(allow_mixed=True))
    assert mixed[2] == [
        "Mixed, not comparable: stsb: 2 different versions of its data. The newest of each seed counts."
    ]
    assert [r.main_score for r in results(mixed) if (r.spec, r.task) == ("bert+mirror", "stsb")] == [0.9]
    assert select([folder, more], plugins, Choice(tasks=("sts12",)))[2] == []  # what is mixed is not selected


def test_what_is_not_there(folder: Path, plugins: Plugins, tmp_path: Path) -> None:
    for choice, error, message in (
        (Choice(encoders=(parse_spec("brt"),)), UnknownNameError, "unknown encoder of these results 'brt'"),
        (Choice(metrics={"": "accuracy"}), UnknownNameError, "unknown metric of sts.* 'accuracy'"),
        (Choice(tasks=("wic",)), UsageError, "no results in .* asked for"),
        (Choice(protocol="released"), UsageError, "no results in .* asked for"),
        (Choice(rows=(parse_spec("sbert"),)), UsageError, "no result belongs to a row"),
    ):
        with pytest.raises(error, match=message):
            select([folder], plugins, choice)
    for nothing, message in ((tmp_path / "nowhere", "there is no folder"), (tmp_path, "no results in")):
        with pytest.raises(UsageError, match=message):
            select([nothing], plugins)
