from __future__ import annotations

from collections.abc import Callable

import mirrorbench_ray
import pytest
import ray
from harness.executors import Bench

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.plan import Request
from mirrorbench.runs.workspace import Workspace

TUNED = "tiny+mirror:batch_size=6"


@pytest.mark.slow
def test_two_workers_of_which_one_is_killed_give_what_this_process_gives(bench: Bench) -> None:
    (bench.folder / "calls").write_text("dying\n")  # so that it lives here, in the process of the tests
    expected = bench.run("here", "letters", "dying", TUNED)
    (bench.folder / "calls").unlink()
    outcome = bench.run("there", "letters", "dying", "broken", TUNED, executor="ray", workers=2)
    assert (bench.folder / "calls").read_text().count("dying") == 2
    assert bench.stored("there") == bench.stored("here")
    assert [r.cell_id for r in outcome.results] == [r.cell_id for r in expected.results]
    assert [failure.reason for failure in outcome.failures] == 2 * ["RuntimeError: it broke [down]"]
    assert len(list((bench.folder / "there-cache" / "models").iterdir())) == 2
    again = bench.run("there", "letters", "dying", TUNED, executor="ray", workers=2)
    assert (again.computed, len(again.results)) == (0, 2 * 4)


@pytest.mark.full
def test_a_worker_that_loses_the_gpu_gets_no_other_task(bench: Bench) -> None:
    outcome = bench.run("there", "losing", "letters", executor="ray", workers=1, cpus=3)  # more than one task at 1 CPU
    assert (len(outcome.results), outcome.failures) == (4, ())
    assert len(list(bench.folder.glob("lost-*"))) == 1


@pytest.mark.slow
def test_a_cluster_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(mirrorbench_ray.RayError, match=r"no Ray cluster at 127\.0\.0\.1:1") as caught:
        bench.run("there", "letters", executor="ray", address="127.0.0.1:1")
    assert "ray start --head" in caught.value.hint


@pytest.mark.slow
def test_an_unknown_option(bench: Bench) -> None:
    with pytest.raises(UsageError, match="unknown executor option 'gpu'") as caught:
        bench.run("there", "letters", executor="ray", gpu=1)
    assert "gpus" in caught.value.hint


@pytest.mark.slow
def test_a_negative_number_of_workers(bench: Bench) -> None:
    with pytest.raises(UsageError, match="no negative number"):
        bench.run("there", "letters", executor="ray", workers=-1)


@pytest.mark.slow
def test_what_this_machine_has_not_is_not_waited_for(bench: Bench) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workspace, "planned_device", "cuda")  # as on a machine with some GPUs
        with pytest.raises(UsageError, match="this machine has not the 1 CPUs and 1000 GPUs"):
            bench.run("there", "letters", executor="ray", gpus=1000)


@pytest.mark.full
def test_ctrl_c_ends_cleanly_and_the_same_command_goes_on(
    interrupted: Callable[..., Callable[[], tuple[str, str]]],
) -> None:
    go_on = interrupted("--executor", "ray", "--workers", "2")
    printed, without_the_executor = go_on()
    assert printed == without_the_executor


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "device", "planned", "precision"),
    [
        ("ray:address=head:6379", "auto", "cpu", "fp32"),
        ("ray:address=head:6379", "cuda", "cuda", "bf16"),
        ("ray:address=head:6379,gpus=0.5", "auto", "cuda", "bf16"),
        ("ray:address=head:6379,gpus=1", "cuda:1", "sees only the GPUs that it is given", ""),
        ("ray", "auto", "cpu", "fp32"),
        ("ray:gpus=1", "auto", "--device cuda: ", ""),  # a cluster of our own has this machine's GPUs
    ],
)
def test_what_is_planned_on_a_machine_without_a_gpu(
    bench: Bench, executor: str, device: str, planned: str, precision: str
) -> None:
    if not precision:
        with pytest.raises(UsageError, match=planned):
            bench.planned(TUNED, executor, device)
        return
    assert bench.planned(TUNED, executor, device) == (planned, {"tuning": precision, "encoding": "fp32"})


@pytest.mark.full
def test_a_worker_whose_gpu_torch_does_not_see_computes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that has a GPU as far as Ray knows, and a run that was planned for it."""
    workspace = Workspace.create(
        bench.folder / "data", bench.folder / "there", bench.folder / "cache", offline=True, plugins=bench.plugins,
        executor="ray:gpus=1",
    )  # fmt: skip
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "99")  # no machine has as many
    ray.init(num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        outcome = workspace.execute(workspace.plan(Request((parse_spec("letters"),), ("cats", "dogs"))))
    finally:
        ray.shutdown()
    assert not outcome.results
    reasons = {failure.reason for failure in outcome.failures}
    assert len(reasons) == 1
    assert "is not what the run was planned for: --device cuda: " in reasons.pop()
