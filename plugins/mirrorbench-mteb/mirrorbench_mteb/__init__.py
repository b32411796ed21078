"""MTEB (Muennighoff et al., EACL 2023) tasks in mirrorbench, and mirrorbench encoders in MTEB.

Tasks: every text-only STS and pair-classification task of MTEB is a mirrorbench task ``mteb-NAME`` (``from_mteb``
converts one of your own). Encoders: ``mirrorbench_mteb.model.MirrorbenchModel`` is an MTEB model. Results:
``mirrorbench mteb``. Importing mteb takes seconds, so it is imported only when a task is read or a command runs.
"""

from __future__ import annotations

from mirrorbench.plugin import Register, hookimpl
from mirrorbench_mteb.tasks import from_mteb

__all__ = ["from_mteb"]


@hookimpl
def register_tasks(register: Register) -> None:
    """Register a task for each subset of each task in the catalogue."""
    from mirrorbench_mteb.catalogue import catalogue
    from mirrorbench_mteb.tasks import from_entry

    for entry in catalogue().values():
        register(from_entry(entry))
