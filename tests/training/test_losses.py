from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import MultiSimilarityLoss, NTXentLoss
from pytorch_metric_learning.miners import TripletMarginMiner
from torch.nn.functional import cosine_similarity

from mirrorbench.training.losses import LOSSES, in_batch, infonce, multi_similarity, ntxent
from mirrorbench.training.methods import sap_preset
from mirrorbench.training.objective import OfVectors


def views(n: int, dimensions: int = 6, seed: int = 0, noise: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(n, dimensions, generator=generator)
    right = left + noise * torch.randn(n, dimensions, generator=generator)
    return left.requires_grad_(), right.requires_grad_()


def equation_1(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """Paper 1, Eq. 1, term by term: each of the 2N vectors an anchor, the other pairs' vectors its negatives."""
    anchors = [*left, *right]
    n = len(left)
    terms = []
    for i, anchor in enumerate(anchors):

        def similarity(j: int, anchor: torch.Tensor = anchor) -> torch.Tensor:
            return torch.exp(cosine_similarity(anchor, anchors[j], dim=0) / temperature)

        positive = (i + n) % (2 * n)
        negatives = sum(similarity(j) for j in range(2 * n) if j not in (i, positive))
        terms.append(-torch.log(similarity(positive) / negatives))
    return sum(terms) / len(terms)  # type: ignore[return-value]


def simcse_equation_4(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """SimCSE, Eq. 4, term by term: each first view an anchor, all second views in the denominator."""
    terms = []
    for i, anchor in enumerate(left):
        exponentials = [torch.exp(cosine_similarity(anchor, other, dim=0) / temperature) for other in right]
        terms.append(-torch.log(exponentials[i] / sum(exponentials)))
    return sum(terms) / len(terms)  # type: ignore[return-value]


def metric_learnings(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    return NTXentLoss(temperature)(torch.cat([left, right]), torch.arange(len(left)).repeat(2))


def ranking(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """Sentence-transformers' MultipleNegativesRankingLoss."""
    losses = pytest.importorskip("sentence_transformers.losses")
    loss = losses.MultipleNegativesRankingLoss(torch.nn.Identity(), scale=1 / temperature)
    return loss.compute_loss_from_embeddings([left, right], None)


@pytest.mark.parametrize("n", [2, 17])
@pytest.mark.parametrize("temperature", [0.04, 1.0])
@pytest.mark.parametrize(
    ("loss", "reference"),
    [(infonce, equation_1), (ntxent, metric_learnings), (in_batch, simcse_equation_4), (in_batch, ranking)],
)
def test_values_and_gradients_are_those_of(loss: Any, reference: Any, temperature: float, n: int) -> None:
    inputs = views(n)
    found, expected = loss(*inputs, temperature), reference(*inputs, temperature)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for here, there in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-5)


def test_in_batch_leaves_out_what_stands_for_the_same() -> None:
    left, right = views(4)
    grouped = in_batch(left, right, 0.2, torch.tensor([0, 1, 0, 2]))
    cosines = torch.nn.functional.normalize(left, dim=1) @ torch.nn.functional.normalize(right, dim=1).T / 0.2
    terms = [cosines[i, columns].logsumexp(0) - cosines[i, i]
             for i, columns in enumerate([[0, 1, 3], [0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3]])]  # fmt: skip
    torch.testing.assert_close(grouped, torch.stack(terms).mean())


def test_the_positive_in_the_denominator_is_the_difference() -> None:
    left = torch.eye(4)
    assert infonce(left, left, 1.0).item() == pytest.approx(math.log(6) - 1)
    assert ntxent(left, left, 1.0).item() == pytest.approx(math.log(6 + math.e) - 1)
    assert infonce(left, left, 0.04).item() < 0 < ntxent(left, left, 0.04).item() + 1e-9


@pytest.mark.parametrize("name", LOSSES)
def test_small_temperatures_do_not_overflow(name: str) -> None:
    pair = views(5)
    loss = LOSSES[name](*pair, 1e-4)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(loss, pair))


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_is_summed_in_single(name: str) -> None:
    left, right = (view.detach().bfloat16() for view in views(5))
    loss = LOSSES[name](left, right, 0.2)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, LOSSES[name](left.float(), right.float(), 0.2))


@given(
    labels=st.lists(st.integers(0, 5), min_size=2, max_size=16),
    d=st.integers(2, 8),
    seed=st.integers(0, 10_000),
    noise=st.sampled_from([0.0, 0.3, 2.0]),
    protocol=st.sampled_from(["paper", "released"]),
)
@settings(max_examples=25)
def test_as_pytorch_metric_learning(labels: list[int], d: int, seed: int, noise: float, protocol: str) -> None:
    """The miner and the loss of SapBERT's released code (``metric_learning.py``), at the values of both protocols."""
    alpha, beta, base = {"paper": (2, 50, 0.5), "released": (1, 60, 0.5)}[protocol]
    recipe = sap_preset("phrase", "bert", protocol)
    left, right = views(len(labels), d, seed, noise)
    marks = torch.tensor(labels)
    both, twice = torch.cat([left, right]), torch.cat([marks, marks])
    mined = TripletMarginMiner(margin=0.2, type_of_triplets="all")(both, twice)
    assume(len(mined[0]) != 1)  # of a single triplet that library makes a loss of 0
    expected = MultiSimilarityLoss(alpha=alpha, beta=beta, base=base)(both, twice, mined)
    loss = OfVectors(None, recipe, multi_similarity).function(left, right, recipe.temperature, marks)  # type: ignore[arg-type]
    torch.testing.assert_close(loss, expected.reshape(()), rtol=1e-4, atol=1e-5)
    if len(set(labels)) > 1:
        (gradient,) = torch.autograd.grad(loss, left, retain_graph=True)
        (reference,) = torch.autograd.grad(expected, left)
        torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-4)


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
    left, right = (view.detach() for view in views(5, 4, 1, 0.5))
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
