"""The search against full matrices, ties, blocks of a few keys, and its memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mirrorbench.tasks.lexical.nearest_neighbours as neighbours
from mirrorbench.core import devices
from mirrorbench.core.errors import UsageError
from mirrorbench.tasks.lexical.nearest_neighbours import csls, neighbourhood, ranks, topk

Pair = tuple[np.ndarray, np.ndarray]


def similarities(queries: np.ndarray, keys: np.ndarray, similarity: str = "cosine") -> np.ndarray:
    products: np.ndarray = queries.astype(float) @ keys.astype(float).T
    norms = np.outer(*(np.linalg.norm(rows.astype(float), axis=1) for rows in (queries, keys)))
    cosines: np.ndarray = np.divide(products, norms, out=np.zeros_like(norms), where=norms > 0)
    return cosines if similarity == "cosine" else products


def best(scores: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def in_small_blocks(
    patch: pytest.MonkeyPatch, rows: int = 3, size: int = 7 * 4 * 16, device: str = "cpu"
) -> None:
    patch.setitem(neighbours.QUERY_ROWS, device, rows)
    patch.setitem(neighbours.BLOCK_BYTES, device, size)


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many blocks":
        in_small_blocks(monkeypatch)


@pytest.fixture
def vectors() -> Pair:
    rng = np.random.default_rng(1)
    return rng.normal(size=(10, 16)).astype(np.float32), rng.normal(size=(57, 16)).astype(
        np.float32
    )


@pytest.mark.usefixtures("blocks")
class TestAgainstTheFullMatrix:
    @pytest.mark.parametrize(
        ("k", "similarity"), [(1, "cosine"), (5, "cosine"), (57, "cosine"), (4, "dot")]
    )
    def test_topk_equals_full_matrix(self, vectors: Pair, k: int, similarity: str) -> None:
        vectors[1][13] *= 100  # the dot product prefers long vectors
        full = similarities(*vectors, similarity)
        indices, scores = topk(*vectors, k, similarity)
        np.testing.assert_array_equal(indices, best(full, k))
        np.testing.assert_allclose(
            scores, np.take_along_axis(full, indices, axis=1), rtol=0, atol=1e-10
        )

    def test_csls_equals_its_formula(self, vectors: Pair) -> None:
        queries = np.concatenate(
            [vectors[0], np.random.default_rng(2).normal(size=(20, 16)).astype(np.float32)]
        )
        full = similarities(queries, vectors[1])
        of_query, of_key = (
            np.sort(scores, axis=1)[:, -10:].mean(axis=1) for scores in (full, full.T)
        )
        wanted = 2 * full - of_query[:, None] - of_key
        np.testing.assert_array_equal(csls(queries, vectors[1], 6), best(wanted, 6))
        np.testing.assert_allclose(neighbourhood(vectors[1], queries, 10), of_key, atol=2e-10)

    def test_penalised_ranks_equal_full_matrix(self, vectors: Pair) -> None:
        targets, penalty = np.arange(10) * 5, np.linspace(0, 0.3, 57)
        full = similarities(*vectors) - penalty
        wanted = [1 + (row > row[t]).sum() for row, t in zip(full, targets, strict=True)]
        assert ranks(*vectors, targets, penalty).tolist() == wanted
        np.testing.assert_array_equal(topk(*vectors, 3, penalty=penalty)[0], best(full, 3))

    @pytest.mark.parametrize("similarity", ["cosine", "dot"])
    @pytest.mark.parametrize("k", [1, 5, 40, 300])
    def test_ties_are_ordered_by_index(self, k: int, similarity: str) -> None:
        """Many names of a dictionary have the same static vector: that of their only known word, or zeros."""
        rng = np.random.default_rng(5)
        keys = rng.normal(size=(300, 16)).astype(np.float32)
        keys[::3] = keys[0]  # 100 equal ones
        keys[1::5] = 0  # and 60 others
        queries = np.concatenate(
            [keys[[0, 7]], -keys[[0]], np.zeros((1, 16), np.float32), rng.normal(size=(3, 16))]
        )
        full = similarities(queries, keys, similarity)
        indices, scores = topk(queries, keys, k, similarity)
        np.testing.assert_array_equal(indices, best(full.round(9), k))
        np.testing.assert_allclose(scores, np.take_along_axis(full, indices, axis=1), atol=1e-10)


@settings(max_examples=settings().max_examples // 4)
@given(st.integers(1, 30), st.integers(1, 60), st.integers(1, 8), st.integers(0, 10_000))
def test_block_size_does_not_change_results(n: int, m: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, keys = (
        rng.integers(-2, 3, (n, 3)).astype(np.float32),
        rng.integers(-2, 3, (m, 3)).astype(np.float32),
    )
    targets = rng.integers(0, m, n)
    whole = topk(queries, keys, k)
    expected = ranks(queries, keys, targets)
    with pytest.MonkeyPatch.context() as patch:
        in_small_blocks(patch, 4, 64)
        patch.setattr(neighbours, "_SPARE", 60)
        pieces = topk(queries, keys, k)
        np.testing.assert_array_equal(ranks(queries, keys, targets), expected)
    np.testing.assert_array_equal(whole[1], pieces[1])
    full = similarities(queries, keys)
    np.testing.assert_allclose(whole[1], -np.sort(-full, axis=1)[:, :k], atol=1e-10)
    for row, target, rank in zip(full.round(9), targets, expected, strict=True):
        assert rank == 1 + (row > row[target]).sum() + (row[:target] == row[target]).sum()


def memory_of(work: Callable[[], object], patch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The peak of NumPy's memory, and of a block of scores and the normalised queries, in bytes."""
    blocks, sizes = neighbours._blocks, []

    def measured(queries: np.ndarray, *rest: Any) -> Iterator[Any]:
        for rows, columns, products in blocks(queries, *rest):
            sizes.append(products.nbytes + queries.size * products.itemsize)
            yield rows, columns, products

    patch.setattr(neighbours, "_blocks", measured)
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, max(sizes)


