"""Pools of real processes: shared resources, and the handling of lost workers and GPUs."""

from __future__ import annotations

import os
from multiprocessing import active_children, get_context
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import pytest
import torch
from helpers.executor_bench import Bench, Log, bench
from helpers.plugin_fixtures import Said, plugins, said
from helpers.workspace_parts import parts

from mirrorbench.core.errors import DeviceError
from mirrorbench.runs import pool
from mirrorbench.runs.executors import Job
from mirrorbench.runs.outcomes import Outcome
from mirrorbench.runs.pool import serve
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.worker_context import WorkerContext
from mirrorbench.runs.workspace import Workspace
from mirrorbench.storage.leases import Leases

__all__ = ["bench", "plugins", "said"]


@pytest.fixture
def plugin() -> ModuleType:
    return pool


def test_worker_ends_quietly_without_its_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = get_context("spawn").Pipe()
    theirs.send(
        "what nobody reads"
    )  # then the other end does not just end: the connection is reset
    ours.close()
    context = WorkerContext(
        Settings(tmp_path / "results", tmp_path, tmp_path / "cache", "cpu", offline=True), threads=1
    )
    monkeypatch.setattr("signal.signal", lambda *_: None)  # of this process, which lives on
    assert serve(theirs, context) is None  # and no exception


@pytest.mark.slow
def test_dying_workers_do_not_change_pool_results(bench: Bench) -> None:
    """Two workers; one encoder kills its worker every time, one raises; a worker is also asked to end."""
    good = ("letters", "ending")
    (bench.folder / "calls").write_text(
        "ending\n"
    )  # so that it lives here, in the process of the tests
    expected = bench.run("one", *good)
    assert (len(expected.results), expected.failures) == (2 * 2, ())
    (bench.folder / "calls").unlink()
    outcome = bench.run("pool", "deadly", "broken", *good, workers=2)
    assert bench.stored("pool") == bench.stored("one")
    assert [(r.spec, r.task, r.seed) for r in outcome.results] == [
        (r.spec, r.task, r.seed) for r in expected.results
    ]
    assert outcome.computed == len(outcome.results)
    reasons = {str(failure.spec): failure.reason for failure in outcome.failures}
    assert set(reasons) == {"deadly", "broken"}
    assert (
        "3 worker processes died while computing it, the last with exit code -9"
        in reasons["deadly"]
    )
    assert reasons["broken"].startswith("RuntimeError: it broke [down] (")
    assert (
        "deadly: its worker process died (exit code -9); another one tries again" in bench.log.lines
    )
    assert (
        "ending: its worker process died (exit code -15); another one tries again"
        in bench.log.lines
    )


def test_run_losing_the_gpu_stops_and_resumes(bench: Bench, said: Said) -> None:
    """Later encoders could only fail in this process, so ``ending`` is not tried."""
    cells = ("run", "-t", "cats,dogs", "-e", "letters", "-e", "losing", "-e", "ending", "--offline")
    code, _, err = said(*cells)
    assert (code, err.count("CUDA error: an illegal memory access"), "Traceback" in err) == (
        1,
        1,
        False,
    )
    assert "run the same command again to continue" in err
    calls = (bench.folder / "calls").read_text()
    assert (calls.count("losing"), calls.count("ending")) == (
        1,
        0,
    )  # nor is the encoder tried on one task alone
    assert len(list((bench.folder / "results").rglob("seed-0.json"))) == 2
    assert list((bench.folder / "results" / ".leases").iterdir()) == []
    (bench.folder / f"lost-{os.getpid()}").unlink()  # as in a new process
    (bench.folder / "calls").write_text("losing\nending\n")
    code, _, err = said(*cells)
    assert (code, "6 results in results, 2 of them from earlier runs" in err) == (0, True), err


@pytest.mark.slow
def test_worker_losing_the_gpu_is_replaced(bench: Bench) -> None:
    (bench.folder / "calls").write_text("losing\n")
    bench.run("one", "letters", "losing")
    (bench.folder / "calls").unlink()
    outcome = bench.run("pool", "losing", "letters", workers=2)
    assert bench.stored("pool") == bench.stored("one")
    assert (len(outcome.results), outcome.failures) == (2 * 2, ())
    assert len(list(bench.folder.glob("lost-*"))) == 1
    (note,) = (line for line in bench.log.lines if "another one tries again" in line)
    assert "this process can no longer use the GPU: " in note


