"""Runs that tune: one training for each seed, one pass for all poolings, and what is stored of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bench import Bench
from harness.log import Log
from toys import CATS, ToyEncoder, ToyPlugin, toy_tasks

from mirrorbench.runs.cache import Cache
from mirrorbench.runs.results import ResultStore


def test_two_specs_of_one_identity_have_a_row_each(bench: Bench, random_model: Callable[[str], Path]) -> None:
    bench.plugins.add(ToyPlugin(tasks=toy_tasks()), "toys")
    bert = random_model("bert")
    for computed in (4, 0):
        outcome = bench.run(f"{bert}+base", f"{bert}+base:pooling=mean")
        assert [result.spec for result in outcome.results] == 2 * [f"{bert}+base"] + 2 * [f"{bert}+base:pooling=mean"]
        assert outcome.computed == computed


def test_a_ladder_trains_once_per_seed_and_reads_out_in_one_pass(
    bench: Bench, random_model: Callable[[str], Path]
) -> None:
    bench.plugins.add(ToyPlugin(tasks=toy_tasks()), "toys")
    bert = random_model("bert")
    log = Log()
    outcome = bench.run(str(bert), seeds=2, log=log)
    assert (len(outcome.results), outcome.failures) == (2 * (2 + 2), ())
    assert len(list((bench.cache.root / "models").iterdir())) == 2
    tuned = [stage for stage in log.stages if stage.startswith("tune")]
    assert [log.stages[stage] for stage in tuned] == [30, 30]
    for stage, total in log.stages.items():  # both seeds' encodings have one name
        assert log.done[stage] == total * (2 if stage.startswith("encode") and "mirror" in stage else 1)
    assert any("fewer than one batch of 200" in line for line in log.lines)
    scores = {(r.spec, r.task, r.seed): r.metrics for r in outcome.results}
    assert len({metrics["pearson"] for metrics in scores.values()}) == len(outcome.results)
    bench.results = ResultStore(bench.results.root.with_name("again"))  # from the cached models and vectors
    log = Log()
    again = bench.run(str(bert), seeds=2, log=log)
    assert log.stages == {}
    assert {(r.spec, r.task, r.seed): r.metrics for r in again.results} == scores


def test_a_tuning_that_fails_fails_its_cells_alone(
    bench: Bench, toy: ToyEncoder, random_model: Callable[[str], Path]
) -> None:
    bench.corpus.write_text("just one line\n")
    outcome = bench.run(f"{random_model('bert')}+mirror", "toy")
    assert [result.spec for result in outcome.results] == ["toy", "toy"]
    assert {failure.reason for failure in outcome.failures} == {"a corpus of 1 distinct strings cannot be tuned on"}
    assert not (bench.cache.root / "models").exists()


def test_which_test_items_were_tuned_on_is_stored(bench: Bench, random_model: Callable[[str], Path]) -> None:
    bench.plugins.add(ToyPlugin(tasks=toy_tasks()), "toys")
    bert = random_model("bert")
    specs = (f"{bert}+mirror", f"{bert}+base")
    before = {cell.id for cell in bench.plan(f"{bert}+base").cells}
    bench.corpus.write_text("The  CAT\na cat\n" + "".join(f"line number {n}\n" for n in range(30)))
    outcome = bench.run(*specs)
    stored = {(r.cell["method"], r.task): r for r in outcome.results}
    expected = {"cats": [2, 1, 1, 0], "dogs": [1, 0, 0]}  # how many of both texts of each pair
    for name, flags in expected.items():
        tuned, base = stored["mirror", name], stored["base", name]
        assert tuned.overlap is not None
        assert tuned.overlap["n_items"] == len(flags)
        assert tuned.overlap["any_text"] == pytest.approx(np.mean(np.array(flags) > 0))
        assert tuned.overlap["all_texts"] == pytest.approx(np.mean(np.array(flags) == 2))
        assert base.overlap is None
        paths = {cell.spec.method: bench.results.path(cell) for cell in bench.plan(*specs).cells if cell.task == name}
        with np.load(paths["mirror"].with_suffix(".npz")) as arrays:
            assert arrays["overlap"].tolist() == flags
        with np.load(paths["base"].with_suffix(".npz")) as arrays:
            assert "overlap" not in arrays
    assert {r.cell_id for r in outcome.results if r.overlap is None} == before
    assert {r.cell_id for r in outcome.results} == {cell.id for cell in bench.plan(*specs).cells}


def test_a_damaged_cache_costs_time_and_changes_nothing(
    bench: Bench, random_model: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    bench.plugins.add(ToyPlugin(tasks=toy_tasks()), "toys")
    spec = f"{random_model('bert')}+mirror"
    first = bench.run(spec)
    for pattern in ("models/*/model.safetensors", "embeddings/*/*.npy"):
        for path in bench.cache.root.glob(pattern):
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    bench.results = ResultStore(bench.results.root.with_name("again"))
    bench.cache = Cache(bench.cache.root)
    second = bench.run(spec)
    assert [(r.cell_id, r.metrics) for r in second.results] == [(r.cell_id, r.metrics) for r in first.results]
    assert "is damaged (model.safetensors); it is tuned again" in caplog.text
    assert "are damaged" in caplog.text


def test_what_was_found_in_the_cache_cost_nothing_now(bench: Bench, random_model: Callable[[str], Path]) -> None:
    bench.plugins.add(ToyPlugin(tasks=toy_tasks()), "toys")
    spec = f"{random_model('bert')}+mirror"
    (first,) = bench.run(spec, tasks=["cats"]).results
    bench.results = ResultStore(bench.results.root.with_name("again"))
    (second,) = bench.run(spec, tasks=["cats"]).results
    assert first.cost["encoding"]["texts"] == len({text for p in CATS for text in (p.left, p.right)})
    assert first.cost.keys() == {"encoding", "tuning"}
    assert second.cost == {"tuning": first.cost["tuning"]}
