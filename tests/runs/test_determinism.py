"""The same cell gives the same number, whatever is computed beside it, before it or by whom."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bench import Bench
from harness.comparable import stored
from random_models import Models
from scipy.stats import spearmanr
from suites import few, slow

from mirrorbench import Session
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.results import Result, ResultStore

TASKS = ("multisimlex-zh", "multisimlex-en", "multisimlex-he", "bli-en-it", "sts12")

OfThreads = Callable[[str, tuple[str, ...], int], dict[str, Result]]


@pytest.mark.slow
@pytest.mark.usefixtures("rows_stand_alone", "toy")
def test_a_cell_alone_is_the_same_to_the_bit(bench: Bench, random_model: Models) -> None:
    """Although its texts are read in other batches, and whatever state the generators of this process are in."""
    bench.corpus.write_text("".join(f"a longer line number {n} to be masked\n" for n in range(20)))
    bert = random_model("bert")
    tuned = (f"{bert}+mirror:batch_size=8,{noise}" for noise in ("token_mask=0.2", "drophead=0.3"))
    plan = bench.plan("toy", f"{bert}+base", *tuned, seeds=2)

    def run(plan: Plan, name: str) -> dict[str, bytes]:
        bench.results, bench.cache = ResultStore(bench.folder / name), Cache(bench.folder / f"{name}-cache")
        assert bench.workspace().execute(plan).failures == ()
        return stored(bench.results.root)

    together, alone = run(plan, "together"), {}
    assert len(together) == 2 * len(plan.cells) == 2 * 2 * (2 + 2 + 2)
    for number, cell in enumerate(reversed(plan.cells)):
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(number)
        if cell.seed == 1:
            alone |= run(replace(plan, cells=(cell,)), f"alone-{number}")
    assert len(alone) == 2 * 2 * 2
    for name, content in alone.items():
        if name.endswith(".json"):
            one, other = json.loads(content), json.loads(together[name])
            assert one["cell_id"] == other["cell_id"]
            assert one["metrics"] == other["metrics"]
        else:
            assert content == together[name]


@pytest.fixture
def of_threads(originals: Callable[..., DataStore], tmp_path: Path) -> Iterator[OfThreads]:
    """Results of an encoder by task, computed with a number of threads, which moves the last bits of products."""
    if not torch.backends.mkl.is_available():
        pytest.skip("a torch without MKL")
    before = torch.get_num_threads()
    data = originals("sts/sts12", "wordsim", "bli/xling-eval/en-it", "train").root

    def of(encoder: str, tasks: tuple[str, ...], threads: int) -> dict[str, Result]:
        folder = tmp_path / str(threads)
        torch.set_num_threads(threads)
        session = Session(folder / "results", data_dir=data, cache=folder / "cache", device="cpu", offline=True)
        return {result.task: result for result in session.run(f"{encoder}+base:pooling=mean", tasks).results}

    yield of
    torch.set_num_threads(before)


@pytest.mark.real
@pytest.mark.parametrize("task", few(TASKS, suite=slow))
def test_scores_are_the_same_with_one_thread_and_two(of_threads: OfThreads, task: str) -> None:
    one, two = (of_threads("tiny", (task,), threads) for threads in (1, 2))
    assert one[task].metrics == two[task].metrics


@pytest.mark.real
@pytest.mark.full
def test_pairs_of_equal_texts_give_the_official_figures(of_threads: OfThreads, minilm: Path, tmp_path: Path) -> None:
    """STS12's SMTeuroparl has 65 of 459 pairs of cosine 1, Multi-SimLex's Chinese 581 of 1,888."""
    one, two = of_threads(str(minilm), ("sts12", "multisimlex-zh"), 1), of_threads(str(minilm), ("multisimlex-zh",), 2)
    assert one["multisimlex-zh"].metrics == two["multisimlex-zh"].metrics
    assert round(100 * (one["multisimlex-zh"].main_score or 0), 2) == 11.40
    (path,) = (tmp_path / "1" / "results").rglob("sts12/seed-0.npz")
    with np.load(path) as stored:
        part = np.char.startswith(stored["ids"], "SMTeuroparl/")
        found = spearmanr(stored["scores"][part], stored["gold"][part]).statistic
    assert (part.sum(), round(100 * found, 2)) == (459, 63.75)
