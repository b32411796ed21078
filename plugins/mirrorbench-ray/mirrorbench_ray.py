"""The executor ``ray``: each group of cells with the same weights is a Ray task.

A task requests CPUs and GPUs, and is retried if a worker died. All data are exchanged through the folders of the run,
which every node must see.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from mirrorbench.plugin import (
    CellGroup,
    CellOutcome,
    DeviceError,
    GroupOutcome,
    Job,
    MirrorbenchError,
    Register,
    UsageError,
    Value,
    WorkerContext,
    compute,
    failed,
    hookimpl,
    worker_device,
)

START_TRIES = 3
"""Maximum number of tries to start a cluster on this machine."""


class RayError(MirrorbenchError):
    """Ray cannot be reached, or gave up on a task."""


def device(asked: str, options: Mapping[str, Value]) -> str:
    """Return the device of the tasks: a GPU if they request one, or if a cluster on this machine has one."""
    import ray

    return worker_device(
        asked, options.get("gpus"), here=not options.get("address") and not ray.is_initialized()
    )


def execute(job: Job) -> Iterator[CellOutcome]:
    """Compute a job on a Ray cluster.

    Options: ``address`` (a running cluster; by default one is started on this machine for this run), ``workers`` (most
    tasks at a time; by default as many as the resources allow, 2 on a cluster started here), ``cpus`` and ``gpus`` of a
    task (1 and, for a CUDA device, 1).
    """
    import ray

    on_gpu = job.context.settings.device == "cuda"
    options = job.known(address="", workers=0, cpus=1.0, gpus=float(on_gpu))
    address = str(options["address"])
    workers = options["workers"]
    cpus = options["cpus"]
    gpus = options["gpus"]
    assert isinstance(workers, int)
    assert isinstance(cpus, float)
    assert isinstance(gpus, float)
    if min(workers, cpus, gpus) < 0:
        raise UsageError("the Ray executor takes no negative number of workers, cpus or gpus")
    # With a fraction of a GPU for each, several tasks share one, and each uses only its share of the memory.
    if 0 < gpus < 1:
        job = replace(job, context=replace(job.context, share=gpus))
    job.share()  # writes the corpora where the tasks find them
    # A program that is connected to Ray already keeps its connection.
    is_connected_here = not ray.is_initialized()
    if is_connected_here:
        # A cluster that is started here has CPUs for all tasks at a time, by default for two.
        _connect(address, ceil((workers or 2) * max(1, cpus)))
    try:
        if not _fits(cpus, gpus):
            resources = f"{cpus:g} CPUs and {gpus:g} GPUs for a task"
            # No node will join a cluster that was started for this run.
            if is_connected_here and not address:
                raise UsageError(
                    f"this machine does not have {resources}", "Ask for less: ray:gpus=0"
                )
            job.reporter.note(
                f"no node of the Ray cluster has {resources}; the tasks wait until one joins"
            )
        # The process of a task sees its own GPUs only, as cuda:0 and so on.
        task = ray.remote(compute_or_leave).options(
            num_cpus=cpus, num_gpus=gpus, max_retries=job.retries, retry_exceptions=False
        )
        yield from _results(job, task, workers)
    finally:
        if is_connected_here:
            ray.shutdown()


def compute_or_leave(context: WorkerContext, cells: CellGroup) -> GroupOutcome:
    """Compute a group in a task of Ray; end the process if it lost its GPU, or Ray would give it the next task."""
    try:
        return compute(context, cells)
    except DeviceError as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201  (into Ray's log of the worker)
        os._exit(1)


def _fits(cpus: float, gpus: float) -> bool:
    """Return whether a node of the cluster has the resources of a task; Ray would silently wait for such a node."""
    import ray

    for node in ray.nodes():  # type: ignore[no-untyped-call]
        resources = node["Resources"]
        has_resources = resources.get("CPU", 0) >= cpus and resources.get("GPU", 0) >= gpus
        if node["Alive"] and has_resources:
            return True
    return False


def _connect(address: str, cpus: int) -> None:
    """Join the cluster at an address or, if it is empty, start one with ``cpus`` CPUs on this machine.

    Raises:
        RayError: no cluster is found, or none could be started in ``START_TRIES``.
    """
    import ray

    # On a busy machine, Ray's daemon may take longer to start than Ray waits for it.
    tries = 1 if address else START_TRIES
    for number in range(1, tries + 1):
        try:
            if address:
                _check_address(address)
                ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
            else:
                ray.init(
                    num_cpus=cpus,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="ERROR",
                )
            return
        except Exception as error:
            # Ray raises a plain ``Exception`` if its daemon does not start.
            ray.shutdown()
            if number == tries:
                raise RayError(
                    f"no Ray cluster at {address or 'this machine'}: {error}",
                    "Start one (ray start --head) and name it: --address HOST:6379, or auto.",
                ) from error


def _check_address(address: str) -> None:
    """Raise ``OSError`` if nothing listens at an address; Ray itself would notice only after minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _results(job: Job, task: Any, workers: int) -> Iterator[CellOutcome]:
    """Yield outcomes as they come, with at most ``workers`` tasks at a time (0: any number)."""
    import ray

    waiting = list(reversed(job.groups))  # ``pop`` takes the first group from the end
    running: dict[Any, CellGroup] = {}
    context = ray.put(job.context)
    try:
        while waiting or running:
            while waiting and (not workers or len(running) < workers):
                cells = waiting.pop()
                running[task.remote(context, cells)] = cells
            ready, _ = ray.wait(list(running), num_returns=1)
            for reference in ready:
                cells = running.pop(reference)
                try:
                    answer = ray.get(reference)
                except ray.exceptions.RayError as error:
                    yield from failed(cells, _final_error(error, job.retries))
                else:
                    for note in answer.notes:
                        job.reporter.note(note)
                    yield from answer.done
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _final_error(error: Exception, retries: int) -> RayError:
    """Return the error for a group of cells after the last try of Ray."""
    lines = str(error).strip().splitlines()
    return RayError(
        f"Ray gave up after {retries + 1} tries: {type(error).__name__}: {lines[0] if lines else ''}",
        "What its workers printed is in Ray's logs, on this machine in /tmp/ray/session_latest/logs.",
    )


@hookimpl
def register_executors(register: Register) -> None:
    """Register the executor ``ray``."""
    summary = (
        "A Ray cluster: --address HOST:PORT, or one on this machine; --executor ray:gpus=1,cpus=4"
    )
    register("ray", execute, summary, device)