def test_search_memory_stays_below_full_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """6,000 keys squared are 144 MB of scores in float32."""
    monkeypatch.setitem(neighbours.BLOCK_BYTES, "cpu", 4 << 20)
    keys = np.random.default_rng(0).normal(size=(6_000, 8)).astype(np.float32)
    results: list[np.ndarray] = []
    for work in (
        lambda: results.append(topk(keys, keys, 5)[0]),
        lambda: ranks(keys[:500], keys, np.arange(500)),
    ):
        peak, block = memory_of(work, monkeypatch)
        assert peak < 16 << 20
        assert block < 5 << 20
    np.testing.assert_array_equal(results[0][:, 0], np.arange(6_000))


def test_queries_are_not_copied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are the queries of CSLS's neighbourhoods: a million keys of 768 dimensions would be another 3 GB."""
    monkeypatch.setitem(neighbours.BLOCK_BYTES, "cpu", 256 << 10)
    monkeypatch.setattr(neighbours, "UNIT_BYTES", 1 << 20)
    keys = np.random.default_rng(0).normal(size=(10_000, 256)).astype(np.float32)
    results: list[np.ndarray] = []
    peak, block = memory_of(lambda: results.append(neighbourhood(keys, keys[:50], 3)), monkeypatch)
    assert peak < keys.nbytes // 4
    assert block < 2 << 20
    np.testing.assert_allclose(results[0][:500], neighbourhood(keys[:500], keys[:50], 3), atol=1e-7)