FULL = """
import os, time, torch
from contextlib import suppress
from pathlib import Path
from mirrorbench import hookimpl

VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "RAYON_NUM_THREADS")

class Full:
    '''The first process that encodes finds no memory, whatever comes; the other waits until it lost two models.'''

    def __init__(self, name):
        self.fingerprint = name

    def encode(self, inputs):
        folder = Path(os.environ["LETTERS_FOLDER"])
        (folder / "said").write_text(repr([torch.get_num_threads(), *map(os.environ.get, VARIABLES)]))
        if self.fingerprint.startswith("killer"):
            (folder / f"refused-{self.fingerprint}").touch()
            raise torch.AcceleratorError("CUDA error: device-side assert triggered")
        with suppress(FileExistsError):
            (folder / "full").open("x").write(str(os.getpid()))
        if self.fingerprint == "large" or (folder / "full").read_text() == str(os.getpid()):
            (folder / f"refused-{self.fingerprint}").touch()
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        while self.fingerprint != "small" and len(list(folder.glob("refused-*"))) < 2:
            time.sleep(0.05)
        return [[float(len(item.text)), 1.0] for item in inputs]

@hookimpl
def register_encoders(register):
    for name in ("large", "small", "killer1", "killer2", "m1", "m2", "m3", "m4", "m5"):
        register(name, lambda spec, context, name=name: Full(name), "finds no memory")
"""
MODELS = ("m1", "m2", "m3", "m4", "m5")


@pytest.fixture
def full(bench: Bench) -> Bench:
    """A bench with encoders that find no memory in some process."""
    (bench.folder / "fulls.py").write_text(FULL)
    bench.plugins.add_file(bench.folder / "fulls.py")
    return bench


@pytest.mark.slow
def test_full_gpu_is_retired_without_losing_models(full: Bench) -> None:
    outcome = full.run("pool", *MODELS, workers=2)
    assert (len(outcome.results), outcome.failures) == (2 * len(MODELS), ())
    assert len(list(full.folder.glob("refused-*"))) == 2
    (note,) = (line for line in full.log.lines if "is not used any more" in line)
    assert note.endswith("it lost 2 models in a row (no memory left there)")
    (full.folder / "full").write_text("")
    full.run("one", *MODELS)
    assert full.stored("pool") == full.stored("one")


@pytest.mark.full
def test_oversized_model_fails_without_retiring_workers(full: Bench) -> None:
    (full.folder / "full").write_text("")
    outcome = full.run("pool", "large", "small", workers=2)
    assert len(outcome.results) == 2
    assert {(str(failure.spec), failure.task) for failure in outcome.failures} == {
        ("large", "cats"),
        ("large", "dogs"),
    }
    assert {failure.reason.partition(":")[0] for failure in outcome.failures} == {
        "OutOfMemoryError"
    }
    assert not [line for line in full.log.lines if "is not used any more" in line]


@pytest.mark.full
def test_gpu_crashing_models_fail_without_stopping_the_run(full: Bench) -> None:
    """The first worker loses both and is retired; the second one, which is the last, is not to blame for them."""
    (full.folder / "full").write_text("")
    outcome = full.run("pool", "killer1", "m1", "killer2", workers=2)
    assert [str(result.spec) for result in outcome.results] == ["m1", "m1"]
    assert {str(failure.spec) for failure in outcome.failures} == {"killer1", "killer2"}
    died = "3 worker processes died while computing it, the last with this process can no longer use the GPU: "
    assert all(failure.reason.startswith(died) for failure in outcome.failures)
    (note,) = (line for line in full.log.lines if "is not used any more" in line)
    assert note.startswith("worker 1 ")


