"""Data parallelism on a CPU: threads that compute whole items need not wait for each other in every layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

import torch

_T = TypeVar("_T")
R = TypeVar("R")


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """The same threads for every tuning, since glibc keeps freed memory for the thread that freed it."""
    return ThreadPoolExecutor(threads, thread_name_prefix="mirrorbench-tuning")


def map_shares(function: Callable[[Sequence[_T]], R], items: Sequence[_T], threads: int) -> list[R]:
    """The results of n shares, one a thread; share i is ``items[i::n]``, so items of similar cost should be neighbours.

    torch's own threads are divided among the shares. Results depend on the number of threads, not on which is faster.
    Once all shares are done, the exception of the first one that failed is raised.
    """
    n = min(threads, len(items))
    if n <= 1:
        return [function(items)]

    def compute(share: Sequence[_T]) -> R:
        torch.set_num_threads(threads // n)  # for this thread
        return function(share)

    jobs = [_pool(threads).submit(compute, items[start::n]) for start in range(n)]
    try:
        wait(jobs)
    finally:
        for job in jobs:
            job.cancel()
        torch.set_num_threads(threads)  # the shares' calls changed this thread's number, too
    return [job.result() for job in jobs]
