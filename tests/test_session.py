"""What a ``Session`` does beside the functions of ``mirrorbench``, which ``test_api`` tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from mirrorbench import Session
from mirrorbench.core.errors import UsageError
from mirrorbench.data.items import Pair
from mirrorbench.papers.measured_tables import MeasuredTable
from mirrorbench.runs.registry import plugins as installed_plugins
from mirrorbench.storage.results import Predictions, Result, read_predictions
from mirrorbench.tasks import PairSimilarity, Scores, Vectors
from mirrorbench.tasks.metrics import spearman

PAIRS = tuple(
    Pair(
        str(n),
        f"a cat and {n} dogs",
        f"{'a cat' if n % 3 else 'the bird'} and {n % 7} cows",
        n % 5.0,
    )
    for n in range(40)
)


class CountedTask(PairSimilarity):
    """A task that counts how often it scores an encoder, and how often its metric is computed on all items."""

    main_metric = "counted"

    def __init__(self) -> None:
        super().__init__("counted-pairs", PAIRS, title="Counted pairs")
        self.scored = 0
        self.measured = 0

    def score(self, items: Sequence[Pair], vectors: Vectors, protocol: str = "paper") -> Scores:
        self.scored += 1
        return super().score(items, vectors, protocol)

    def metric(self, scores: np.ndarray, gold: np.ndarray) -> float | None:
        self.measured += len(scores) == len(PAIRS)
        return spearman(scores, gold)


def test_what_a_run_scored_is_not_scored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Predictions of a run go to its verdicts in memory; the leaderboard reads them once, with the same verdicts."""
    task = CountedTask()
    plugins = installed_plugins().extended("register_metrics", "counted", task.metric)
    plugins = plugins.extended("register_tasks", task)
    read: list[Path] = []

    def counted_read(path: Path, result: Result) -> Predictions:
        read.append(path)
        return read_predictions(path, result)

    monkeypatch.setattr("mirrorbench.reports.comparable.read_predictions", counted_read)
    session = Session(tmp_path, plugins=plugins, offline=True, workers=1)
    rows = ["tiny+base:pooling=mean", "tiny+base:pooling=cls", "tiny+static"]
    board = session.run(rows, "counted-pairs")
    assert len(board.table.verdicts) == 1
    (sentence,) = board.sentences()
    assert sentence in board.render(notes="all")
    # The metric is computed once more, to check that the items yield the score.
    assert (task.scored, task.measured, read) == (3, 6, [])
    stored = Session(tmp_path, plugins=plugins, offline=True).leaderboard()
    assert stored.table.verdicts == board.table.verdicts
    assert (task.scored, task.measured, len(set(read)), len(read)) == (3, 9, 3, 3)
    again = session.run(rows, "counted-pairs")
    assert again.table.verdicts == board.table.verdicts
    assert (task.scored, len(read)) == (3, 6)


BEFORE = Path(__file__).parent / "runs" / "stored_before"


def test_session_shows_and_compares_stored_results() -> None:
    session = Session(BEFORE, offline=True)
    board = session.leaderboard(
        tasks="quick-sts,quick-simlex", encoders="tiny+base", intervals=True, ties=True
    )
    assert [row.label for row in board.table.rows] == ["tiny-CLS", "tiny-mp"]
    assert all(
        score is None or score.interval for row in board.table.rows for score in row.scores[:2]
    )
    assert (
        session.leaderboard(metric="pearson", tasks=["quick-sts"]).table.columns[0].metric
        == "pearson"
    )
    found = session.compare("tiny+mirror", "tiny+base:pooling=mean", "quick-simlex")
    (task,) = found.tasks
    scores = {
        result.spec: result.main_score
        for result in session.leaderboard(tasks="quick-simlex").results
    }
    assert task.difference == pytest.approx(
        scores["tiny+mirror"] - scores["tiny+base:pooling=mean"]
    )
    with pytest.raises(UsageError, match="compared with itself"):
        session.compare("tiny+mirror", "tiny+mirror")


def test_session_provides_paper_tables() -> None:
    session = Session(BEFORE, offline=True)
    assert set(session.papers("mirrorwic")) < set(session.papers())
    table = session.paper("mirror-bert/table3", encoder="tiny")
    assert isinstance(table, MeasuredTable)
    assert table.counts[0] == 0  # no STS results are stored there
    with pytest.raises(UsageError, match="no cell that a run could measure"):
        session.run_paper("mirror-bert/table15")
    with pytest.raises(UsageError, match="unknown protocol"):
        session.paper("mirror-bert/table3", protocol="papr")


def test_session_runs_grids_analyses_and_text_encoding(
    tmp_path: Path, random_model: Callable[[str], Path]
) -> None:
    model = random_model("bert")
    (tmp_path / "grid.yaml").write_text(
        f"title: a grid\nencoders: {model}+base:pooling=mean\ntasks: quick-sts\n"
    )
    session = Session(
        tmp_path / "results", cache=tmp_path / "cache", device="cpu", offline=True, workers=1
    )
    planned = session.plan(grid=str(tmp_path / "grid.yaml"), fetch=False)
    assert (planned.tasks, planned.title, len(planned.cells)) == (("quick-sts",), "a grid", 1)
    board = session.execute(planned)
    assert board["quick-sts"] == board.results[0].main_score
    (row,) = session.analyze("isotropy", encoders=[f"{model}+base"], limit=50).rows
    assert row["n"] == 50
    with pytest.raises(UsageError, match="unknown analysis"):
        session.analyze("isotopy")
    (tmp_path / "texts.txt").write_text("a text\nanother one\n")
    done = session.encode(str(tmp_path / "texts.txt"), model, tmp_path / "vectors.npy")
    vectors = np.load(tmp_path / "vectors.npy")
    assert (done.rows, done.dimensions) == vectors.shape
    assert np.array_equal(vectors, session.load(model).encode(["a text", "another one"]))
