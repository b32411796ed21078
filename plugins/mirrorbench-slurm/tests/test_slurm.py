"""The executor ``slurm`` on submitit's local clusters."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import mirrorbench_slurm
import pytest
from helpers.executor_bench import Bench

from mirrorbench.plugin import UsageError


@pytest.mark.parametrize("cluster", [pytest.param("local", marks=pytest.mark.slow), "debug"])
def test_job_results_equal_local_results(bench: Bench, cluster: str) -> None:
    """``local``: each job is a process, one of which is killed; ``debug``: this process, which tunes too."""
    good = ("letters", "dying", *["tiny+mirror:batch_size=6"] * (cluster == "debug"))
    (bench.folder / "calls").write_text("dying\n")
    expected = bench.run("here", *good)
    if cluster == "local":
        (bench.folder / "calls").unlink()
    options = {"cluster": cluster, "workers": 2, "groups": 3, "minutes": 5}
    outcome = bench.run("there", *good, "broken", executor="slurm", **options)
    assert bench.stored("there") == bench.stored("here")
    assert {r.cell_id for r in outcome.results} == {r.cell_id for r in expected.results}
    reasons = [failure.reason.partition(" (")[0] for failure in outcome.failures]
    assert reasons == 2 * ["RuntimeError: it broke [down]"]
    assert sum("it is submitted again" in line for line in bench.log.lines) == (cluster == "local")


@pytest.mark.full
def test_job_losing_the_gpu_is_submitted_again(bench: Bench) -> None:
    options = {"cluster": "local", "workers": 1, "groups": 2, "minutes": 5}
    outcome = bench.run("there", "losing", "letters", executor="slurm", **options)
    assert (len(outcome.results), outcome.failures) == (4, ())
    assert [
        line
        for line in bench.log.lines
        if "DeviceError: this process can no longer use the GPU: CUDA" in line
    ]


def test_submission_errors_of_slurm_are_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("srun", "sbatch"):
        program = tmp_path / "bin" / name
        program.write_text(
            "#!/bin/sh\necho 'sbatch: error: invalid partition specified: moon' >&2\nexit 1\n"
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(
        mirrorbench_slurm.SlurmError, match="invalid partition specified: moon"
    ) as caught:
        bench.run("there", "letters", executor="slurm", partition="moon")
    assert "slurm:partition=" in caught.value.hint
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(mirrorbench_slurm.SlurmError, match="Slurm cannot be used here") as caught:
        bench.run("there", "letters", executor="slurm")
    assert "cluster=local" in caught.value.hint


def test_wrong_executor_options_are_rejected(bench: Bench) -> None:
    for options, message in (
        ({"partitoin": "gpu"}, "unknown executor option 'partitoin'"),
        ({"cluster": "moon"}, "knows no cluster 'moon'"),
        ({"cluster": "local", "workers": 0}, "workers=0"),
        ({"cluster": "local", "groups": -1}, "groups=-1"),
    ):
        with pytest.raises(UsageError, match=message):
            bench.run("there", "letters", executor="slurm", **options)


@pytest.mark.full
def test_interrupted_run_resumes_with_the_same_command(
    bench: Bench, interrupted: Callable[..., Callable[[], tuple[str, str]]]
) -> None:
    go_on = interrupted("--executor", "slurm:cluster=local", "--workers", "2")
    leases = bench.folder / "results" / ".leases"
    deadline = time.monotonic() + 60
    while list(leases.iterdir()):  # the cancelled job gives its own back
        assert time.monotonic() < deadline
        time.sleep(0.1)
    printed, without_the_executor = go_on()
    assert printed == without_the_executor


def test_local_jobs_use_this_machines_gpus(bench: Bench) -> None:
    """This machine has no GPU; a node of Slurm may have some."""
    assert bench.planned("letters", "slurm:partition=gpu,gpus=1", "auto")[0] == "cuda"
    assert bench.planned("letters", "slurm:cluster=local", "auto")[0] == "cpu"
    with pytest.raises(UsageError, match="device='cuda': "):
        bench.planned("letters", "slurm:cluster=local,gpus=1", "auto")
