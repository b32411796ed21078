"""The number of threads, which moves the last bits of products, moves no score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr

from mirrorbench import Session, load
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.runs.results import Result
from mirrorbench.tasks import Vectors
from mirrorbench.tasks.base import score_task

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL"),
]
TASKS = ("multisimlex-yue", "multisimlex-zh", "bli-en-it")
"""The two languages with most pairs of equal texts, and nearest neighbours."""

Run = Callable[[str, tuple[str, ...], int], dict[str, Result]]


@pytest.fixture
def run(originals: Callable[..., DataStore], tmp_path: Path) -> Iterator[Run]:
    """Results of an encoder by task, computed with a number of threads."""
    before = torch.get_num_threads()
    data = originals("wordsim", "bli/xling-eval/en-it", "train").root

    def of(encoder: str, tasks: tuple[str, ...], threads: int) -> dict[str, Result]:
        folder = tmp_path / str(threads)
        torch.set_num_threads(threads)
        session = Session(folder / "results", data_dir=data, cache=folder / "cache", device="cpu", offline=True)
        return {result.task: result for result in session.run(f"{encoder}+base:pooling=mean", tasks).results}

    yield of
    torch.set_num_threads(before)


def test_scores_are_the_same_with_one_thread_and_two(run: Run) -> None:
    one, two = (run("tiny", TASKS, threads) for threads in (1, 2))
    assert one.keys() == two.keys() == set(TASKS)
    assert {task: one[task].metrics for task in TASKS} == {task: two[task].metrics for task in TASKS}


def test_pairs_of_equal_texts_give_the_official_figures(
    run: Run, minilm: Path, originals: Callable[..., DataStore], plugins: Plugins
) -> None:
    """STS12's SMTeuroparl has 65 of 459 pairs of cosine 1, Multi-SimLex's Chinese 581 of 1,888."""
    one, two = (run(str(minilm), ("multisimlex-zh",), threads)["multisimlex-zh"] for threads in (1, 2))
    assert one.metrics == two.metrics
    assert round(100 * (one.main_score or 0), 2) == 11.40
    task = plugins.tasks["sts12"]
    items = [item for item in task.load(originals("sts/sts12")) if item.id.startswith("SMTeuroparl/")]
    texts = dict.fromkeys(task.inputs(items))
    vectors = Vectors(texts, load(f"{minilm}+base:pooling=mean", device="cpu").encode([text.text for text in texts]))
    found = score_task(task, items, vectors, "paper", plugins.metrics)
    assert (len(items), round(100 * spearmanr(found.scores, found.gold).statistic, 2)) == (459, 63.75)
