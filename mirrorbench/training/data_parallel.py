"""Work that the cores of a CPU do side by side, each a share of it.

One core after the other through all layers of its own texts has nothing to wait for; two cores that share each layer
wait for each other several times in it, and the second idles while Python calls the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


class DataParallelThreads:
    """As many threads as torch computes with; to be entered as a context.

    Each share is computed by one of them with as many of torch's own threads as there are to spare, so that what comes
    out depends on their number alone, and not on who is faster.
    """

    def __init__(self) -> None:
        self.threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="mirrorbench-part")

    def __enter__(self) -> DataParallelThreads:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def shares(self, items: Sequence[T]) -> list[Sequence[T]]:
        """One for each thread that has something to do; items of similar cost should stand side by side."""
        n = min(self.threads, len(items))
        return [items[start::n] for start in range(n)]

    def map(self, function: Callable[[Sequence[T]], R], shares: Sequence[Sequence[T]]) -> list[R]:
        """What a function gives for each share; ``shares`` come from the method of that name.

        Raises:
            BaseException: what the first share that failed raised, once all are done.
        """
        if len(shares) == 1:
            return [function(shares[0])]
        with self._torchs_threads():
            jobs = [self._pool.submit(self._one, function, share, self.threads // len(shares)) for share in shares]
            wait(jobs)
        return [job.result() for job in jobs]

    @staticmethod
    def _one(function: Callable[[Sequence[T]], R], share: Sequence[T], threads: int) -> R:
        torch.set_num_threads(threads)  # of this thread
        return function(share)

    @contextmanager
    def _torchs_threads(self) -> Iterator[None]:
        """Whatever the shares set, this thread computes with all afterwards."""
        try:
            yield
        finally:
            torch.set_num_threads(self.threads)
