"""The executor ``ray`` on a cluster that it starts on this machine."""

from __future__ import annotations

from collections.abc import Callable

import mirrorbench_ray
import pytest
from helpers.executor_bench import Bench

from mirrorbench.plugin import UsageError

TUNED = "tiny+mirror:batch_size=6"


@pytest.mark.slow
def test_killed_worker_does_not_change_results(bench: Bench) -> None:
    (bench.folder / "calls").write_text(
        "dying\n"
    )  # so that it lives here, in the process of the tests
    expected = bench.run("here", "letters", "dying", TUNED)
    (bench.folder / "calls").unlink()
    outcome = bench.run("there", "letters", "dying", "broken", TUNED, executor="ray", workers=2)
    assert (bench.folder / "calls").read_text().count("dying") == 2
    assert bench.stored("there") == bench.stored("here")
    assert [r.cell_id for r in outcome.results] == [r.cell_id for r in expected.results]
    reasons = [failure.reason.partition(" (")[0] for failure in outcome.failures]
    assert reasons == 2 * ["RuntimeError: it broke [down]"]
    assert len(list((bench.folder / "there-cache" / "models").iterdir())) == 2


@pytest.mark.full
def test_worker_losing_the_gpu_gets_no_further_task(bench: Bench) -> None:
    outcome = bench.run(
        "there", "losing", "letters", executor="ray", workers=1, cpus=3
    )  # more than one task at 1 CPU
    assert (len(outcome.results), outcome.failures) == (4, ())
    assert len(list(bench.folder.glob("lost-*"))) == 1


def test_wrong_address_and_options_are_rejected(bench: Bench) -> None:
    with pytest.raises(
        mirrorbench_ray.RayError, match=r"no Ray cluster at 127\.0\.0\.1:1"
    ) as caught:
        bench.run("there", "letters", executor="ray", address="127.0.0.1:1")
    assert "ray start --head" in caught.value.hint
    with pytest.raises(UsageError, match="unknown executor option 'gpu'") as wrong:
        bench.run("there", "letters", executor="ray", gpu=1)
    assert "gpus" in wrong.value.hint
    with pytest.raises(UsageError, match="no negative number"):
        bench.run("there", "letters", executor="ray", workers=-1)


@pytest.mark.full
def test_interrupted_run_resumes_with_the_same_command(
    interrupted: Callable[..., Callable[[], tuple[str, str]]],
) -> None:
    go_on = interrupted("--executor", "ray", "--workers", "2")
    printed, without_the_executor = go_on()
    assert printed == without_the_executor


def test_local_cluster_uses_this_machines_gpus(bench: Bench) -> None:
    """This machine has no GPU; another cluster may have some."""
    assert bench.planned("letters", "ray:address=head:6379,gpus=0.5", "auto")[0] == "cuda"
    assert bench.planned("letters", "ray", "auto")[0] == "cpu"
    with pytest.raises(UsageError, match="device='cuda': "):
        bench.planned("letters", "ray:gpus=1", "auto")
