"""The specs under ``leaderboards/``: how they are read; complete, consistent, and of names that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pytest

from mirrorbench.analysis import ANALYSES
from mirrorbench.core.errors import DataFormatError, UnknownNameError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.corpora import check_corpus
from mirrorbench.models import backbones
from mirrorbench.reports.papers.tables import (
    PAPERS,
    SCALES,
    FactTable,
    PaperTable,
    Printed,
    Target,
    find_table,
    paper_tables,
    read_paper_table,
    specs_folder,
)
from mirrorbench.runs.plan import expand_ladder
from mirrorbench.training.methods import mirror_preset, mirrorwic_preset
from mirrorbench.training.recipes import override

TABLES = {name: table for name, table in paper_tables().items() if isinstance(table, PaperTable)}
SPECS = [path for paper in PAPERS for path in (specs_folder() / paper).glob("*.yaml")]
PAPER_1 = [*(f"table{n}" for n in (*range(1, 11), *range(12, 15), *range(16, 21))), "figure4", "figure5", "figure7",
           "figure8", "text"]  # fmt: skip
PAPER_2 = ["table3", "table4", "table5", *(f"table{n}" for n in range(7, 12)), "figure2", "figure3", "figure4", "text"]
POSTER = ["table1", "table2", "table3", "figure1", "figure3"]
FUZZ = 1e-9
"""For sums of floats that stand for decimal fractions."""
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


def write(folder: Path, text: str, name: str = "table1") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def read_scores(folder: Path, text: str, name: str = "table1") -> PaperTable:
    table = read_paper_table(write(folder, text, name))
    assert isinstance(table, PaperTable)
    return table


def test_printed_numbers_keep_their_digits_and_are_converted(tmp_path: Path) -> None:
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


def test_a_column_changes_the_encoder_and_the_papers_own_value_is_left_out(tmp_path: Path) -> None:
    table = read_scores(tmp_path, SCORES)
    assert {place: str(t.spec) for place, t in table.targets().items()} == {
        (0, 0): "roberta+mirror",
        (0, 1): "roberta+mirror",
        (0, 2): "roberta+mirror:dropout=0.3",
    }
    assert [str(t.spec) for t in table.targets(parse_spec("tiny")).values()] == [
        "tiny+mirror:dropout=0.1",
        "tiny+mirror:dropout=0.1",
        "tiny+mirror:dropout=0.3",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: A table", "titel: A table", "line 2: unknown key 'titel'; did you mean 'title'?"),
        ("kind: scores", "kind: score", "did you mean 'scores'?"),
        ("scale: percent", "scale: per-cent", "line 5: scale: 'per-cent'"),
        ("metric: spearman", "notes: []", "twice"),
        ("metric: spearman\n", "", "tasks, but no metric"),
        ("task: sts12}", "task: sts12, suite: sts}", "must have one of the keys"),
        ("57.10, 58.0", "57.10", "3 values for 4 columns"),
        ("57.10", "57,10", "5 values for 4 columns"),
        ("57.10", "571", "'571' is no number with a point"),
        ("57.10", "n/a", "'n/a' is no number"),
        ("57.10", "<", "'<' is no number"),
        ("task: sts12}", "task: sts12, statistic: median}", "statistic: 'median'"),
        ("minus: STS 12", "minus: STS", "0 columns are headed 'STS'"),
        ("encoder: roberta+mirror,", "encoder: roberta+mirror:x,", "cannot read the encoder spec"),
        ("encoder: roberta+mirror, ", "", "'encoder' is missing"),
        ("label: A,", "label: A, against: 7,", "there is no row 7"),
        ("label: A,", "label: A, against: first,", "'first' is not the number of a row"),
        ("notes:", "disagreements: [{row: 3, column: STS 12, with: x, note: y}]\nnotes:", "there is no row 3"),
        ("notes:", "inconsistencies: [{row: 1, column: STS 12, note: y}]\nnotes:", "'recomputed' is missing"),
        ("columns:", "columns: [", "not valid YAML"),
        ("rows:", "lines:", "unknown key 'lines'"),
        ("{dropout: 0.3}", "{dropout: }", "is not KEY=VALUE"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert SCORES.count(old) >= 1
    with pytest.raises(DataFormatError, match=r"table1\.yaml") as caught:
        read_paper_table(write(tmp_path, SCORES.replace(old, new, 1)))
    assert message in str(caught.value)


def test_a_file_that_is_not_there_or_not_a_spec(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none.yaml", "cannot be read"),
        (write(tmp_path, "- a"), "must be of type mapping"),
    ):
        with pytest.raises(DataFormatError, match=message):
            read_paper_table(path)


Place = tuple[str, int, int]
"""Name of the table, row and column from 0."""


def inconsistencies(table: PaperTable) -> dict[tuple[int, int], float]:
    """Averages and differences that do not follow from the printed values, by row and column, and what does follow.

    A printed number stands for everything that is rounded to it; what is reported lies outside even so.
    """
    found = {}
    for r, row in enumerate(table.printed):
        for c, printed in enumerate(row):
            parts = _parts(table, r, c)
            if printed.value is None or not parts:
                continue
            value = sum(weight * part.value for weight, part in parts if part.value is not None)
            slack = sum(abs(weight) * part.unit / 2 for weight, part in parts) + printed.unit / 2
            if abs(printed.value - value) > slack + FUZZ:
                found[r, c] = value
    return found


def _parts(table: PaperTable, row: int, column: int) -> list[tuple[float, Printed]]:
    """The printed cells that a cell is computed from, with their weights; none if one of them has no number."""
    line, average, difference = table.printed[row], table.averaged(column), table.difference(column)
    parts: list[tuple[float, Printed]] = []
    if average:
        parts = [(1 / len(average), line[i]) for i in average]
    elif difference:
        first, second = difference
        if first != second:
            parts = [(1.0, line[first]), (-1.0, line[second])]
        elif (against := table.against(row)) is not None:
            parts = [(1.0, line[first]), (-1.0, table.printed[against][first])]
    return [] if any(part.value is None for _, part in parts) else parts


def disagreements(tables: Iterable[PaperTable]) -> list[tuple[Place, Place]]:
    """Pairs of cells of the same encoder on the same tasks that are printed with different values.

    Where one is printed with fewer digits, it is compared to that many.
    """
    places: dict[Target, list[tuple[Place, float, float]]] = {}
    for table in tables:
        for (row, column), target in table.targets().items():
            printed = table.printed[row][column]
            if printed.value is not None:
                places.setdefault(target, []).append(((table.name, row, column), printed.value, printed.unit))
    return [
        (first, second)
        for cells in places.values()
        for (first, a, unit_a), (second, b, unit_b) in combinations(cells, 2)
        if abs(a - b) > (0 if unit_a == unit_b else max(unit_a, unit_b) / 2) + FUZZ
    ]


SUMS = """
title: t
where: w
kind: scores
scale: fraction
metric: spearman
columns:
  - {head: a, task: sts12}
  - {head: b, task: sts13}
  - {head: avg., average: all}
  - {head: change, difference: avg.}
