from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from helpers.stored_results import stored

from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.leaderboard import Leaderboard, build_table, provenance, row_label
from mirrorbench.reports.table import Column, Row, Score, Table
from mirrorbench.runs.outcomes import Failure
from mirrorbench.storage.results import Result


def provenance_notes(results: Sequence[Result]) -> list[str]:
    return [str(note) for note in provenance(results)]


def means(table: Table) -> list[list[float | None]]:
    return [[score.mean if score else None for score in row.scores] for row in table.rows]


def test_columns_come_in_the_registered_order_with_averages(registered: Plugins) -> None:
    """One for each of several suites, and one over all."""
    values = {"sts12": 0.2, "stsb": 0.4, "multisimlex-en": 0.6, "multisimlex-fr": 0.9, "wic": 0.5}
    table = build_table(
        [stored("toy", task, value) for task, value in reversed(values.items())], registered
    )
    assert [(column.name, column.suite) for column in table.columns] == [
        ("sts12", "sts"),
        ("stsb", "sts"),
        ("avg. sts", "sts"),
        ("multisimlex-en", "simlex"),
        ("multisimlex-fr", "simlex"),
        ("avg. simlex", "simlex"),
        ("wic", "wic"),
        ("avg.", ""),
    ]
    assert means(table) == [
        [pytest.approx(value) for value in (0.2, 0.4, 0.3, 0.6, 0.9, 0.75, 0.5, 0.52)]
    ]
    assert table.columns[-1].average_of == tuple(values)
    assert table.groups() == [("sts", 3), ("simlex", 3), ("wic", 1), ("", 1)]
    assert table.heads() == ["STS12", "STS-b", "sts avg.", "EN", "FR", "simlex avg.", "WiC", "avg."]
    assert (table.columns[1].level, table.columns[1].languages) == ("sentence", ("en",))
    for asked, wanted, shown in (
        (
            ("sts12", "wic", "stsb"),
            ("sts12", "wic", "stsb"),
            ["sts12", "wic", "stsb", "avg."],
        ),  # a suite apart
        (
            ("gone", "dogs", "stsb", "cats"),
            (),
            ["stsb", "cats", "dogs", "gone", "avg."],
        ),  # unknown ones last
    ):
        table = build_table([stored("toy", task, 0.5) for task in asked], registered, wanted)
        assert [column.name for column in table.columns] == shown


def test_seeds_give_the_mean_and_sample_deviation(registered: Plugins) -> None:
    cats, dogs = np.array([0.1, 0.4, 0.7]), np.array([0.3, 0.5, 0.1])
    results = [stored("toy", "cats", value, seed) for seed, value in enumerate(cats)]
    results += [
        stored("toy", "dogs", value, seed) for seed, value in reversed(list(enumerate(dogs)))
    ]
    table = build_table(results, registered)
    (row,) = table.rows
    for score, values in zip(row.scores, (cats, dogs, (cats + dogs) / 2), strict=True):
        assert score
        assert (score.mean, score.sd, score.n) == pytest.approx(
            (values.mean(), values.std(ddof=1), 3)
        )
        np.testing.assert_allclose(score.seeds, list(enumerate(values)))
    ids = [score.cell_ids for score in row.scores[:2] if score]
    assert ids == [
        tuple(f"toy/{task}/{seed}/paper" for seed in range(3)) for task in ("cats", "dogs")
    ]
    assert "± sample standard deviation over 3 seeds" in table.notes[1]


def test_missing_scores_have_no_average(registered: Plugins) -> None:
    whole = [stored("other", task, 0.5) for task in ("cats", "dogs")]
    results = [stored("toy", "cats", 0.7), stored("other", "cats", None), whole[1]]
    rows = [parse_spec(spec) for spec in ("toy", "other", "third")]
    table = build_table(results, registered, ["cats", "dogs"], rows)
    assert means(table) == [
        [0.7, None],
        [None, 0.5],
        [None, None],
    ]  # and no average, which no row has
    two_models = [
        stored("toy", "cats", 0.7),
        stored("toy", "dogs", 0.6, encoder={"weights": "others"}),
    ]
    assert [column.name for column in build_table(two_models, registered).columns] == [
        "cats",
        "dogs",
    ]
    assert means(build_table([*two_models, *whole], registered)) == [
        [0.7, 0.6, None],
        [0.5, 0.5, 0.5],
    ]
    seeds = [stored("toy", "cats", 0.1), stored("toy", "cats", 0.2, 1), stored("toy", "dogs", 0.3)]
    assert means(build_table([*seeds, *whole], registered)) == [
        [pytest.approx(0.15), 0.3, None],
        [0.5, 0.5, 0.5],
    ]
    assert means(build_table([seeds[0], stored("toy", "cats", None, 1)], registered)) == [[None]]


