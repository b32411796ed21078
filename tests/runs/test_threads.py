"""The number of threads, which moves the last bits of products, moves no score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from mirrorbench import Session
from mirrorbench.data.store import DataStore
from mirrorbench.runs.results import Result

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL"),
]
LANGUAGES = ("en", "he", "zh")
TASKS = (*(f"multisimlex-{code}" for code in LANGUAGES), "bli-en-it", "sts12")

Run = Callable[[str, tuple[str, ...], int], dict[str, Result]]


@pytest.fixture
def run(originals: Callable[..., DataStore], tmp_path: Path) -> Iterator[Run]:
    """Results of an encoder by task, computed with a number of threads."""
    before = torch.get_num_threads()
    data = originals("sts/sts12", "wordsim", "bli/xling-eval/en-it", "train").root

    def of(encoder: str, tasks: tuple[str, ...], threads: int) -> dict[str, Result]:
        folder = tmp_path / str(threads)
        torch.set_num_threads(threads)
        session = Session(folder / "results", data_dir=data, cache=folder / "cache", device="cpu", offline=True)
        return {result.task: result for result in session.run(f"{encoder}+base:pooling=mean", tasks).results}

    yield of
    torch.set_num_threads(before)


@pytest.mark.slow
def test_scores_are_the_same_with_one_thread_and_two(run: Run) -> None:
    one, two = (run("tiny", TASKS, threads) for threads in (1, 2))
    assert one.keys() == two.keys() == set(TASKS)
    assert {task: one[task].metrics for task in TASKS} == {task: two[task].metrics for task in TASKS}


@pytest.mark.full
def test_pairs_of_equal_texts_give_the_official_figures(run: Run, minilm: Path, tmp_path: Path) -> None:
    """STS12's SMTeuroparl has 65 of 459 pairs of cosine 1, Multi-SimLex's Chinese 581 of 1,888."""
    one, two = run(str(minilm), ("sts12", "multisimlex-zh"), 1), run(str(minilm), ("multisimlex-zh",), 2)
    assert one["multisimlex-zh"].metrics == two["multisimlex-zh"].metrics
    assert round(100 * (one["multisimlex-zh"].main_score or 0), 2) == 11.40
    (path,) = (tmp_path / "1" / "results").rglob("sts12/seed-0.npz")
    with np.load(path) as stored:
        part = np.char.startswith(stored["ids"], "SMTeuroparl/")
        found = spearmanr(stored["scores"][part], stored["gold"][part]).statistic
    assert (part.sum(), round(100 * found, 2)) == (459, 63.75)