rows:
  - {label: A, encoder: roberta+mirror, values: [%s, "-"]}
  - {label: B, encoder: bert+mirror, against: 1, values: [%s]}
"""


def summed(folder: Path, first: str, second: str = "null, null, null, null", name: str = "t") -> PaperTable:
    return read_scores(folder, SUMS % (first, second), name)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (".100, .200, .150", []),
        (".100, .201, .151", []),  # .1505, rounded up
        (".100, .201, .150", []),  # rounded down: the printed values may have been rounded up themselves
        (".100, .201, .149", [(0, 2)]),
        (".100, .200, .152", [(0, 2)]),
        (".1, .2, .20", []),  # a printed .1 is anything from .05 to .15
        (".1, .2, .21", [(0, 2)]),
        (".100, null, .900", []),
    ],
)
def test_averages_are_checked(tmp_path: Path, values: str, found: list[tuple[int, int]]) -> None:
    assert list(inconsistencies(summed(tmp_path, values))) == found


@pytest.mark.parametrize(("change", "found"), [("+.100", []), ("+.101", []), ("+.102", [(1, 3)]), ("-.100", [(1, 3)])])
def test_differences_are_checked(tmp_path: Path, change: str, found: list[tuple[int, int]]) -> None:
    checked = summed(tmp_path, ".100, .200, .150", f".200, .300, .250, {change}")
    assert list(inconsistencies(checked)) == found


def test_values_printed_twice_are_found(tmp_path: Path) -> None:
    one = summed(tmp_path, ".100, .200, .150", ".300, .400, .350, +.200", "one")
    two = summed(tmp_path, ".101, .20, .15", "null, .400, .350, +.200", "two")
    ((first, second),) = disagreements([one, two])
    assert [first, second] == [(one.name, 0, 0), (two.name, 0, 0)]
    assert disagreements([one]) == []


def test_tables_come_in_printed_order_and_others_are_unknown_names() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_table("mirror-bert/tabel3")
    assert "mirror-bert/table3" in caught.value.hint
    names = [name for name in paper_tables() if name.startswith("mirror-bert/")]
    assert names[:3] == ["mirror-bert/table1", "mirror-bert/table2", "mirror-bert/table3"]
    assert names.index("mirror-bert/table9") + 1 == names.index("mirror-bert/table10")
    assert names[-2:] == ["mirror-bert/figure8", "mirror-bert/text"]


def test_every_table_is_there() -> None:
    for paper, wanted in (("mirror-bert", PAPER_1), ("mirrorwic", PAPER_2), ("poster", POSTER)):
        assert {f"{paper}/{name}" for name in wanted} <= set(TABLES)
    assert len(paper_tables()) == len(SPECS)


@pytest.mark.parametrize("name", TABLES)
def test_every_printed_average_and_difference_follows_or_is_declared(name: str) -> None:
    table = TABLES[name]
    found = inconsistencies(table)
    assert set(found) == {table.place(x) for x in table.inconsistencies}
    for declared in table.inconsistencies:
        digits = len(declared.recomputed.partition(".")[2])
        value = found[table.place(declared)] * SCALES[table.scale]
        assert f"{value:.{digits}f}".lstrip("0") == declared.recomputed


def test_every_value_printed_twice_agrees_or_is_declared() -> None:
    declared = {(t.name, *t.place(d)): d.where for t in TABLES.values() for d in t.disagreements}
    twice = disagreements(TABLES.values())
    assert not [pair for pair in twice if declared.keys().isdisjoint(pair)]
    others = {(place, other[0]) for pair in twice for place, other in (pair, pair[::-1])}
    assert declared.items() <= others


@pytest.mark.parametrize("name", TABLES)
def test_encoders_tasks_and_metrics_exist(name: str, plugins: Plugins) -> None:
    table = TABLES[name]
    for target in table.targets().values():
        if target.spec.method:
            assert target.spec.backbone in backbones.BACKBONES
        tasks = (target.analysis.task,) if target.analysis else target.tasks
        for level in {plugins.tasks[task].level for task in tasks}:
            assert expand_ladder(target.spec, level, plugins) == (target.spec,)  # a row, not a ladder
        if target.spec.method and plugins.methods[target.spec.method].tunes:
            method = plugins.methods[target.spec.method]
            recipe = method.preset("sentence", "bert", "paper")
            override(recipe, dict(target.spec.params), {e.name: e.value for e in plugins.augmentations})
        for task in () if target.analysis else tasks:
            main = plugins.tasks[task].main_metric
            others = ("accuracy", "auc", "accuracy@5", "pearson")
            related = target.metric == main or target.metric.rpartition("_")[2] in others
            assert related, f"{task} has {main}, the column {target.metric}"


def test_cosimlex_stands_beside_both_measures_that_the_printed_values_may_be() -> None:
    """Section 4 says "Spearman's rank correlation"; the released ``eval.sh`` has changes uploaded to the organisers."""
    table = TABLES["mirrorwic/table3"]
    metrics = {column.metric: place for place, column in enumerate(table.columns) if column.task == "cosimlex-en"}
    assert metrics.keys() == {"subtask1_spearman", "subtask1_uncentred_pearson"}
    one, other = metrics.values()
    assert [row[one] for row in table.printed] == [row[other] for row in table.printed]


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


def test_analyses_are_commands_with_these_options(plugins: Plugins) -> None:
    asked = [c.analysis for table in TABLES.values() for c in table.columns if c.analysis and not c.unavailable]
    assert {one.kind for one in asked} == {"isotropy", "layers", "projection", "similarity"}
    for one in asked:
        assert one.options.keys() <= ANALYSES[one.kind].keys()
        for corpus in filter(None, (one.corpus, one.texts)):
            check_corpus(corpus, plugins.corpora.by_name())


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
    assert "sbert:pooling=mean-padded" in specs
    assert not [s for s in specs if s.startswith(("bert", "roberta"))]


def test_what_varies_along_the_columns_is_found() -> None:
    assert TABLES["mirror-bert/table12"].sweeps == ((0, 1, 2, 3, 4),)
    assert TABLES["mirrorwic/table8"].sweeps == ((0, 1),)  # the third column is their difference
    assert TABLES["mirrorwic/figure4"].sweeps == (tuple(range(6)), tuple(range(6, 12)))
    swept = {name for name, table in TABLES.items() if table.sweeps}
    assert swept == {"mirror-bert/table12", "mirror-bert/table13", "mirror-bert/figure5", "mirror-bert/figure8",
                     "mirrorwic/table7", "mirrorwic/table8", "mirrorwic/table9", "mirrorwic/figure4",
                     "poster/figure3"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "read"), [("< 0.002", True), ("≈ 30", True), ("10-20", True), (".5", False), ("null", False)]
)
def test_bounds_and_ranges_are_texts_without_a_value(tmp_path: Path, text: str, read: bool) -> None:
    printed = read_scores(tmp_path, SCORES.replace("57.10", text)).printed[0][0]
    assert (printed.text == text and printed.value is None) is read


def test_a_row_that_the_paper_does_not_print_runs_on_no_other_backbone(tmp_path: Path) -> None:
    table = read_scores(tmp_path, SCORES.replace("encoder: roberta", "source: README, encoder: roberta"))
    assert len(table.targets()) == 3
    assert not table.targets(parse_spec("tiny"))


def test_the_papers_own_models_are_read_as_their_cards_say(plugins: Plugins) -> None:
    """A row of a released model has the readout of its short name, so that the name alone measures the row."""
    rows = [row for table in TABLES.values() for row in table.rows if "released model" in row.label]
    assert len(rows) == 8
    for row in rows:
        assert expand_ladder(parse_spec(row.spec.backbone), "sentence", plugins) == (row.spec,)
        assert backbones.BACKBONES[row.spec.backbone].hub_id.startswith("cambridgeltl/mirror")


# "For 'non-Mirrored' original MLMs, the results with mp are reported" (paper 1, footnote 5); "mean-pooling over all
# tokens (including padded ones) yield better performance (.754 vs .749)" (Table 3's caption); the released evaluation
# averages over 64 positions.
def test_rows_that_are_mean_pooled_name_the_mean_over_padding() -> None:
    names = [f"mirror-bert/table{n}" for n in (1, 2, 3, 4, 5, 6, 10, 16, 17, 18, 19)]
    for name in [*names, "poster/table1", "poster/table2", "poster/table3"]:
        for row in TABLES[name].rows:
            pooling = row.spec.get("pooling")
            if row.source or "CLS" in row.label or row.spec.method == "mirror" or row.spec.backbone == "fasttext":
                assert pooling != "mean"
            elif row.spec.backbone == "sapbert":
                assert pooling is None
            else:
                assert pooling == "mean-padded", (name, row.label)


def test_every_spec_is_listed_on_the_page_of_the_papers() -> None:
    page = (specs_folder().parent / "docs" / "papers.md").read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[[^]]+\]\(\.\./leaderboards/(\S+)\.yaml\)", page, re.MULTILINE)
    assert sorted(linked) == sorted(paper_tables())
