from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import MultiSimilarityLoss
from pytorch_metric_learning.miners import TripletMarginMiner

from mirrorbench.training.losses import LOSSES, infonce, multi_similarity, ntxent


def views(n: int, d: int, seed: int, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(n, d, generator=generator)
    return left, left + noise * torch.randn(n, d, generator=generator)


@given(
    labels=st.lists(st.integers(0, 5), min_size=2, max_size=16),
    d=st.integers(2, 8),
    seed=st.integers(0, 10_000),
    noise=st.sampled_from([0.0, 0.3, 2.0]),
)
@settings(max_examples=60)
def test_as_pytorch_metric_learning(labels: list[int], d: int, seed: int, noise: float) -> None:
    """The miner and the loss of SapBERT's released code, with the loss's weights of its paper."""
    left, right = views(len(labels), d, seed, noise)
    left.requires_grad_()
    marks = torch.tensor(labels)
    both, twice = torch.cat([left, right]), torch.cat([marks, marks])
    mined = TripletMarginMiner(margin=0.2, type_of_triplets="all")(both, twice)
    assume(len(mined[0]) != 1)  # of a single triplet that library makes a loss of 0
    expected = MultiSimilarityLoss(alpha=2, beta=50, base=0.5)(both, twice, mined)
    loss = multi_similarity(left, right, 0.04, marks)
    torch.testing.assert_close(loss, expected.reshape(()), rtol=1e-4, atol=1e-5)
    if len(set(labels)) > 1:
        (gradient,) = torch.autograd.grad(loss, left, retain_graph=True)
        (reference,) = torch.autograd.grad(expected, left)
        torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-4)


def test_by_hand() -> None:
    """Two pairs on a circle: the anchors' cosines are known, one negative is mined and one is not."""

    def on_circle(*degrees: float) -> torch.Tensor:
        return torch.tensor([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in degrees])

    left, right = on_circle(0, 40), on_circle(30, 90)  # one: 0 and 30 degrees, other: 40 and 90 degrees
    where = {"a": 0, "b": 40, "a'": 30, "b'": 90}
    other = {"a": "a'", "a'": "a", "b": "b'", "b'": "b"}

    def distance(x: str, y: str) -> float:
        return 2 * math.sin(math.radians(abs(where[x] - where[y])) / 2)

    def cosine(x: str, y: str) -> float:
        return math.cos(math.radians(where[x] - where[y]))

    losses = []
    for anchor, positive in other.items():
        hard = [n for n in where if n not in (anchor, positive) and
                distance(anchor, n) - distance(anchor, positive) <= 0.2]  # fmt: skip
        towards = math.log(1 + math.exp(-2 * (cosine(anchor, positive) - 0.5))) / 2 if hard else 0.0
        away = math.log(1 + sum(math.exp(50 * (cosine(anchor, n) - 0.5)) for n in hard)) / 50
        losses.append(towards + away)
    assert multi_similarity(left, right, 1.0).item() == pytest.approx(sum(losses) / 4, rel=1e-5)
    assert any(losses)


def test_easy_batches_cost_nothing_and_give_no_nan() -> None:
    left = torch.eye(4, requires_grad=True)
    loss = multi_similarity(left, left.detach().clone(), 1.0)
    loss.backward()
    assert loss.item() == 0
    assert left.grad is not None
    assert left.grad.isfinite().all()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_rows_of_one_label_are_no_negatives(name: str) -> None:
    left, right = views(6, 5, 0, 0.3)
    same = LOSSES[name](left, right, 0.1, torch.arange(6))
    torch.testing.assert_close(same, LOSSES[name](left, right, 0.1, None))
    grouped = LOSSES[name](left, right, 0.1, torch.tensor([0, 0, 1, 1, 2, 2]))
    assert not torch.isclose(grouped, same)


@pytest.mark.parametrize(("loss", "with_positive"), [(infonce, False), (ntxent, True)])
def test_grouped_contrast_by_loops(loss: object, with_positive: bool) -> None:
    left, right = views(5, 4, 1, 0.5)
    labels = [0, 1, 0, 2, 1]
    vectors = torch.nn.functional.normalize(torch.cat([left, right]), dim=1)
    twice, total = labels + labels, 0.0
    for anchor in range(10):
        positive = (anchor + 5) % 10
        chosen = [j for j in range(10) if twice[j] != twice[anchor]] + [positive] * with_positive
        scores = [math.exp(vectors[anchor] @ vectors[j] / 0.1) for j in chosen]
        total -= math.log(math.exp(vectors[anchor] @ vectors[positive] / 0.1) / sum(scores))
    result = loss(left, right, 0.1, torch.tensor(labels))  # type: ignore[operator]
    assert result.item() == pytest.approx(total / 10, rel=1e-4)
