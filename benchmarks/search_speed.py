"""Retrieval against the full matrix and faiss."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import numpy as np
import psutil
from measuring import Table, alternate
from numpy.typing import NDArray

from mirrorbench.tasks.lexical.nearest_neighbours import csls, topk

Vectors = NDArray[np.float32]
MENTIONS, WIDTH, BLI_WIDTH = 1_000, 768, 300


def retrieval(table: Table, names: int, rounds: int) -> None:
    """Measure the search of names for mentions by cosine (BEL), and of translations by CSLS (BLI)."""
    rng = np.random.default_rng(0)
    table.title(
        f"Retrieval: {MENTIONS} mentions x {names} names x {WIDTH}; CSLS {names} x {names} x {BLI_WIDTH}"
    )
    mentions = rng.normal(size=(MENTIONS, WIDTH)).astype(np.float32)
    keys = rng.normal(size=(names, WIDTH)).astype(np.float32)
    chunked, full = (lambda: topk(mentions, keys, 5)[0]), (lambda: full_topk(mentions, keys, 5))
    if (chunked() != full()).mean() > 1e-3:
        raise SystemExit("the chunked search finds other names than the full matrix")
    _row(table, "BEL, top 5", "full matrix", chunked, full, rounds)
    _faiss(table, mentions, keys, chunked, rounds)
    sources, targets = (rng.normal(size=(names, BLI_WIDTH)).astype(np.float32) for _ in range(2))
    _row(
        table,
        "BLI, CSLS",
        "full matrix",
        lambda: csls(sources, targets, 1),
        lambda: full_csls(sources, targets),
        max(1, rounds - 2),
    )


def _row(
    table: Table,
    what: str,
    there: str,
    own: Callable[[], object],
    other: Callable[[], object],
    rounds: int,
) -> None:
    """Add a row with a note on the peak memory of both beside their input, in runs of their own."""
    own_times, other_times = alternate([own, other], rounds, warm_up=False)
    memory = f"{_peak(own):.0f} instead of {_peak(other):.0f} MiB"
    table.add(what, "in chunks", there, own_times, other_times, memory)


def _peak(work: Callable[[], object]) -> float:
    """Measure the growth of the process during work, in MiB."""
    process, done, sizes = psutil.Process(), Event(), [0]
    before = process.memory_info().rss

    def sample() -> None:
        while not done.wait(0.002):
            sizes.append(process.memory_info().rss - before)

    sampler = Thread(target=sample)
    sampler.start()
    work()
    done.set()
    sampler.join()
    return max(sizes) / 2**20


def _units(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def full_topk(queries: Vectors, keys: Vectors, k: int) -> NDArray[np.int64]:
    """Return the k best by cosine from all similarities at once."""
    similarity = _units(queries) @ _units(keys).T
    some = np.argpartition(-similarity, k, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(similarity, some, axis=1), axis=1)
    return np.take_along_axis(some, order, axis=1)


def full_csls(queries: Vectors, keys: Vectors, k: int = 10) -> NDArray[np.int64]:
    """Return the best by CSLS from all similarities at once."""
    similarity = _units(queries) @ _units(keys).T
    of_query = np.partition(similarity, -k, axis=1)[:, -k:].mean(axis=1)
    of_key = np.partition(similarity, -k, axis=0)[-k:].mean(axis=0)
    return (2 * similarity - of_query[:, None] - of_key).argmax(axis=1)


def _faiss(
    table: Table,
    mentions: Vectors,
    keys: Vectors,
    chunked: Callable[[], NDArray[np.int64]],
    rounds: int,
) -> None:
    try:
        import faiss
    except ImportError:
        print("\nNot measured: faiss-cpu is not installed (pip install faiss-cpu).\n")
        return

    def search() -> NDArray[np.int64]:
        index = faiss.IndexFlatIP(keys.shape[1])
        index.add(_units(keys))
        found: NDArray[np.int64] = index.search(_units(mentions), 5)[1]
        return found

    same = (chunked() == search()).mean()
    own, other = alternate([chunked, search], rounds, warm_up=False)
    table.add(
        "BEL, top 5", "in chunks", "faiss, flat index", own, other, f"{100 * same:.1f}% the same"
    )
