from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.stored_results import stored, write

from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.selection import (
    Choice,
    results_of_two,
    select,
    stored_leaderboard,
)
from mirrorbench.runs.ladder import expand_ladder, with_baselines
from mirrorbench.storage.results import Result

SPECS = ("bert+base:pooling=cls", "bert+mirror", "bert+mirror:drophead=0.2", "roberta+mirror")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("a"),
        *(stored(spec, task, 0.5) for spec in SPECS for task in ("stsb", "sts12")),
    )


def selected(
    folders: list[Path], plugins: Plugins, **choice: Any
) -> tuple[list[Result], list[str], list[str]]:
    """The results, the specs of the rows and the notes."""
    entries, rows, notes = select(folders, plugins, Choice(**choice))
    assert all(entry.path.is_file() for entry in entries)
    return [entry.result for entry in entries], list(map(str, rows)), notes


def test_all_results_are_selected_by_default(
    folder: Path, plugins: Plugins, tmp_path: Path
) -> None:
    """Intervals only where there are predictions."""
    results, specs, notes = selected([folder], plugins)
    assert (len(results), sorted(specs), notes) == (8, sorted(SPECS), [])
    copy = write(tmp_path / "b", stored("bert+mirror", "stsb", 0.5))
    assert len(selected([folder, copy], plugins)[0]) == 8  # the same cell counts once
    table = stored_leaderboard([folder], Choice(intervals=True), plugins).table
    assert all(
        score is None or score.interval is None for row in table.rows for score in row.scores
    )
    assert any(
        note.startswith("Not marked, since stored predictions do not yield the score: ")
        for note in table.warnings
    )


def test_plain_rows_of_backbone_precede_varied_rows(tmp_path: Path, plugins: Plugins) -> None:
    ladder = [
        "tiny+base:pooling=cls",
        "tiny+base:pooling=mean",
        "tiny+base:layers=-4:,pooling=target",
        "tiny+mirror",
        "tiny+mirror:dropout=0",
        "tiny+mirrorwic",
        "bert+base",
    ]
    shuffled = [ladder[i] for i in (5, 2, 4, 6, 0, 1, 3)]
    folders = [
        write(tmp_path / str(i), stored(spec, "wic", 0.5)) for i, spec in enumerate(shuffled)
    ]
    assert selected(folders, plugins)[1] == ladder


@pytest.mark.parametrize(
    ("backbone", "tasks", "baselines"),
    [
        ("tiny", ("stsb", "simlex999", "wic"), True),
        ("roberta", ("wic",), True),
        ("minilm", ("wic", "stsb"), False),
    ],
)
def test_rows_keep_order_of_their_run(
    tmp_path: Path, plugins: Plugins, backbone: str, tasks: tuple[str, ...], baselines: bool
) -> None:
    spec, planned = parse_spec(backbone), dict[EncoderSpec, dict[str, None]]()
    for task in tasks:  # as the planner does: a ladder for each level, in the order of the tasks
        level = plugins.tasks[task].level
        ladder = expand_ladder(spec, level, plugins)
        for row in with_baselines(spec, ladder, level, plugins, 384) if baselines else ladder:
            planned.setdefault(row, {})[task] = None
    for i, (row, of) in enumerate(planned.items()):
        for task in of:
            result = stored(str(row), task, 0.5)
            result.cell["level"] = plugins.tasks[task].level
            write(tmp_path / str(99 - i), result)
    folders = sorted(tmp_path.iterdir())
    assert select(folders, plugins, Choice(tasks=tasks))[1] == list(planned)
    if (
        tasks[0] != "wic" or len(tasks) == 1
    ):  # a table of its own puts sentences before words in context
        assert select(folders, plugins)[1] == list(planned)


def test_partial_spec_selects_all_matching_encoders(folder: Path, plugins: Plugins) -> None:
    for wanted, expected in (
        (["bert"], SPECS[:3]),
        (["roberta", "bert+base"], (SPECS[3], SPECS[0])),  # in this order
        (["bert+mirror"], SPECS[1:3]),
        (["bert:drophead=0.2"], SPECS[2:3]),
    ):
        results, specs, _ = selected([folder], plugins, encoders=tuple(wanted), tasks=("stsb",))
        assert tuple(specs) == expected
        assert {(r.spec, r.task) for r in results} == {(spec, "stsb") for spec in expected}
    rows = tuple(
        map(parse_spec, ("sbert", "roberta+mirror", "bert+mirror"))
    )  # those without results are left out
    assert selected([folder], plugins, rows=rows)[1] == ["roberta+mirror", "bert+mirror"]
    assert selected([folder], plugins, rows=rows, encoders=("bert",))[1] == ["bert+mirror"]


def test_requested_metric_replaces_main_metric(folder: Path, plugins: Plugins) -> None:
    everywhere = selected([folder], plugins, metrics={"": "pearson"})[0]
    assert {(r.main_metric, r.main_score) for r in everywhere} == {("pearson", 0.25)}
    one = selected([folder], plugins, metrics={"stsb": "pearson"})[0]
    assert {(r.task, r.main_score) for r in one} == {("stsb", 0.25), ("sts12", 0.5)}


def test_mixed_results_are_refused_unless_allowed(
    folder: Path, plugins: Plugins, tmp_path: Path
) -> None:
    other = stored(
        "bert+mirror", "stsb", 0.9, data={"version": 2}, cell_id="b", created="2030-01-01"
    )
    folders = [folder, write(tmp_path / "b", other)]
    said = "stsb: 2 different versions of its data"
    with pytest.raises(UsageError, match=said):
        select(folders, plugins)
    results, _, notes = selected(folders, plugins, allow_mixed=True)
    assert notes == [f"Mixed, not comparable: {said}. The newest of each seed counts."]
    assert [r.main_score for r in results if (r.spec, r.task) == ("bert+mirror", "stsb")] == [0.9]
    assert selected(folders, plugins, tasks=("sts12",))[2] == []  # what is mixed is not selected


def test_selection_of_nonexistent_results_is_rejected(
    folder: Path, plugins: Plugins, tmp_path: Path
) -> None:
    for choice, error, message in (
        (Choice(encoders=("brt",)), UnknownNameError, "unknown encoder of these results 'brt'"),
        (Choice(metrics={"": "accuracy"}), UnknownNameError, "unknown metric of sts.* 'accuracy'"),
        (Choice(tasks=("wic",)), UsageError, "no results in .* asked for"),
        (Choice(protocol="released"), UsageError, "no results in .* asked for"),
        (Choice(rows=(parse_spec("sbert"),)), UsageError, "no result belongs to a row"),
    ):
        with pytest.raises(error, match=message):
            select([folder], plugins, choice)
    with pytest.raises(UsageError, match="no results in"):
        select([tmp_path], plugins)
    (tmp_path / "limit-5").mkdir()
    with pytest.raises(UsageError, match="no results in") as raised:
        select([tmp_path], plugins)
    assert str(tmp_path / "limit-5") in raised.value.hint


def test_encoder_is_found_by_a_name_that_is_no_spec(tmp_path: Path, plugins: Plugins) -> None:
    named = stored("bert+mirror", "stsb", 0.5)
    named.cell["name"] = "mine: second try"
    folder = write(tmp_path, named, stored("bert+base:pooling=mean", "stsb", 0.4))
    first, _ = results_of_two("mine: second try", "bert", (folder, folder), "", plugins)
    assert [entry.result.spec for entry in first] == ["bert+mirror"]
