"""The specs under ``leaderboards/``: how they are read; complete, consistent, and of names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mirrorbench.analysis import ANALYSES
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.corpora import check_corpus
from mirrorbench.models import backbones
from mirrorbench.papers import specs_folder
from mirrorbench.papers.table_files import (
    FactTable,
    PaperTable,
    find_table,
    paper_tables,
    read_paper_table,
)
from mirrorbench.runs.ladder import expand_ladder
from mirrorbench.training.methods import mirror_preset, mirrorwic_preset
from mirrorbench.training.recipes import override

TABLES = {name: table for name, table in paper_tables().items() if isinstance(table, PaperTable)}
SCORES = """
title: A table
where: A paper, Table 1
kind: scores
scale: percent
metric: spearman
defaults: {dropout: 0.1}
columns:
  - {group: STS, head: "12", task: sts12}
  - {group: STS, head: "13", task: sts13, set: {dropout: 0.1}}
  - {group: STS, head: "14", task: sts13, set: {dropout: 0.3}}
  - {head: change, difference: STS 13, minus: STS 12}
rows:
  - {label: A, encoder: roberta+mirror, values: [57.10, 58.0, null, +0.9]}
  - {label: B, encoder: null, note: unknown, values: ["-", -1.00, 0.05, "-"]}
notes:
  - one
    two
"""


def read_scores(folder: Path, text: str) -> PaperTable:
    path = folder / "table1.yaml"
    path.write_text(text, encoding="utf-8")
    table = read_paper_table(path)
    assert isinstance(table, PaperTable)
    return table


def test_printed_numbers_keep_digits_and_are_scaled(tmp_path: Path) -> None:
    table = read_scores(tmp_path, SCORES)
    first, second = table.printed
    assert [p.text for p in first] == ["57.10", "58.0", "", "+0.9"]
    assert [p.value for p in first] == pytest.approx([0.571, 0.58, None, 0.009])
    assert [p.unit for p in first[:2]] == pytest.approx([0.0001, 0.001])
    assert second[0].absent
    assert not first[2].absent
    assert second[1].value == pytest.approx(-0.01)
    assert table.rows[1].spec is None
    assert table.notes == ("one two",)
    for text, read in (
        ("< 0.002", True),
        ("≈ 30", True),
        ("10-20", True),
        (".5", False),
        ("null", False),
    ):
        printed = read_scores(tmp_path, SCORES.replace("57.10", text)).printed[0][0]
        assert (printed.text == text and printed.value is None) is read, (
            text
        )  # a bound or a range: no value


def test_column_settings_override_encoder_but_omit_defaults(tmp_path: Path) -> None:
    """On another backbone the paper's value is explicit, and a row that the paper does not print is not measured."""
    table = read_scores(tmp_path, SCORES)
    specs_by_cell = {cell: str(target.spec) for cell, target in table.targets().items()}
    assert specs_by_cell == {
        (0, 0): "roberta+mirror",
        (0, 1): "roberta+mirror",
        (0, 2): "roberta+mirror:dropout=0.3",
    }
    on_another = [str(target.spec) for target in table.targets(parse_spec("tiny")).values()]
    assert on_another == [
        "tiny+mirror:dropout=0.1",
        "tiny+mirror:dropout=0.1",
        "tiny+mirror:dropout=0.3",
    ]
    table = read_scores(
        tmp_path, SCORES.replace("encoder: roberta", "source: README, encoder: roberta")
    )
    assert len(table.targets()) == 3
    assert not table.targets(parse_spec("tiny"))
    specs = {
        str(target.spec)
        for target in TABLES["mirror-bert/table3"].targets(parse_spec("tiny")).values()
    }
    assert "sbert:pooling=mean-padded" in specs  # a system stays
    assert not [spec for spec in specs if spec.startswith(("bert", "roberta"))]


def test_malformed_paper_table_is_rejected_with_reason(tmp_path: Path) -> None:
    for old, new, message in (
        ("title: A table", "titel: A table", "line 2: unknown key 'titel'; did you mean 'title'?"),
        ("scale: percent", "scale: per-cent", "line 5: scale: 'per-cent'"),
        ("metric: spearman\n", "", "tasks, but no metric"),
        ("task: sts12}", "task: sts12, suite: sts}", "must have one of the keys"),
        ("57.10, 58.0", "57.10", "3 values for 4 columns"),
        ("57.10", "571", "'571' is not a number with a decimal point"),
        ("57.10", "n/a", "'n/a' is not a number"),
        ("minus: STS 12", "minus: STS", "0 columns are headed 'STS'"),
        ("encoder: roberta+mirror,", "encoder: roberta+mirror:x,", "cannot read the encoder spec"),
        ("encoder: roberta+mirror, ", "", "'encoder' is missing"),
        ("label: A,", "label: A, against: 7,", "there is no row 7"),
        ("label: A,", "label: A, against: first,", "'first' is not the number of a row"),
        (
            "notes:",
            "disagreements: [{row: 3, column: STS 12, with: x, note: y}]\nnotes:",
            "there is no row 3",
        ),
        (
            "notes:",
            "inconsistencies: [{row: 1, column: STS 12, note: y}]\nnotes:",
            "'recomputed' is missing",
        ),
        ("{dropout: 0.3}", "{dropout: }", "is not KEY=VALUE"),
    ):
        with pytest.raises(DataFormatError, match=r"table1\.yaml") as caught:
            read_scores(tmp_path, SCORES.replace(old, new, 1))
        assert message in str(caught.value)
    with pytest.raises(DataFormatError, match=r"none\.yaml.* cannot be read"):
        read_paper_table(tmp_path / "none.yaml")