def test_protocols_get_separate_rows(registered: Plugins) -> None:
    results = [stored("toy", "cats", 0.1), stored("toy", "cats", 0.9, protocol="released")]
    table = build_table(results, registered)
    assert [(row.label, row.spec) for row in table.rows] == [
        ("toy [paper]", "toy"),
        ("toy [released]", "toy"),
    ]
    assert means(table) == [[0.1], [0.9]]
    results[1] = stored("other", "cats", 0.9, protocol="released")
    rows = [
        parse_spec(spec) for spec in ("toy", "other", "failed")
    ]  # no empty row of a protocol that others have
    labels = [row.label for row in build_table(results, registered, ["cats"], rows).rows]
    assert labels == ["toy [paper]", "other [released]", "failed [paper]", "failed [released]"]


def test_frames_name_rows_of_both_protocols(registered: Plugins) -> None:
    pytest.importorskip("pandas")
    results = (stored("toy", "cats", 0.1), stored("toy", "cats", 0.9, protocol="released"))
    table = build_table(results, registered)
    frame = Leaderboard(table, results, (), registered).to_frame()
    labels = {row.protocol: row.label for row in table.rows}
    assert len(set(labels.values())) == 2
    assert list(frame["encoder"]) == [labels[protocol] for protocol in frame["protocol"]]


def test_notes_explain_provenance_and_missing_scores(registered: Plugins) -> None:
    """Rows that lack a task for one reason share a note."""
    results = [stored("toy", "cats", 0.1, corpus="sts-sentences", corpus_size=9255)]
    results.append(stored("toy", "dogs", 0.2, notes=["half of it is lost"]))
    failures = [
        Failure(parse_spec(spec), task, reason, "look up")
        for task, reason in (("birds", "no birds\nat all"), ("fish", "no fish"))
        for spec in ("toy", "toy", "sbert:path=/home/me/MiniLM")
    ]
    failures.append(Failure(parse_spec("bert+mirror"), "birds", "no BERT", ""))
    assert build_table(results, registered, failures=failures).notes == (
        "Metric: Spearman's correlation.",
        "Protocol: paper; precision: fp32.",
        "Tuned on: sts-sentences (9,255 strings).",
        "dogs: half of it is lost",
        "missing: toy, SBERT (MiniLM) on birds: no birds",
        "missing: toy, SBERT (MiniLM) on fish: no fish",
        "missing: BERT + Mirror on birds: no BERT",
    )
    assert build_table([], registered) == Table("", (), ())


def test_best_two_scores_are_ranked_with_ties() -> None:
    for values, expected in (
        ([0.1, 0.3, 0.2], [0, 1, 2]),
        ([0.3001, 0.2999, 0.1], [1, 1, 2]),  # printed alike
        ([0.3, 0.2, 0.2], [1, 2, 2]),
        ([None, 0.2, 0.1], [0, 1, 2]),
        ([None, 0.2, None], [0, 0, 0]),  # nothing to compare with
        ([-0.3, -0.1, 0.0], [0, 2, 1]),
    ):
        rows = [
            Row(str(i), str(i), (None if v is None else Score(v, None, 1),))
            for i, v in enumerate(values)
        ]
        assert [
            marks[0] for marks in Table("", (Column("a", "A"),), tuple(rows)).ranks()
        ] == expected, values


def test_a_baseline_has_a_row_and_no_rank(
    registered: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered.tasks["cats"], "baselines", {"chance": "chance"}, raising=False)
    results = [stored("toy", "cats", 0.1), stored("toy", "dogs", 0.2), stored("other", "cats", 0.3)]
    for each in results:
        each.metrics["chance"] = 0.9
    table = build_table(results, registered)
    assert [(row.label, row.spec) for row in table.rows] == [
        ("toy", "toy"),
        ("other", "other"),
        ("chance", ""),
    ]
    assert means(table)[2] == [0.9, None, None]  # of dogs no baseline is known
    assert [ranks[0] for ranks in table.ranks()] == [2, 1, 0]
    # Another metric, or other items, would have another baseline.
    assert (
        len(build_table([replace(results[0], main_metric="f1", main_score=0.1)], registered).rows)
        == 1
    )
    assert len(build_table([replace(results[0], main_score=0.4)], registered).rows) == 1