@pytest.mark.full
def test_models_of_failed_gpus_go_to_others(bench: Bench) -> None:
    """This machine has no GPU, so their workers really cannot use them."""
    devices = ("cpu", "cuda:0", "cuda:1")
    names = ("letters", "dying", "ending", "losing", "blocking")
    (bench.folder / "calls").write_text("dying\nending\nlosing\n")
    (bench.folder / "go").touch()
    outcome = pooled(bench, devices, *names)
    assert (len(outcome.results), outcome.failures) == (2 * len(names), ())
    retired = [line.partition(" ")[0] for line in bench.log.lines if "is not used any more" in line]
    assert sorted(retired) == ["cuda:0", "cuda:1"]
    assert not [
        line for line in bench.log.lines if "another one tries again" in line
    ]  # at once, for no model's fault


@pytest.mark.full
def test_run_stops_when_all_gpus_fail(bench: Bench) -> None:
    (bench.folder / "calls").write_text("dying\nending\nlosing\n")
    with pytest.raises(DeviceError, match=r"cuda:[01]"):
        pooled(bench, ("cuda:0", "cuda:1"), "letters", "dying", "ending", "losing", "broken")
    assert active_children() == []
    assert not list((bench.folder / "pool").rglob("seed-*"))


def pooled(bench: Bench, devices: tuple[str, ...], *encoders: str) -> Outcome:
    """Run a plan for the CPU in a pool of workers on some devices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "worker_devices", lambda job: list(devices))
        return bench.run("pool", *encoders, workers=len(devices))


@pytest.mark.slow
def test_pooled_tuning_equals_single_process_tuning(
    full: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four threads: the gradients of four parts are added up, whose order shows in the weights."""
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "RAYON_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    (full.folder / "full").write_text("")
    (full.folder / "mine.txt").write_text(
        "".join(f"line number {n} {'of many ' * (n % 20)}\n" for n in range(24))
    )
    before = torch.get_num_threads()
    tuned = "tiny+mirror:batch_size=24,epochs=1"
    weights = {}
    try:
        for name, threads, workers in (("one", 4, 1), ("pool", 4, 2), ("other", 1, 1)):
            torch.set_num_threads(threads)
            assert full.run(name, tuned, *["small"] * (workers - 1), workers=workers).failures == ()
            files = (full.folder / f"{name}-cache").glob("models/*/model.safetensors")
            weights[name] = {path.parent.name: path.read_bytes() for path in files}
    finally:
        torch.set_num_threads(before)
    assert (full.folder / "said").read_text() == "[2, '2', 'PASSIVE', '2']"
    assert not {"OMP_NUM_THREADS", "OMP_WAIT_POLICY"} & os.environ.keys()
    assert weights["pool"] == weights["one"]
    assert weights["other"] != weights["one"]  # so that it was worth the care


@pytest.mark.full
def test_pool_reports_waiting_for_another_process(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Leases(bench.folder / "pool" / ".leases").take(bench.model_key("letters"))
    assert lease is not None

    class Releasing(Log):
        def note(self, message: str) -> None:
            super().note(message)
            lease.__exit__(None, None, None)

    monkeypatch.setattr("helpers.executor_bench.Log", Releasing)
    assert len(bench.run("pool", "letters", workers=2).results) == 2
    assert (
        bench.log.lines[0]
        == "another process is computing the remaining cells; waiting for its results"
    )


def test_user_environment_overrides_worker_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    before = dict(os.environ)
    with pool._default_environment(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE"):
        assert dict(os.environ) == before | {"OMP_WAIT_POLICY": "PASSIVE"}
    assert dict(os.environ) == before


def test_workers_on_one_gpu_share_its_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    spawning = MagicMock()
    spawning.Pipe.return_value = MagicMock(), MagicMock()
    monkeypatch.setattr(pool, "get_context", lambda how: spawning)
    workspace = Workspace(Settings(data_dir=bench.folder / "data", device="cpu"), bench.plugins)
    devices = ("cuda:0", "cuda:1", "cuda:0")
    plugins, folders, compute, reporter = parts(workspace)
    job = Job((), {}, workspace.context(), {}, reporter, plugins, folders, compute)
    made = pool.Pool(job, devices)
    for device in devices:
        made._start(device, device)
    contexts = [call.kwargs["args"][1] for call in spawning.Process.call_args_list]
    assert [(context.settings.device, context.share) for context in contexts] == list(
        zip(devices, (0.5, 1, 0.5), strict=True)
    )
