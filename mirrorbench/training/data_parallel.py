"""Work that the cores of a CPU share: each computes its share alone, so that none waits for another in every layer."""

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
    """The same threads for every tuning: glibc keeps what a thread has freed for that thread."""
    return ThreadPoolExecutor(threads, thread_name_prefix="mirrorbench-tuning")


def map_shares(function: Callable[[Sequence[_T]], R], items: Sequence[_T], threads: int) -> list[R]:
    """The results of n shares, of which share i is ``items[i::n]``; items of similar cost should be neighbours.

    Each share has a thread, and as many of torch's own threads as there are to spare. So results depend on the number
    of threads alone, not on which is faster.

    Raises:
        BaseException: what the first share that failed raised, once all are done.
    """
    n = min(threads, len(items))
    if n <= 1:
        return [function(items)]

    def compute(share: Sequence[_T]) -> R:
        torch.set_num_threads(threads // n)  # of this thread
        return function(share)

    jobs = [_pool(threads).submit(compute, items[start::n]) for start in range(n)]
    try:
        wait(jobs)
    finally:
        for job in jobs:
            job.cancel()
        torch.set_num_threads(threads)  # the shares have set what this thread takes, too
    return [job.result() for job in jobs]