def test_invalid_searches_are_rejected() -> None:
    keys = np.ones((2, 2), np.float32)
    with pytest.raises(UsageError, match="similarity 'l2' is neither cosine nor dot"):
        topk(keys, keys, 1, "l2")
    for search_in, k in ((keys[:0], 1), (keys, 0)):
        with pytest.raises(UsageError, match="at least one key and one neighbour"):
            topk(keys, search_in, k)
        with pytest.raises(UsageError, match="at least one key and one neighbour"):
            neighbourhood(keys, search_in, k)


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU and ``meta`` devices take the branches of a GPU."""
    monkeypatch.setattr(devices, "GPUS", ("cuda", "cpu", "meta"))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # it asks for a driver


@pytest.mark.usefixtures("as_on_a_gpu")
class TestBranchesOfAGpu:
    @settings(
        max_examples=settings().max_examples * 2 // 5,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(st.data(), st.sampled_from(["cosine", "dot"]))
    def test_gpu_branches_equal_host_results(self, data: st.DataObject, similarity: str) -> None:
        """Keys are kept or moved in blocks, in rounds of few queries, with a penalty and without."""
        n, m, k = (data.draw(st.integers(1, most)) for most in (30, 60, 8))
        rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
        dtype = data.draw(st.sampled_from([np.float32, np.float64]))
        queries, keys = (rng.integers(-3, 4, (rows, 4)).astype(dtype) for rows in (n, m))
        if data.draw(st.booleans()):
            keys += (
                rng.normal(size=keys.shape).astype(dtype) / 1e5
            )  # closer than float32 tells apart
        penalty = rng.random(m) / 2 if data.draw(st.booleans()) else None
        targets, kept = rng.integers(0, m, n), (queries.copy(), keys.copy())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(devices, "GPUS", ("cuda",))
            wanted = (
                topk(queries, keys, k, similarity, penalty),
                ranks(queries, keys, targets, penalty),
            )
            patch.setattr(devices, "GPUS", ("cuda", "cpu"))
            patch.setattr(neighbours, "KEPT_KEYS_BYTES", data.draw(st.sampled_from([0, 1 << 20])))
            patch.setattr(neighbours, "UNIT_BYTES", data.draw(st.sampled_from([1, 1 << 20])))
            patch.setitem(neighbours.QUERY_ROWS, "cuda", data.draw(st.integers(1, 8)))
            patch.setitem(
                neighbours.BLOCK_BYTES, "cuda", data.draw(st.sampled_from([64, 4_000, 1 << 20]))
            )
            nearest, target_ranks = (
                topk(queries, keys, k, similarity, penalty),
                ranks(queries, keys, targets, penalty),
            )
        np.testing.assert_array_equal(nearest[0], wanted[0][0])
        np.testing.assert_allclose(nearest[1], wanted[0][1], rtol=0, atol=1.5e-10)
        np.testing.assert_array_equal(target_ranks, wanted[1])
        for now, before in zip((queries, keys), kept, strict=True):
            np.testing.assert_array_equal(now, before)

    @pytest.mark.parametrize("held", [0, 1 << 30])
    def test_blocks_do_not_wait_for_the_device(
        self, vectors: Pair, monkeypatch: pytest.MonkeyPatch, held: int
    ) -> None:
        """Waiting raises on ``meta``; only the candidates of a round are fetched."""
        in_small_blocks(monkeypatch, device="cuda")
        monkeypatch.setattr(neighbours, "KEPT_KEYS_BYTES", held)
        device = torch.device("meta")
        keys = neighbours._keys_on_device(vectors[1], device)
        assert isinstance(keys, torch.Tensor) == (held > 0)
        candidates = neighbours._candidates(vectors[0], keys, 5, "cosine", np.zeros(57), device)
        assert {tuple(indices.shape[1:]) for _, indices in candidates} == {(5,)}
        for _ in neighbours._blocks(*vectors, "cosine", np.zeros(57), device, torch.float64):
            pass

    def test_keys_are_moved_to_the_device_once(
        self, vectors: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        in_small_blocks(monkeypatch, device="cuda")
        sizes: list[int] = []
        monkeypatch.setattr(
            neighbours,
            "moved",
            lambda tensor, device: sizes.append(tensor.nbytes) or tensor.to(device),
        )
        topk(*vectors, 5)
        assert sum(sizes) == vectors[1].nbytes + 2 * vectors[0].nbytes


@pytest.mark.gpu
def test_gpu_and_cpu_find_equal_neighbours(vectors: Pair) -> None:
    vectors[1][7] = 0
    penalty, targets = np.linspace(0, 0.5, 57), np.arange(10) * 5
    for similarity, taken in (("cosine", None), ("dot", None), ("cosine", penalty)):
        on_cpu, on_gpu = (
            topk(*vectors, 5, similarity, taken, device) for device in ("cpu", "cuda")
        )
        np.testing.assert_array_equal(on_cpu, on_gpu)
    np.testing.assert_array_equal(ranks(*vectors, targets), ranks(*vectors, targets, device="cuda"))
    np.testing.assert_allclose(
        neighbourhood(*vectors, 4, "cuda"), neighbourhood(*vectors, 4), atol=1e-6
    )


@pytest.mark.parametrize(("name", "device"), [("cpu", "cpu"), ("mps", "cpu"), ("cuda:1", "cuda:1")])
def test_mps_search_runs_on_the_cpu(name: str, device: str) -> None:
    assert str(neighbours._torch_device(name)) == device
