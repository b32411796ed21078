"""Cores side by side give what one core gives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from augmented import AUGMENTATIONS, TEXTS, recipe
from torch.testing import assert_close

from mirrorbench.runs.runner import open_for_tuning
from mirrorbench.training import microbatch as parts
from mirrorbench.training.loop import TuningReport, tune_backbone
from mirrorbench.training.microbatch import map_shares
from mirrorbench.training.recipes import Recipe

DRAWING = recipe(dropout=0.1, lr=1e-3)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8])
def test_each_item_is_in_one_share(n: int) -> None:
    items = list(range(n))
    assert map_shares(list, items, 3) == ([items[start::3] for start in range(min(n, 3))] or [[]])


def test_shares_have_threads_of_their_own_and_divide_torchs() -> None:
    torch.set_num_threads(4)
    meeting = threading.Barrier(2, timeout=30)  # both must be there at once

    def work(share: Sequence[int]) -> tuple[str, int]:
        meeting.wait()
        return threading.current_thread().name, torch.get_num_threads()

    found = map_shares(work, [1, 2], 4)
    assert torch.get_num_threads() == 4
    assert map_shares(lambda share: torch.get_num_threads(), [1], 4) == [4]  # one share has them all
    assert [threads for _, threads in found] == [2, 2]
    assert len({name for name, _ in found} | {threading.current_thread().name}) == 3


def test_an_error_waits_for_the_others() -> None:
    torch.set_num_threads(2)
    done: list[int] = []
    failed = threading.Event()

    def work(share: Sequence[int]) -> None:
        if share == [1]:
            failed.set()
            raise ValueError("one")
        assert failed.wait(30)
        done.append(share[0])

    with pytest.raises(ValueError, match="one"):
        map_shares(work, [1, 2], 2)
    assert torch.get_num_threads() == 2
    assert done == [2]


def tuned(path: Path, changed: Recipe, threads: int) -> tuple[TuningReport, torch.Tensor]:
    torch.set_num_threads(threads)
    transformer = open_for_tuning(path, changed, AUGMENTATIONS, torch.device("cpu"))
    report = tune_backbone(transformer, TEXTS[:50], changed, 5, AUGMENTATIONS)
    return report, torch.cat([weight.detach().flatten() for weight in transformer.model.parameters()])


def test_a_tuning_draws_the_same_with_any_number_of_threads(
    random_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", 100)
    path = random_model("roberta")
    (alone, wanted), *others = (tuned(path, DRAWING, threads) for threads in (1, 2))
    for report, weights in others:
        assert report.losses == pytest.approx(alone.losses, abs=1e-4)
        # AdamW takes the sign of gradients that are nothing but rounding: a few weights go their own way.
        assert (weights - wanted).abs().quantile(0.99) < 1e-4
    assert torch.equal(tuned(path, DRAWING, 2)[1], others[0][1])  # bit for bit
    other, _ = tuned(path, replace(DRAWING, augment=(("dropout", 0.11),)), 2)
    assert other.losses != pytest.approx(alone.losses, abs=1e-4)


def test_a_batch_over_the_memory_is_read_twice_side_by_side_as_well(
    random_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(parts.TOKEN_BUDGET, "cpu", 200)
    monkeypatch.setattr("mirrorbench.training.loop.held_tokens", lambda transformer: 250)
    twice = tuned(random_model("bert"), DRAWING, 2)
    monkeypatch.setattr("mirrorbench.training.loop.held_tokens", lambda transformer: 10**6)
    once = tuned(random_model("bert"), DRAWING, 2)
    assert twice[0].losses == pytest.approx(once[0].losses, abs=1e-4)
    assert_close(twice[1].norm(), once[1].norm(), rtol=1e-3, atol=0)
