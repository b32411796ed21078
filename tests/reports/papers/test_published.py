"""The specs under ``leaderboards/``: complete, consistent, and made of names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checking import disagreements, inconsistencies

from mirrorbench.cli import app
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.models import backbones
from mirrorbench.reports.papers.tables import (
    PAPERS,
    SCALES,
    FactTable,
    PaperTable,
    find_table,
    paper_tables,
    specs_folder,
)
from mirrorbench.runs.plan import expand_ladder
from mirrorbench.training.methods import mirror_preset, mirrorwic_preset
from mirrorbench.training.recipes import override

TABLES = {name: table for name, table in paper_tables().items() if isinstance(table, PaperTable)}
SPECS = [path for paper in PAPERS for path in (specs_folder() / paper).glob("*.yaml")]
PAPER_1 = [*(f"table{n}" for n in (*range(1, 11), *range(12, 15), *range(16, 21))), "figure4", "figure5", "figure7",
           "figure8"]  # fmt: skip
PAPER_2 = ["table3", "table4", "table5", *(f"table{n}" for n in range(7, 12)), "figure2", "figure3", "figure4"]


def test_every_table_is_there() -> None:
    for paper, wanted in (("mirror-bert", PAPER_1), ("mirrorwic", PAPER_2), ("poster", ["table1", "table2", "table3"])):
        assert {f"{paper}/{name}" for name in wanted} <= set(TABLES)
    assert len(paper_tables()) == len(SPECS)
    assert list(paper_tables())[:2] == ["mirror-bert/table1", "mirror-bert/table2"]


@pytest.mark.parametrize("name", TABLES)
def test_every_printed_average_and_difference_follows_or_is_declared(name: str) -> None:
    table = TABLES[name]
    found = {(x.row, x.column): x.value for x in inconsistencies(table)}
    assert set(found) == {table.place(x) for x in table.inconsistencies}
    for declared in table.inconsistencies:
        digits = len(declared.recomputed.partition(".")[2])
        value = found[table.place(declared)] * SCALES[table.scale]
        assert f"{value:.{digits}f}".lstrip("0") == declared.recomputed


def test_averages_by_hand() -> None:
    # The checker itself against sums written out: the one that fails, and one that holds.
    assert (round((0.599 + 0.455 + 0.552) / 3, 3), find_table("mirror-bert/table4").printed[0][3].text) == (
        0.535, ".533",
    )  # fmt: skip
    averaged = sum(any(c.average or c.difference for c in table.columns) for table in TABLES.values())
    assert averaged == 15


def test_every_value_printed_twice_agrees_or_is_declared() -> None:
    declared = {(t.name, *t.place(d)): d.where for t in TABLES.values() for d in t.disagreements}
    twice = disagreements(TABLES.values())
    assert not [pair for pair in twice if pair.first not in declared and pair.second not in declared]
    others: dict[tuple[str, int, int], set[str]] = {}
    for pair in twice:
        others.setdefault(pair.first, set()).add(pair.second[0])
        others.setdefault(pair.second, set()).add(pair.first[0])
    assert {place for place, where in declared.items() if where not in others.get(place, set())} == set()


def test_fasttext_in_english() -> None:
    def english(name: str) -> str:
        return TABLES[name].printed[0][0].text

    assert {english("mirror-bert/table1"), english("mirror-bert/table16"), english("mirror-bert/table10")} == {".528"}
    assert {english("poster/table1"), english("poster/table3")} == {".434"}


@pytest.mark.parametrize("name", TABLES)
def test_encoders_tasks_and_metrics_exist(name: str, plugins: Plugins) -> None:
    table = TABLES[name]
    for target in table.targets().values():
        if target.spec.method:
            assert target.spec.backbone in backbones.BACKBONES
        levels = {plugins.tasks[task].level for task in target.tasks}
        for level in levels:
            assert expand_ladder(target.spec, level, plugins) == (target.spec,)  # a row, not a ladder
        if target.spec.method and plugins.methods[target.spec.method].tunes:
            method = plugins.methods[target.spec.method]
            recipe = method.preset("sentence", "bert", "paper")
            override(recipe, dict(target.spec.params), {e.name: e.value for e in plugins.augmentations})
        for task in target.tasks:
            main = plugins.tasks[task].main_metric
            related = target.metric == main or target.metric.rpartition("_")[2] in ("accuracy", "auc", "accuracy@5")
            assert related, f"{task} has {main}, the column {target.metric}"


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_own_values_are_our_presets(name: str) -> None:
    architectures = {"bert": "bert", "mbert": "bert", "roberta": "roberta", "deberta": "deberta"}
    for row in TABLES[name].rows:
        defaults = TABLES[name].defaults_of(row)
        if not defaults:
            continue
        preset = mirrorwic_preset if row.spec.method == "mirrorwic" else mirror_preset
        recipe = preset("sentence", architectures[row.spec.backbone], "paper")
        for key, value in defaults:
            assert value == (recipe.layers if key == "layers" else recipe.rate(key)), (name, row.label, key)


def test_analyses_are_commands() -> None:
    from typer.main import get_command

    analyses = set(get_command(app).commands["analyze"].commands)  # type: ignore[attr-defined]
    assert {c.analysis for table in TABLES.values() for c in table.columns if c.analysis} <= analyses


def test_models_are_our_backbones() -> None:
    for name in ("mirror-bert/table15", "mirrorwic/table12"):
        table = find_table(name)
        assert isinstance(table, FactTable)
        column = table.columns.index("URL")
        for row in table.rows:
            assert row.preset or row.label == "fastText"
            if row.preset:
                assert backbones.BACKBONES[row.preset].hub_id == row.values[column], row.label


def starred(text: str) -> set[float]:
    """The values that a search space marks as used; all of them where it marks none."""
    marked = re.findall(r"([\d.]+(?:e-\d+)?)\*", text)
    return {float(x) for x in marked or re.findall(r"[\d.]+(?:e-\d+)?", text)}


def test_hyper_parameters_are_our_presets() -> None:
    table = find_table("mirror-bert/table21")
    recipes = [mirror_preset(level, "bert", "paper") for level in ("word", "phrase", "sentence")]
    for row in table.rows:
        assert {getattr(recipe, row.preset) for recipe in recipes} == starred(row.values[0]), row.label
    table = find_table("mirrorwic/table13")
    for row in table.rows:
        architecture, _, key = row.preset.rpartition(" ")
        if not row.preset:
            continue
        recipe = mirrorwic_preset("wic", architecture or "bert", "paper")
        assert {getattr(recipe, key) if hasattr(recipe, key) else recipe.rate(key)} == starred(row.values[0]), row.label


def test_a_row_is_a_line_and_no_line_is_long() -> None:
    for path in SPECS:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [line for line in lines if line.startswith("  - {label:")]
        assert len(rows) == len(paper_tables()[f"{path.parent.name}/{path.stem}"].rows)
        assert max(map(len, lines)) <= 220


def test_specs_are_found_in_a_checkout() -> None:
    assert specs_folder() == Path(__file__).resolve().parents[3] / "leaderboards"


def test_systems_stay_when_the_backbone_changes() -> None:
    targets = TABLES["mirror-bert/table3"].targets(parse_spec("tiny"))
    specs = {str(target.spec) for target in targets.values()}
    assert "sbert" in specs
    assert not [s for s in specs if s.startswith(("bert", "roberta"))]
