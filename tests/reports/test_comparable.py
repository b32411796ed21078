"""What may stand together in a table, in one cell, or in a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.recording_reporter import Log
from helpers.stored_results import correlated, stored, write

from mirrorbench import Session
from mirrorbench.core.errors import UsageError
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.papers.measured_tables import measured_table
from mirrorbench.papers.table_files import PaperTable, find_table
from mirrorbench.reports.comparable import mixtures, newest
from mirrorbench.reports.leaderboard import build_table, provenance
from mirrorbench.storage.results import Result
from mirrorbench.tasks.metrics import spearman

EARLIER = COMPUTATION - 1
STEPS = np.arange(12.0)
NOISE = [np.random.default_rng(seed).normal(size=12) for seed in range(3)]


def test_mixed_experiments_are_detected_and_named(
    plugins: Plugins,
) -> None:
    one, other = stored("bert+mirror", "stsb", 0.5), stored("bert+mirror", "sts12", 0.5)
    more = [stored("bert+mirror", task, 0.5, 1) for task in ("stsb", "sts12")]
    chinese = stored("bert+mirror", "xlwic-zh", 0.5, encoder={"weights": "Chinese BERT"})
    assert mixtures([one, other, *more, chinese, one], plugins) == []
    what = "different experiments (recipe, corpus or precision)"
    for result, said in (
        (
            replace(one, data={"version": 2, "files": {}}, cell_id="b"),
            "stsb: 2 different versions of its data",
        ),
        (
            replace(other, cell=other.cell | {"protocol": "released"}),
            "protocols paper and released",
        ),
        (
            replace(other, encoder={"weights": "another"}),
            "bert+mirror: 2 different models, or versions of one (en)",
        ),
        (replace(one, cell_id="c"), f"bert+mirror on stsb, seed 0: 2 {what}"),
        (
            stored("bert+mirror", "stsb", 0.5, 1, corpus="b"),
            f"bert+mirror on stsb: its seeds are of 2 {what}",
        ),
    ):
        assert mixtures([one, result], plugins) == [said]


def test_rows_may_differ_only_in_tuning(
    plugins: Plugins,
) -> None:
    one = stored("bert+mirror", "stsb", 0.5, corpus="b")
    others = [
        stored("bert+mirror", "simlex999", 0.5, corpus="a"),
        stored("roberta+mirror", "stsb", 0.5, corpus="a"),
    ]
    assert mixtures([one, *others], plugins) == []
    renamed = stored("bert+mirror", "stsb", 0.5, 1)
    renamed = replace(
        renamed, cell=renamed.cell | {"corpus": {"name": "./b", "sha256": "hash of b", "n": 10}}
    )
    assert mixtures([one, renamed], plugins) == []
    tuned = replace(
        others[1], cell=others[1].cell | {"precision": {"tuning": "bf16", "encoding": "fp32"}}
    )
    assert mixtures([one, tuned], plugins) == []
    assert "precision: fp32; tuned in bf16." in str(provenance([one, tuned])[0])
    half = replace(
        others[1], cell=others[1].cell | {"precision": {"tuning": "bf16", "encoding": "bf16"}}
    )
    assert mixtures([one, half], plugins) == ["evaluated in bf16 and fp32"]


def three() -> list[Result]:
    """Seeds of one score, of which two are of today's computation, and results of two other computations."""
    return [
        stored("bert+mirror", "stsb", 0.5, 0, computation=EARLIER, cell_id="earlier 0"),
        stored("bert+mirror", "stsb", 0.6, 1, cell_id="now 1"),
        stored("bert+mirror", "stsb", 0.8, 2, cell_id="now 2"),
        stored("bert+mirror", "stsb", 0.9, 3, computation=None, cell_id="unstated 3"),
        stored("bert+base", "stsb", 0.7, computation=EARLIER, cell_id="base earlier"),
    ]


def test_seeds_of_different_computations_are_not_averaged(plugins: Plugins) -> None:
    assert mixtures(three(), plugins) == []
    (row,) = build_table(newest(three(), "again")[0], plugins).rows
    assert [(s.mean, s.cell_ids) for s in row.scores if s] == [
        (pytest.approx(0.7), ("now 1", "now 2"))
    ]


def test_newest_computation_is_shown_and_older_noted() -> None:
    made = {"mirrorbench": "0.1.0", "git": "320fa15db90dade2be4f7b5b6a625e881c837146"}
    chosen, remarks = newest([replace(result, environment=made) for result in three()], "again")
    assert [result.cell_id for result in chosen] == ["now 1", "now 2"]
    rest = f", not the current {COMPUTATION}, by mirrorbench 0.1.0 (320fa15db). Compute them anew: again"
    assert remarks == [
        f"Left out: 2 results of computation {EARLIER}{rest}",
        f"Left out: 1 result of an unknown computation{rest}",
    ]
    chosen, remarks = newest(three()[:1], "again")
    assert len(chosen) == 1
    assert remarks[0].startswith(f"Shown: 1 result of computation {EARLIER}, not the current")
    assert newest([], "again") == ([], [])