def test_tables_come_in_printed_order() -> None:
    names = [name for name in paper_tables() if name.startswith("mirror-bert/")]
    assert names[:3] == ["mirror-bert/table1", "mirror-bert/table2", "mirror-bert/table3"]
    assert names.index("mirror-bert/table9") + 1 == names.index("mirror-bert/table10")
    assert names[-2:] == ["mirror-bert/figure8", "mirror-bert/text"]


def test_paper_tables_name_existing_encoders_and_tasks(plugins: Plugins) -> None:
    asked = [
        c.analysis
        for table in TABLES.values()
        for c in table.columns
        if c.analysis and not c.unavailable
    ]
    assert {analysis.name for analysis in asked} == {
        "isotropy",
        "layers",
        "projection",
        "similarity",
    }
    for analysis in asked:
        assert analysis.options.keys() <= ANALYSES[analysis.name].keys()
        for corpus in filter(None, (analysis.corpus, analysis.texts)):
            check_corpus(corpus, plugins.corpora)
    for target in dict.fromkeys(
        target for table in TABLES.values() for target in table.targets().values()
    ):
        tasks = (target.analysis.task,) if target.analysis else target.tasks
        for level in {plugins.tasks[task].level for task in tasks}:
            # A row, not a ladder.
            assert expand_ladder(target.spec, level, plugins) == (target.spec,)
        if target.spec.method:
            assert target.spec.backbone in backbones.BACKBONES
            method = plugins.methods[target.spec.method]
            if method.tunes:
                augmentations = {entry.name: entry.value for entry in plugins.augmentations}
                preset = method.preset("sentence", "bert", "paper")
                override(preset, dict(target.spec.params), augmentations)
        if target.analysis:
            continue
        for task in tasks:
            measure = target.metric.rpartition("_")[2]
            is_main = target.metric == plugins.tasks[task].main_metric
            assert is_main or measure in ("accuracy", "auc", "accuracy@5", "pearson"), task


def test_paper_defaults_equal_presets() -> None:
    architectures = {"bert": "bert", "mbert": "bert", "roberta": "roberta", "deberta": "deberta"}
    for name, table in TABLES.items():
        for row in (row for row in table.rows if table.defaults_of(row)):
            preset = mirrorwic_preset if row.spec.method == "mirrorwic" else mirror_preset
            recipe = preset("sentence", architectures[row.spec.backbone], "paper")
            for key, value in table.defaults_of(row):
                assert value == (recipe.layers if key == "layers" else recipe.rate(key)), (
                    name,
                    row.label,
                    key,
                )


def test_models_in_papers_match_known_backbones(plugins: Plugins) -> None:
    for name in ("mirror-bert/table15", "mirrorwic/table12"):
        table = find_table(name)
        assert isinstance(table, FactTable)
        for model in table.rows:
            assert model.preset or model.label == "fastText"
            if model.preset:
                assert (
                    backbones.BACKBONES[model.preset].hub_id
                    == model.values[table.columns.index("URL")]
                ), model.label
    released = [
        row for table in TABLES.values() for row in table.rows if "released model" in row.label
    ]
    assert len(released) == 8
    # A row has the readout of the model's short name, so that the name alone measures it.
    for row in released:
        assert expand_ladder(parse_spec(row.spec.backbone), "sentence", plugins) == (row.spec,)


def test_published_hyperparameters_equal_presets() -> None:
    def used(text: str) -> set[float]:
        """The values that a search space marks as used, or all of an unmarked one."""
        marked = re.findall(r"([\d.]+(?:e-\d+)?)\*", text)
        return {float(x) for x in marked or re.findall(r"[\d.]+(?:e-\d+)?", text)}

    recipes = [mirror_preset(level, "bert", "paper") for level in ("word", "phrase", "sentence")]
    for row in find_table("mirror-bert/table21").rows:
        assert {getattr(recipe, row.preset) for recipe in recipes} == used(row.values[0]), row.label
    for row in find_table("mirrorwic/table13").rows:
        architecture, _, key = row.preset.rpartition(" ")
        if row.preset:
            recipe = mirrorwic_preset("wic", architecture or "bert", "paper")
            value = getattr(recipe, key) if hasattr(recipe, key) else recipe.rate(key)
            assert {value} == used(row.values[0]), row.label


def test_sweeps_across_columns_are_found() -> None:
    assert TABLES["mirror-bert/table12"].sweeps == ((0, 1, 2, 3, 4),)
    assert TABLES["mirrorwic/table8"].sweeps == ((0, 1),)  # the third column is their difference
    assert TABLES["mirrorwic/figure4"].sweeps == (tuple(range(6)), tuple(range(6, 12)))
    assert not TABLES["mirror-bert/table3"].sweeps


def test_measured_page_links_every_paper_table() -> None:
    page = (specs_folder().parent / "docs" / "measured.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(\.\./leaderboards/(\S+?)\.yaml\)", page)
    assert sorted(linked) == sorted(paper_tables())
