"""Measurements of held-out strings along a tuning, which change nothing, and the choice of the best state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from helpers.augmented_models import AUGMENTATIONS, TEXTS, opened, recipe
from helpers.random_models import Models, encoder
from helpers.runner_bench import Bench
from helpers.suite_marks import few

from mirrorbench.core.errors import UsageError
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.training import trajectory as trajectory_module
from mirrorbench.training.held_out import measure_pairs, positive_pairs
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import identical_pairs
from mirrorbench.training.recipes import Recipe
from mirrorbench.training.trajectory import Obstacle, Progress, State, Trajectory

TRAIN = TEXTS[:80]
ASIDE = positive_pairs(TEXTS[80:], 0, identical_pairs)
PLAIN = recipe(dropout=0.1, epochs=1, batch_size=4, lr=0.01)  # twenty steps


def weights(transformer: Transformer) -> torch.Tensor:
    return torch.cat([value.flatten().float() for value in transformer.model.state_dict().values()])


def tuned(path: Path, changed: Recipe, looks: bool = True) -> tuple[Transformer, Any]:
    transformer = opened(path, changed)
    looked = Progress(transformer, changed, ASIDE if looks else [], len(TRAIN) * changed.epochs)
    tune_backbone(transformer, TRAIN, changed, 0, AUGMENTATIONS, advance=looked.advance)
    return transformer, looked.finish()


@pytest.fixture(scope="module")
def whole(random_model: Models) -> tuple[Transformer, Trajectory]:
    return tuned(random_model("bert"), PLAIN)


@pytest.mark.parametrize(
    "noise", few([{"drophead": 0.2}, {"dropout": 0.2}, {"controlled_dropout": 0.2}]), ids=str
)
def test_measuring_does_not_change_weights(random_model: Models, noise: dict[str, float]) -> None:
    changed = recipe(**noise)
    with_looks, actual = tuned(random_model("bert"), changed)
    without, nothing = tuned(random_model("bert"), changed, looks=False)
    assert torch.equal(weights(with_looks), weights(without))
    assert nothing is None
    assert [state.share for state in actual.states] == [
        step / 4 for step in range(5)
    ]  # fewer steps than tenths


def test_states_are_measured_at_every_tenth(
    random_model: Models, whole: tuple[Transformer, Trajectory]
) -> None:
    transformer, actual = whole
    assert [state.share for state in actual.states] == pytest.approx(np.arange(11) / 10)
    assert (actual.n, actual.kept) == (20, 10)
    ours = encoder(random_model("bert"), Pooling("mean", max_length=20))
    hits = []
    for measures in (actual.before, actual.after):
        left, right = (ours.encode([pair[side] for pair in ASIDE]) for side in (0, 1))
        expected, hit = measure_pairs(left, right)
        assert measures == pytest.approx(expected, abs=1e-6)
        hits.append(hit)
        ours.transformer = transformer
    assert actual.states[-1].gained == sum(~hits[0] & hits[1])
    assert actual.states[-1].lost == sum(hits[0] & ~hits[1])
    assert actual.before != actual.after


def test_best_state_is_kept(
    random_model: Models, monkeypatch: pytest.MonkeyPatch, whole: tuple[Transformer, Trajectory]
) -> None:
    """The criterion here is the distance of the uniformity from that of one state."""
    states = whole[1].states
    wanted = states[3].measures["uniformity"]
    monkeypatch.setattr(
        trajectory_module, "criterion", lambda measures: -abs(measures["uniformity"] - wanted)
    )
    transformer, actual = tuned(random_model("bert"), replace(PLAIN, stop="auto"))
    assert (actual.kept, actual.states) == (3, states)
    assert Progress(transformer, PLAIN, ASIDE).states[0].measures == states[3].measures


def test_first_of_equal_states_is_kept(
    random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectory_module, "criterion", lambda measures: 1.0)
    transformer, _ = tuned(random_model("bert"), replace(PLAIN, stop="auto"))
    assert torch.equal(weights(transformer), weights(opened(random_model("bert"), PLAIN)))


def test_criterion_ranks_retrieval_before_uniformity() -> None:
    base = {"alignment": 0.2, "uniformity": -2.0, "accuracy@1": 0.96}
    assert trajectory_module.criterion(
        base | {"uniformity": -2.1, "accuracy@1": 0.99}
    ) > trajectory_module.criterion(base)
    assert trajectory_module.criterion(
        base | {"uniformity": -3.9, "accuracy@1": 0.8}
    ) < trajectory_module.criterion(base)
    within_a_tenth = base | {"accuracy@1": 0.99}
    assert trajectory_module.criterion(base | {"uniformity": -2.1}) > trajectory_module.criterion(
        within_a_tenth
    )


MEASURES = {"alignment": 0.5, "uniformity": -2.5, "accuracy@1": 0.5, "effective_rank": 91.0}


def trajectory(
    rank: float = 90,
    hits: tuple[int, int] = (0, 0),
    sums: float = -2.0,
    kept: int = 2,
    n: int = 100,
    hit: float = 0.5,
) -> Trajectory:
    """Make a trajectory of ``n`` pairs, a share ``hit`` retrieved before the tuning, then ``hits`` gained and lost."""
    before = MEASURES | {"accuracy@1": hit}
    changed = {
        "uniformity": sums - 0.5,
        "accuracy@1": hit + (hits[0] - hits[1]) / 100,
        "effective_rank": rank,
    }
    later = before | changed
    states = (State(0, before, 0, 0, ()), State(0.3, later, *hits, ()), State(1, later, *hits, ()))
    return Trajectory(n, states, kept)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (trajectory(rank=4), "the vectors have collapsed: effective rank from 91 to 4"),
        (trajectory(hits=(9, 1)), "a gain: held-out retrieval from 0.500 to 0.580 (p = 0.021)"),
        (trajectory(hits=(1, 9)), "a loss: held-out retrieval from 0.500 to 0.420 (p = 0.021)"),
        (
            trajectory(hits=(5, 3)),
            "no change worth having: held-out retrieval from 0.500 to 0.520 (p = 0.73)",
        ),
        (
            trajectory(sums=-3),
            "no gain shown: held-out retrieval from 0.500 to 0.500 (p = 1); "
            "alignment + uniformity, from -2.00 to -3.00, suggest one",
        ),
        (
            trajectory(sums=-1),
            "no loss shown: held-out retrieval from",
        ),
        (trajectory(kept=0), "no state was better than that before the tuning"),
        (trajectory(kept=1), "the state at 30% of the tuning was kept; no change worth having"),
        (
            trajectory(hit=0.94),
            "no change worth having: held-out retrieval from 0.940 to 0.940 (p = 1)",
        ),
        (
            trajectory(hit=0.95),
            "no loss seen: held-out retrieval from 0.950 to 0.950 (p = 1). Retrieval was too good",
        ),
        (
            trajectory(hit=0.95, sums=-3),
            "no gain shown: held-out retrieval from",
        ),
        (
            trajectory(hit=1.0),
            "no loss seen: held-out retrieval from 1.000 to 1.000 (p = 1). Retrieval was too good",
        ),
        (
            trajectory(hit=1.0, hits=(0, 10)),
            "a loss: held-out retrieval from 1.000 to 0.900 (p = 0.002)",
        ),
    ],
)
def test_verdict_names_gain_loss_or_collapse(actual: Trajectory, expected: str) -> None:
    """p-values by hand: of ten pairs that changed, nine one way is 2 (1 + 10) / 2^10; five of eight is 2 (93) / 2^8.

    Of six missed pairs, all six gained would be 2 / 2^6 = .031; of five, .0625, which shows no gain.
    """
    assert actual.verdict.startswith(expected)
    saturated = actual.before["accuracy@1"] >= 0.95
    assert actual.obstacle is (Obstacle.SATURATED if saturated else None)
    assert ("labelled pairs could" in actual.verdict) == (
        saturated and not expected.startswith("a loss")
    )


def test_verdict_asks_for_more_held_out_lines() -> None:
    """Retrieval of none is not too good, and labelled pairs are no remedy."""
    for n, hit in ((5, 0), (5, 5), (12, 9), (50, 45), (59, 59)):
        retrieval = f"held-out retrieval from {hit / n:.3f} to {hit / n:.3f} (p = 1)"
        remedy = f"{n} held-out lines are too few to show a gain; hold out more (--held-out N), or tune on more text"
        assert trajectory(n=n, hit=hit / n).verdict == f"no change seen: {retrieval}. {remedy}"


def test_diverging_tuning_reports_a_nonfinite_loss(random_model: Models) -> None:
    with pytest.raises(Exception, match="the loss is not finite"):
        tuned(random_model("bert"), replace(PLAIN, lr=1e30))


def test_stop_auto_changes_identity_and_keeps_best_state(
    bench: Bench, random_model: Models, toy: object
) -> None:
    bench.corpus.write_text("".join(f"line number {n} of {n % 7}\n" for n in range(120)))
    path = random_model("bert")
    outcome = bench.run(
        *(f"{path}+mirror:lr=0.01{stop}" for stop in ("", ",stop=end", ",stop=auto")),
        tasks=["cats"],
    )
    plain, end, auto = outcome.results
    assert plain.cell_id == end.cell_id != auto.cell_id
    assert plain.held_out is None
    actual = msgspec.convert(auto.held_out, Trajectory)
    assert actual.n == 12
    assert f"seed 0: {actual.verdict}" in auto.notes[-1]
    assert plain.notes == end.notes == []
    criteria = [trajectory_module.criterion(state.measures) for state in actual.states]
    assert actual.kept == criteria.index(max(criteria))
    with pytest.raises(UsageError, match="unknown value of stop 'always'"):
        bench.plan(f"{path}+mirror:stop=always", tasks=["cats"])