def test_leaderboard_excludes_and_names_older_computations(tmp_path: Path) -> None:
    folder = tmp_path / "my results"
    for seed in range(2):
        correlated(
            folder, "bert+mirror", "stsb", STEPS, NOISE[seed] + STEPS, seed, cell_id=f"now {seed}"
        )
        more = {"computation": EARLIER, "corpus": "mine.txt", "protocol": "released"}
        correlated(
            folder,
            "roberta+mirror",
            "stsb",
            STEPS,
            NOISE[seed],
            seed,
            cell_id=f"mirror {seed}",
            **more,
        )
    more = {"computation": EARLIER, "protocol": "released"}
    correlated(folder, "bert+base:pooling=cls", "stsb", STEPS, NOISE[2], cell_id="base now")
    for spec in ("bert+base", "bert+mirror:lr=0.0001"):
        correlated(folder, spec, "stsb", STEPS, NOISE[2], cell_id=f"{spec} earlier", **more)
    table = Session(folder).leaderboard(folder, intervals=True, ties=True).table
    assert [(v.spec, v.over) for v in table.verdicts] == [("bert+mirror", "bert+base:pooling=cls")]
    assert [row.label for row in table.rows] == ["BERT-CLS", "BERT + Mirror"]
    assert all(score and score.interval for row in table.rows for score in row.scores)
    (note,) = table.warnings
    assert note.startswith(
        f"Left out: 4 results of computation {EARLIER}, not the current {COMPUTATION}, by mirrorbench "
    )
    again = "-e bert+base -e bert+mirror:lr=0.0001 -e roberta+mirror -t stsb"
    common = f"--seeds 2 --protocol released --corpus mine.txt -o '{folder}'"
    assert note.endswith(f"Compute them anew: mirrorbench run {again} {common}")


def test_encoders_are_compared_within_one_computation(tmp_path: Path) -> None:
    """The newest that both have of one task."""
    for spec, scores in zip(("bert", "roberta"), NOISE, strict=False):
        for seed, computation in enumerate((EARLIER, COMPUTATION)):
            more = {"computation": computation, "cell_id": f"{spec}{seed}"}
            correlated(tmp_path, spec, "stsb", STEPS, scores + seed * STEPS, seed, **more)
    found = Session(tmp_path).compare("bert", "roberta")
    (task,) = found.tasks
    assert task.first.mean == pytest.approx(spearman(NOISE[0] + STEPS, STEPS))
    assert (task.first.seeds, task.second.seeds) == (1, 1)
    assert [note for note in found.notes if note.startswith("left out: 1 result of")] == list(
        found.notes
    )
    other = tmp_path / "other"
    correlated(other, "bert", "stsb", STEPS, NOISE[0], computation=EARLIER)
    correlated(other, "roberta", "stsb", STEPS, NOISE[1])
    with pytest.raises(UsageError, match="stsb: different computations"):
        Session(other).compare("bert", "roberta")
    assert (
        "not comparable: stsb: different computations"
        in Session(other).compare("bert", "roberta", allow_mixed=True).notes
    )


def test_paper_table_uses_latest_result_of_one_computation() -> None:
    read = [
        stored(
            "bert+base:pooling=cls",
            task,
            value,
            computation=computation,
            cell_id=f"{task} {value}",
            created=f"{year}-01-01",
            metrics={"spearman": value, "spearman_all": value},
        )
        for computation, value, year in (
            (EARLIER, 0.25, 2026),
            (COMPUTATION, 0.5, 2024),
            (COMPUTATION, 0.75, 2025),
        )
        for task in builtin_suites()["sts"]
    ]
    table = find_table("mirror-bert/table3")
    assert isinstance(table, PaperTable)
    for given in (read, read[::-1]):
        made = measured_table(table, given)
        assert {cell.measured.mean for row in made.cells for cell in row if cell.measured} == {0.75}
        assert {result.computation for result in made.results} == {COMPUTATION}
        assert made.notes[0].startswith(f"Left out: 7 results of computation {EARLIER}")
        assert made.notes[0].endswith("mirrorbench paper mirror-bert/table3 --run")


def test_curve_uses_only_one_computation(tmp_path: Path) -> None:
    for lr, value in ((1e-5, 0.1), (2e-5, 0.3)):
        for seed, computation in enumerate((EARLIER, COMPUTATION)):
            of = {"computation": computation, "cell_id": f"{lr} {seed}"}
            result = stored(f"bert+mirror:lr={lr:g}", "stsb", value + seed / 2, seed, **of)
            result.cell["recipe"]["lr"] = lr
            write(tmp_path, result)
    log = Log()
    found = Session(tmp_path, reporter=log).analyze("curves", x="lr")
    assert [(row["mean"], row["seeds"]) for row in found.rows] == [(0.6, 1), (0.8, 1)]
    assert any(f"Left out: 2 results of computation {EARLIER}" in line for line in log.lines)
