from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import MultiSimilarityLoss, NTXentLoss
from pytorch_metric_learning.miners import TripletMarginMiner
from torch.nn.functional import cosine_similarity

from mirrorbench.training.losses import (
    LOSSES,
    FunctionObjective,
    in_batch,
    infonce,
    multi_similarity,
    ntxent,
)
from mirrorbench.training.methods import sap_preset


def views(
    n: int, dimensions: int = 6, seed: int = 0, noise: float = 0.5
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(n, dimensions, generator=generator)
    right = left + noise * torch.randn(n, dimensions, generator=generator)
    return left.requires_grad_(), right.requires_grad_()


def equation_1(
    left: torch.Tensor,
    right: torch.Tensor,
    temperature: float,
    labels: list[int] | None = None,
    positives: int = 0,
) -> torch.Tensor:
    """Paper 1, Eq. 1, term by term: each of the 2N vectors an anchor, the other pairs' vectors its negatives.

    Those with the anchor's label are none; ``positives=1``: the positive stands in the denominator too.
    """
    anchors = torch.cat([left, right])
    n = len(left)
    marks = 2 * (labels or list(range(n)))
    terms = []
    for i in range(2 * n):
        similarity = torch.exp(cosine_similarity(anchors[i], anchors, dim=1) / temperature)
        positive = (i + n) % (2 * n)
        negatives = [j for j in range(2 * n) if marks[j] != marks[i]]
        terms.append(
            (similarity[negatives + [positive] * positives].sum() / similarity[positive]).log()
        )
    return torch.stack(terms).mean()


def metric_learnings(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    return NTXentLoss(temperature)(torch.cat([left, right]), torch.arange(len(left)).repeat(2))


def ranking(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """Sentence-transformers' MultipleNegativesRankingLoss."""
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    loss = MultipleNegativesRankingLoss(torch.nn.Identity(), scale=1 / temperature)
    return loss.compute_loss_from_embeddings([left, right], None)


@pytest.mark.parametrize("n", [2, 17])
@pytest.mark.parametrize("temperature", [0.04, 1.0])
@pytest.mark.parametrize(
    ("loss", "reference"), [(infonce, equation_1), (ntxent, metric_learnings), (in_batch, ranking)]
)
def test_loss_values_and_gradients_equal_references(
    loss: Any, reference: Any, temperature: float, n: int
) -> None:
    inputs = views(n)
    actual = loss(*inputs, temperature)
    expected = reference(*inputs, temperature)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    for here, there in zip(
        torch.autograd.grad(actual, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-5)


def test_same_label_pairs_are_not_negatives() -> None:
    left, right = views(5)
    labels = [0, 1, 0, 2, 1]
    for loss, positives in ((infonce, 0), (ntxent, 1)):
        expected = equation_1(left, right, 0.2, labels, positives)
        torch.testing.assert_close(
            loss(left, right, 0.2, torch.tensor(labels)), expected, rtol=1e-4, atol=1e-5
        )
    grouped = in_batch(left, right, 0.2, torch.tensor(labels))
    cosines = cosine_similarity(left[:, None], right, dim=2) / 0.2
    columns = [[0, 1, 3, 4], [0, 1, 2, 3], [1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 2, 3, 4]]
    terms = [cosines[i, others].logsumexp(0) - cosines[i, i] for i, others in enumerate(columns)]
    torch.testing.assert_close(grouped, torch.stack(terms).mean())


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_stable_and_labels_are_optional(name: str) -> None:
    """Small temperatures do not overflow, half precision is summed in single, no labels are labels of their own."""
    pair = views(5)
    loss = LOSSES[name](*pair, 1e-4)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(loss, pair))
    left, right = (view.detach().bfloat16() for view in pair)
    loss = LOSSES[name](left, right, 0.2)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, LOSSES[name](left.float(), right.float(), 0.2))
    torch.testing.assert_close(loss, LOSSES[name](left, right, 0.2, torch.arange(5)))


@given(
    labels=st.lists(st.integers(0, 5), min_size=2, max_size=16),
    d=st.integers(2, 8),
    seed=st.integers(0, 10_000),
    noise=st.sampled_from([0.0, 0.3, 2.0]),
    protocol=st.sampled_from(["paper", "released"]),
)
@settings(max_examples=25)
@example(labels=[0, 1], d=8, seed=0, noise=0.0, protocol="paper")  # so easy that nothing is mined
def test_multi_similarity_equals_pytorch_metric_learning(
    labels: list[int], d: int, seed: int, noise: float, protocol: str
) -> None:
    """The miner and the loss of SapBERT's released code (``metric_learning.py``), at the values of both protocols."""
    alpha, beta, base = {"paper": (2, 50, 0.5), "released": (1, 60, 0.5)}[protocol]
    recipe = sap_preset("phrase", "bert", protocol)
    left, right = views(len(labels), d, seed, noise)
    marks = torch.tensor(labels)
    both = torch.cat([left, right])
    twice = torch.cat([marks, marks])
    mined = TripletMarginMiner(margin=0.2, type_of_triplets="all")(both, twice)
    assume(len(mined[0]) != 1)  # of a single triplet that library makes a loss of 0
    expected = MultiSimilarityLoss(alpha=alpha, beta=beta, base=base)(both, twice, mined)
    loss = FunctionObjective(None, recipe, multi_similarity).function(
        left, right, recipe.temperature, marks
    )  # type: ignore[arg-type]
    torch.testing.assert_close(loss, expected.reshape(()), rtol=1e-4, atol=1e-5)
    if len(set(labels)) > 1:
        (gradient,) = torch.autograd.grad(loss, left, retain_graph=True)
        (reference,) = torch.autograd.grad(expected, left)
        torch.testing.assert_close(gradient, reference, rtol=1e-3, atol=1e-4)
