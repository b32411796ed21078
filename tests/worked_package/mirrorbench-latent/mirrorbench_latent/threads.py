"""The executor ``threads``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from mirrorbench.plugin import CellOutcome, Job, UsageError, compute, failed


def run_in_threads(job: Job) -> Iterator[CellOutcome]:
    """Compute the groups of a job in threads of this process, two by default.

    Raises:
        UsageError: the option ``workers`` is not a positive whole number.
    """
    workers = job.known(workers=2)["workers"]
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise UsageError(
            f"threads:workers={workers}: the number of threads is a whole number from 1 on",
            "Write for example --executor threads:workers=2.",
        )
    job.share()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="mirrorbench-latent")
    try:
        groups = {pool.submit(compute, job.context, group): group for group in job.groups}
        for future in as_completed(groups):
            try:
                answer = future.result()
            except Exception as error:
                yield from failed(groups[future], error)
                continue
            for note in answer.notes:
                job.reporter.note(note)
            yield from answer.done
    finally:
        pool.shutdown(cancel_futures=True)