def test_row_labels_follow_the_papers(registered: Plugins) -> None:
    for spec, label in {
        "roberta+base:pooling=cls": "RoBERTa-CLS",
        "roberta+base:pooling=mean": "RoBERTa-mp",
        "roberta+base": "RoBERTa-mp",
        "roberta+mirror": "RoBERTa + Mirror",
        "minilm+base:pooling=mean": "minilm",
        "minilm+base:pooling=cls": "minilm-CLS",
        "roberta+mirror:drophead=0.05,dropout=0": "RoBERTa + Mirror (drophead=0.05, dropout=0)",
        "./my-model+mirror": "./my-model + Mirror",
        "sbert:path=/home/me/MiniLM": "SBERT (MiniLM)",
        "bert+base:pooling=cls,post=zscore,corpus=words-en": "BERT-CLS (corpus=words-en), z-scored",
        "bert+mirror:post=center": "BERT + Mirror, centred",
        "minilm+base:pooling=mean,post=abtt": "minilm, all but the top",
        "toy:post=stored": "toy, as fitted",
        "tiny+base:pooling=mean,layers=:,post=whiten,whiten=256": "tiny-mp (layers=:), whitened (256)",
        "toy": "toy",
        "gone+forgotten:a=1": "gone + forgotten (a=1)",
    }.items():
        assert row_label(parse_spec(spec), registered) == label
    alike = ["bert+base", "bert+base:pooling=mean", "bert+mirror"]  # the first two by their specs
    failure = Failure(parse_spec(alike[1]), "dogs", "no dogs", "")
    table = build_table(
        [stored(spec, "cats", 0.1) for spec in alike], registered, failures=[failure]
    )
    assert [row.label for row in table.rows] == [*alike[:2], "BERT + Mirror"]
    assert table.notes[-1] == "missing: bert+base:pooling=mean on dogs: no dogs"


def test_rows_are_called_what_the_user_typed(registered: Plugins) -> None:
    """All results of a row state the same name; a row of which some have none keeps the papers' name."""

    def named(spec: str, task: str, name: str) -> Result:
        result = stored(spec, task, 0.1)
        return replace(result, cell={**result.cell, "name": name})

    results = [named("./m+base:layers=-1:", task, "./m") for task in ("cats", "dogs")]
    results += [named("bert+mirror", "cats", "bert+mirror"), stored("bert+mirror", "dogs", 0.1)]
    table = build_table(results, registered)
    assert [row.label for row in table.rows] == ["./m", "BERT + Mirror"]
    planned = {parse_spec("bert+mirror"): "mine"}
    table = build_table(results, registered, names=planned)
    assert [row.label for row in table.rows] == ["./m", "mine"]


def test_note_counts_seeds_of_each_row() -> None:
    rows = [("bert+mirror", 3), ("roberta+mirror", 2), ("bert", 1)]
    results = [
        stored(spec, task, 0.5, seed)
        for spec, n in rows
        for seed in range(n)
        for task in ("stsb", "sts12")
    ]
    assert "± sample standard deviation over 2 or 3 seeds." in provenance_notes(results)[0]
    assert "seeds" not in provenance_notes(results[-2:])[0]
    # Two seeds on one task and another two on the other are two each, and not three.
    results = [
        stored("bert", task, 0.1, seed)
        for task, seeds in (("stsb", (0, 1)), ("sts12", (1, 2)))
        for seed in seeds
    ]
    assert "over 2 seeds" in provenance_notes(results)[0]


def test_provenance_note_names_version_date_and_commit() -> None:
    made = {"mirrorbench": "0.1.0", "packages": {"torch": "2.9"}, "device": "cpu"}
    first = stored("bert", "stsb", 0.5, environment=made, created="2026-01-02T03:04:05+00:00")
    second = replace(
        first, created="2026-01-05T00:00:00+00:00", environment={**made, "device": "cuda"}
    )
    line = "2 results of 2026-01-02 to 2026-01-05: mirrorbench 0.1.0, torch 2.9; cpu, cuda."
    assert line in provenance_notes([first, second])
    assert provenance_notes([]) == []
    commit = "0123456789abcdef0123456789abcdef01234567"
    for git, shown in (
        (commit, " (012345678)"),
        (f"{commit}-dirty", " (012345678-dirty)"),
        (None, ""),
    ):
        line = f"1 result of 2026-01-02: mirrorbench 0.1.0{shown}, torch 2.9; cpu."
        assert line in provenance_notes([replace(first, environment={**made, "git": git})])
    kept = replace(first, cost={"tuning": {"from_cache": True}})
    for results, said in (
        ([first, kept], "2 results of 2026-01-02, 1 by a"),
        ([kept], "1 result of 2026-01-02,"),
    ):
        assert provenance_notes(results)[-1].startswith(
            f"{said} tuned model from cache: mirrorbench 0.1.0"
        )


