"""The same cell gives the same number, whatever is computed beside it, before it or by whom."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.comparable_results import stored
from helpers.random_models import Models
from helpers.runner_bench import Bench
from helpers.suite_marks import few, slow

from mirrorbench import Session
from mirrorbench.data.store import DataStore
from mirrorbench.runs.plan import Plan
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.results import Result, ResultStore
from mirrorbench.workspace_functions import execute_plan


@pytest.mark.slow
@pytest.mark.usefixtures("rows_stand_alone", "toy")
def test_cell_computed_alone_is_bit_identical(bench: Bench, random_model: Models) -> None:
    """Although its texts are read in other batches, and whatever state the generators of this process are in."""
    bench.corpus.write_text("".join(f"a longer line number {n} to be masked\n" for n in range(20)))
    bert = random_model("bert")
    tuned = (f"{bert}+mirror:batch_size=8,{noise}" for noise in ("token_mask=0.2", "drophead=0.3"))
    plan = bench.plan("toy", f"{bert}+base", *tuned, seeds=2)

    def run(plan: Plan, name: str) -> dict[str, bytes]:
        bench.results, bench.cache = (
            ResultStore(bench.folder / name),
            Cache(bench.folder / f"{name}-cache"),
        )
        assert execute_plan(bench.workspace(), plan).failures == ()
        return stored(bench.results.root)

    together = run(plan, "together")
    alone = {}
    assert len(together) == 2 * len(plan.cells) == 2 * 2 * (2 + 2 + 2)
    for number, cell in enumerate(reversed(plan.cells)):
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(number)
        if cell.seed == 1:
            alone |= run(replace(plan, cells=(cell,)), f"alone-{number}")
    assert len(alone) == 2 * 2 * 2
    for name, content in alone.items():
        if name.endswith(".npz"):
            assert content == together[name]
        else:
            one = json.loads(content)
            other = json.loads(together[name])
            assert (one["cell_id"], one["metrics"]) == (other["cell_id"], other["metrics"])


@pytest.mark.real
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL")
@pytest.mark.parametrize(
    "task", few(["multisimlex-zh", "multisimlex-he", "bli-en-it", "sts12"], suite=slow)
)
def test_scores_do_not_depend_on_thread_count(
    originals: Callable[..., DataStore], tmp_path: Path, task: str
) -> None:
    """Their number moves the last bits of products."""
    before = torch.get_num_threads()
    found = list[Result]()
    data = originals("sts/sts12", "wordsim", "bli/xling-eval/en-it", "train").root
    try:
        for name in ("one", "two"):
            torch.set_num_threads(1 + len(found))
            cache = tmp_path / f"{name}-cache"
            session = Session(
                tmp_path / name, data_dir=data, cache=cache, device="cpu", offline=True
            )
            found += session.run("tiny+base:pooling=mean", task).results
    finally:
        torch.set_num_threads(before)
    assert found[0].metrics == found[1].metrics