def test_tuning_corpora_are_noted_by_task() -> None:
    def said(*of: tuple[str, str]) -> str:
        results = [stored("bert+mirror", task, 0.5, corpus=corpus) for task, corpus in of]
        (line,) = (line for line in provenance_notes(results) if line.startswith("Tuned on"))
        return line

    alike = [("stsb", "a"), ("sts12", "a")]
    assert said(*alike) == "Tuned on: a (10 strings)."
    assert (
        said(("stsb", "a"), ("stsb", "b")) == "Tuned on: a (10 strings), b (10 strings)."
    )  # these are two rows
    expected = "Tuned on: a (10 strings) for stsb, sts12; b (10 strings) for simlex999."
    assert said(*alike, ("simlex999", "b")) == expected


def test_notes_name_metrics_corpora_and_overlap(registered: Plugins) -> None:
    spec = "bert+mirror"
    results = [
        stored(spec, "stsb", 0.5, corpus="a", overlap={"any_text": 0.1, "all_texts": 0.0}),
        stored(spec, "stsb", 0.5, 1, corpus="a", overlap={"any_text": 0.16, "all_texts": 0.0}),
        stored(spec, "simlex999", 0.5, corpus="b", overlap={"any_text": 0.0, "all_texts": 0.0}),
        stored("toy", "wic", 0.5, metric="dev_accuracy"),
    ]
    notes = build_table(results, registered).notes
    assert {
        "Metric: accuracy on the dev split, Spearman's correlation.",
        "Tuned on: a (10 strings) for stsb; b (10 strings) for simlex999.",
        "Test items with a text that was tuned on: stsb 16.0%.",
    } <= {*notes}


def test_rows_include_known_encoder_sizes(registered: Plugins) -> None:
    known = stored("toy", "cats", 0.5, encoder={"parameters": 1200, "dimensions": 8})
    table = build_table([known, stored("bert", "cats", 0.5)], registered)
    assert [(row.parameters, row.dimensions) for row in table.rows] == [(1200, 8), (None, None)]


def test_remarks_on_data_are_a_warning_once(registered: Plugins) -> None:
    results = [
        replace(stored(spec, "dogs", 0.5), remarks=["rows left out: 2", "judged twice: 1"])
        for spec in ("toy", "toy+base")
    ]
    table = build_table([*results, stored("toy", "cats", 0.5)], registered)
    assert table.warnings == ("Dogs: rows left out: 2; judged twice: 1",)


def test_words_without_a_vector_are_a_warning(registered: Plugins) -> None:
    counts = {"unknown_words": {"items": 2, "of": 9, "empty": 0}}
    results = [stored("toy", "dogs", 0.5, encoder=counts), stored("toy", "cats", 0.5)]
    (warning,) = build_table(results, registered).warnings
    assert warning.startswith("toy on Dogs: 2 of 9 ")
    assert warning.endswith(" have words without a vector")


def test_largest_share_of_cut_texts_is_warned_of(registered: Plugins) -> None:
    counts = {"texts": 10, "window": 64, "positions": 512}
    few, many = ({"truncation": counts | {"cut": cut}} for cut in (1, 8))
    (warning,) = build_table([stored("toy", "cats", 0.5, encoder=few)], registered).warnings
    assert (
        warning == "1 of 10 texts is longer than 64 tokens and was cut (max_length=512 reads more)"
    )
    results = [
        stored("toy", "cats", 0.5, encoder=few),
        stored("toy", "dogs", 0.5, encoder=many),
        stored("toy+base", "cats", 0.5),
    ]
    (warning,) = build_table(results, registered).warnings
    assert warning.startswith("8 of 10 texts are longer than 64 tokens and were cut")
    assert warning.endswith(" by toy on Dogs; texts were cut in 1 more result")
