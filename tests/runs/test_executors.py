from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import active_children, get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from harness.executors import Bench, Log, bench
from harness.fixtures import Said, plugins, said

from mirrorbench import hookimpl
from mirrorbench.core.devices import worker_device
from mirrorbench.core.errors import UsageError
from mirrorbench.core.files import Leases
from mirrorbench.core.specs import Value, parse_spec
from mirrorbench.runs import executors
from mirrorbench.runs.cells import Failure, ModelRef
from mirrorbench.runs.executors import Job, compute, devices_for, serve
from mirrorbench.runs.plan import Plan, Request
from mirrorbench.runs.workspace import WorkerContext, Workspace

__all__ = ["bench", "plugins", "said"]


@pytest.fixture
def plugin() -> ModuleType:
    """The executor ``local`` is tested as those of plugins are."""
    return executors


@pytest.mark.real
def test_a_worker_ends_quietly_when_the_pool_is_gone_without_having_listened(tmp_path: Path) -> None:
    spawning = get_context("spawn")
    ours, theirs = spawning.Pipe()
    context = WorkerContext(tmp_path, tmp_path / "results", tmp_path / "cache", "cpu", (), offline=True, threads=1)
    process = spawning.Process(target=serve, args=(theirs, context))
    theirs.send("what nobody reads")  # then the other end does not just end: the connection is reset
    process.start()
    theirs.close()
    ours.close()
    process.join(timeout=120)
    assert process.exitcode == 0


STUBBORN = """
import os, signal, time
from pathlib import Path
from mirrorbench import hookimpl
from mirrorbench.core.files import writing

class Stubborn:
    fingerprint = "stubborn"

    def encode(self, inputs):
        folder = Path(os.environ["LETTERS_FOLDER"])
        with writing(folder / "pool" / "stubborn" / "cats" / "seed-0.npz") as half:
            while True:
                try:
                    (folder / "waiting").touch()
                    time.sleep(1)
                except BaseException:
                    pass

@hookimpl
def register_encoders(register):
    register("stubborn", lambda spec, context: Stubborn(), "ends for nobody")
"""


@pytest.mark.real
def test_a_pool_that_is_given_up_ends_its_workers_whatever_they_do_and_clears_up_behind_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that passes over every exception holds a lease and has a file half-written."""
    (bench.folder / "stubborn.py").write_text(STUBBORN)
    bench.plugins.add_file(bench.folder / "stubborn.py")

    class GivenUp(Log):
        def cell(self, *args: Any, **kwargs: Any) -> None:
            while not (bench.folder / "waiting").exists():
                time.sleep(0.01)
            assert list((bench.folder / "pool").rglob(".part-*"))
            raise KeyboardInterrupt

    monkeypatch.setattr("harness.executors.Log", GivenUp)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        bench.run("pool", "letters", "stubborn", workers=2)
    assert time.monotonic() - began < 60
    assert active_children() == []
    left = {path.name for path in (bench.folder / "pool").rglob("*") if path.is_file()}
    assert left == {"seed-0.json", "seed-0.npz"}  # of letters


@pytest.mark.real
def test_a_pool_gives_what_this_process_gives_whatever_dies(bench: Bench) -> None:
    """Two workers; one encoder kills its worker once, one every time, one raises; a worker is also asked to end."""
    good = ("letters", "dying", "ending", "tiny+mirror:batch_size=6")
    (bench.folder / "calls").write_text("dying\nending\n")  # so that they live here, in the process of the tests
    expected = bench.run("one", *good)
    assert (len(expected.results), expected.failures) == (3 * 2 + 2 * 2, ())
    (bench.folder / "calls").unlink()
    outcome = bench.run("pool", "deadly", "broken", *good, workers=2)
    assert bench.stored("pool") == bench.stored("one")
    assert [(r.spec, r.task, r.seed) for r in outcome.results] == [(r.spec, r.task, r.seed) for r in expected.results]
    assert outcome.computed == len(outcome.results)
    reasons = {str(failure.spec): failure.reason for failure in outcome.failures}
    assert set(reasons) == {"deadly", "broken"}
    assert "3 worker processes died at it, the last with exit code -9" in reasons["deadly"]
    assert reasons["broken"] == "RuntimeError: it broke [down]"
    assert [note for note in bench.log.lines if note.startswith("dying: its worker process died")]
    assert "ending: its worker process died (exit code -15); another one tries again" in bench.log.lines


def test_a_run_that_loses_the_gpu_stops_and_the_same_command_goes_on(bench: Bench, said: Said) -> None:
    """What would come after it in this process could only fail: ``ending`` is not tried."""
    cells = ("run", "-t", "cats,dogs", "-e", "letters", "-e", "losing", "-e", "ending", "--offline")
    code, _, err = said(*cells)
    assert (code, err.count("CUDA error: an illegal memory access"), "Traceback" in err) == (1, 1, False)
    assert "the same command goes on from there" in err
    calls = (bench.folder / "calls").read_text()
    assert (calls.count("losing"), calls.count("ending")) == (1, 0)  # nor is the encoder tried on one task alone
    assert len(list((bench.folder / "results").rglob("seed-0.json"))) == 2
    assert list((bench.folder / "results" / ".leases").iterdir()) == []
    (bench.folder / f"lost-{os.getpid()}").unlink()  # as in a new process
    (bench.folder / "calls").write_text("losing\nending\n")
    code, _, err = said(*cells)
    assert (code, "6 results in results, 2 of them from earlier runs" in err) == (0, True), err


@pytest.mark.real
def test_a_worker_that_loses_the_gpu_is_replaced(bench: Bench) -> None:
    (bench.folder / "calls").write_text("losing\n")
    expected = bench.run("one", "letters", "losing")
    (bench.folder / "calls").unlink()
    outcome = bench.run("pool", "lost", "losing", "letters", workers=2)
    assert bench.stored("pool") == bench.stored("one")
    assert len(outcome.results) == len(expected.results) == 2 * 2
    (reason,) = {failure.reason for failure in outcome.failures}
    assert reason.startswith("3 worker processes died at it, the last with this process can use the GPU no longer: ")
    assert len(list(bench.folder.glob("lost-*"))) == 3 + 1
    assert sum("another one tries again" in line for line in bench.log.lines) == 2 + 1


THREADS = """
import os, torch
from mirrorbench import hookimpl
from pathlib import Path

class Threads:
    fingerprint = "threads"

    def encode(self, inputs):
        names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "RAYON_NUM_THREADS")
        said = [torch.get_num_threads(), *(os.environ.get(name) for name in names)]
        (Path(os.environ["LETTERS_FOLDER"]) / "said").write_text(repr(said))
        return [[float(len(item.text)), 1.0] for item in inputs]

@hookimpl
def register_encoders(register):
    register("threads", lambda spec, context: Threads(), "says what it may use")
"""


@pytest.mark.real
def test_workers_share_the_cores_and_tune_as_one_process_does(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads: the gradients of four parts are added up, whose order shows in the weights."""
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "RAYON_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    (bench.folder / "threads.py").write_text(THREADS)
    bench.plugins.add_file(bench.folder / "threads.py")
    (bench.folder / "mine.txt").write_text("".join(f"line number {n} {'of many ' * (n % 40)}\n" for n in range(150)))
    before, tuned = torch.get_num_threads(), "tiny+mirror:batch_size=75"
    try:
        torch.set_num_threads(4)
        bench.run("one", tuned, "threads")
        assert bench.run("pool", tuned, "threads", workers=2).failures == ()
        torch.set_num_threads(1)
        bench.run("other", tuned)
    finally:
        torch.set_num_threads(before)
    assert (bench.folder / "said").read_text() == "[2, '2', 'PASSIVE', '2']"
    assert not {"OMP_NUM_THREADS", "OMP_WAIT_POLICY"} & os.environ.keys()
    assert bench.stored("pool") == bench.stored("one")
    weights = {}
    for name in ("one", "pool", "other"):
        files = (bench.folder / f"{name}-cache").glob("models/*/model.safetensors")
        weights[name] = {path.parent.name: path.read_bytes() for path in files}
    assert weights["pool"] == weights["one"]
    assert weights["other"] != weights["one"]  # so that it was worth the care


def test_variables_of_workers_give_way_to_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with executors._defaults(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE"):
        assert (os.environ["OMP_NUM_THREADS"], os.environ["OMP_WAIT_POLICY"]) == ("3", "PASSIVE")
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "OMP_WAIT_POLICY" not in os.environ


def test_workers_on_one_gpu_share_its_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[WorkerContext] = []

    class Spawning:
        Pipe = staticmethod(lambda: (Spawning, Spawning))
        close = start = staticmethod(lambda: None)

        def __new__(cls, target: Any, args: tuple[Any, WorkerContext], daemon: bool) -> Any:
            contexts.append(args[1])
            return cls

    Spawning.Process = Spawning  # type: ignore[attr-defined]
    monkeypatch.setattr(executors, "get_context", lambda how: Spawning)
    workspace = Workspace.create(bench.folder / "data", device="cpu", plugins=bench.plugins)
    job = Job((), {}, workspace.context(), {}, workspace.reporter, workspace)
    devices = ("cuda:0", "cuda:1", "cuda:0")
    pool = executors._Pool(job, devices)
    for device in devices:
        pool._start(device)
    assert [(context.device, context.share) for context in contexts] == [
        ("cuda:0", 0.5),
        ("cuda:1", 1),
        ("cuda:0", 0.5),
    ]


@pytest.mark.real
def test_a_pool_says_that_it_waits_for_another_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    key = ModelRef(parse_spec("letters"), "letters").key
    held = Leases(bench.folder / "pool" / ".leases").take(key)
    assert held is not None

    class Releasing(Log):
        def note(self, message: str) -> None:
            super().note(message)
            held.__exit__(None, None, None)

    monkeypatch.setattr("harness.executors.Log", Releasing)
    assert len(bench.run("pool", "letters", workers=2).results) == 2
    assert bench.log.lines[0] == "another process is at work on what is left; waiting for its results"


def test_one_worker_is_this_process(bench: Bench) -> None:
    bench.run("here", "letters")
    assert bench.log.lines == ["letters cats computed", "letters dogs computed"]
    bench.run("here", "letters")
    assert bench.log.lines == ["letters cats cached", "letters dogs cached"]


@pytest.mark.parametrize(("options", "message", "hint"), [
    ({"workers": -1}, "-1 workers", ""),
    ({"wrokers": 2}, "unknown executor option 'wrokers'", "workers"),
    ({"address": "auto"}, "unknown executor option 'address'", ""),
    ({"workers": "two"}, "executor option workers=two is not of type int", ""),
    ({"workers": True}, "is not of type int", ""),
])  # fmt: skip
def test_options_that_are_wrong(bench: Bench, options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        bench.run("none", "letters", **options)
    assert hint in caught.value.hint
    assert not (bench.folder / "none").exists()


def test_deterministic_reaches_torch_in_this_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever computes: ``load`` and ``tune`` leave models in the cache that a run takes."""
    asked = []
    monkeypatch.setattr("mirrorbench.core.devices.use_deterministic_algorithms", lambda: asked.append(1))
    for deterministic in (False, True):
        Workspace.create(device="cpu", deterministic=deterministic, plugins=bench.plugins).torch_device  # noqa: B018
        assert len(asked) == deterministic


def test_the_text_of_the_command_line(bench: Bench) -> None:
    made = Workspace.create(executor="local:workers=3,cpus=1", workers=2, address="auto", plugins=bench.plugins)
    assert (made.executor, made.options) == ("local", {"workers": 2, "cpus": 1, "address": "auto"})
    for text, message in (("lcoal", "unknown executor 'lcoal'"), ("local:workers", "is not KEY=VALUE")):
        with pytest.raises(UsageError, match=message):
            Workspace.create(executor=text, plugins=bench.plugins)


@pytest.mark.parametrize(("device", "gpus", "workers", "expected"), [
    ("cpu", 0, 0, ["cpu"]), ("cpu", 0, 3, ["cpu"] * 3), ("cuda", 1, 0, ["cuda:0"]),
    ("cuda", 3, 0, ["cuda:0", "cuda:1", "cuda:2"]), ("cuda", 2, 3, ["cuda:0", "cuda:1", "cuda:0"]),
    ("cuda:1", 3, 0, ["cuda:1"]), ("mps", 0, 0, ["mps"]),
])  # fmt: skip
def test_each_worker_has_a_device(
    monkeypatch: pytest.MonkeyPatch, device: str, gpus: int, workers: int, expected: list[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert devices_for(device, workers) == expected


@pytest.fixture
def elsewhere(bench: Bench, tmp_path: Path) -> Callable[..., Workspace]:
    """Workspaces under an executor whose workers are on other machines: ``elsewhere(options, **settings)``."""

    class Plugin:
        @hookimpl
        def register_executors(self, register: Callable[..., None]) -> None:
            def device(asked: str, options: Mapping[str, Value]) -> str:
                return worker_device(asked, options.get("gpus"))

            register("elsewhere", lambda job: iter(()), device=device)

    bench.plugins.add(Plugin(), "elsewhere")

    def workspace(options: str = "", **settings: Any) -> Workspace:
        return Workspace.create(
            bench.folder / "data", bench.folder / "there", bench.folder / "cache", offline=True, plugins=bench.plugins,
            executor=f"elsewhere:{options}".rstrip(":"), **settings,
        )  # fmt: skip

    return workspace


def planned(workspace: Workspace, bench: Bench) -> Plan:
    specs = (parse_spec("tiny+mirror:batch_size=6"), parse_spec("letters"))
    return workspace.plan(Request(specs, ("cats",), (0,), str(bench.folder / "mine.txt")))


@pytest.mark.parametrize(
    ("options", "settings", "device", "tuning"),
    [
        ("", {}, "cpu", "fp32"), ("gpus=1", {}, "cuda", "bf16"), ("", {"device": "cuda"}, "cuda", "bf16"),
        ("gpus=1", {"precision": "fp16"}, "cuda", "fp16"), ("gpus=0", {"precision": "bf16"}, "cpu", "bf16"),
    ],
)  # fmt: skip
def test_a_run_is_planned_for_the_gpus_of_workers_elsewhere(
    bench: Bench, elsewhere: Callable[..., Workspace], options: str, settings: dict[str, str], device: str, tuning: str
) -> None:
    """As on a login node without a GPU: this machine."""
    workspace = elsewhere(options, **settings)
    tuned, letters = planned(workspace, bench).cells
    assert workspace.context().device == device
    assert tuned.to_json()["precision"] == {"tuning": tuning, "encoding": "fp32"}
    assert letters.to_json()["precision"] == {"tuning": None, "encoding": "fp32"}
    assert str(workspace.torch_device) == "cpu"  # where this process opens encoders for their fingerprints


def test_a_gpu_by_its_number_is_no_gpu_of_a_worker_elsewhere(bench: Bench, elsewhere: Callable[..., Workspace]) -> None:
    with pytest.raises(UsageError, match="--device cuda:1: a worker of this executor sees only the GPUs"):
        planned(elsewhere(device="cuda:1"), bench)


def test_a_worker_without_what_was_planned_refuses(
    bench: Bench, elsewhere: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(options: str) -> Failure:
        workspace = elsewhere(options)
        cell = planned(workspace, bench).cells[0]
        (outcome,) = compute(workspace.context(), (cell,)).done
        assert isinstance(outcome.outcome, Failure)
        return outcome.outcome

    refused = answer("gpus=1")
    assert f"the worker on {platform.node()} is not what the run was planned for: --device cuda: " in refused.reason
    assert "gpus" in refused.hint
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "RTX 2080 Ti")
    old = answer("gpus=0.5")
    assert "RTX 2080 Ti has no bf16: its compute capability is 7.5" in old.reason
    assert "fp16" in old.hint
    assert not (bench.folder / "there").exists()


def test_what_was_tuned_without_repeating_algorithms_is_not_reused_under_them(
    bench: Bench, elsewhere: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU, where all algorithms repeat, both are one model; an encoder that is not tuned is the same anyway."""
    monkeypatch.setattr("mirrorbench.core.devices.use_deterministic_algorithms", lambda: None)  # of this process
    keys = {
        (options, deterministic): planned(elsewhere(options, deterministic=deterministic), bench).cells
        for options in ("gpus=0", "gpus=1")
        for deterministic in (False, True)
    }
    assert keys["gpus=0", True] == keys["gpus=0", False]
    for part in (lambda cell: cell.model.key, lambda cell: cell.id):
        assert part(keys["gpus=1", True][0]) != part(keys["gpus=1", False][0])
        assert part(keys["gpus=1", True][1]) == part(keys["gpus=1", False][1])


def test_an_executor_of_a_plugin_gets_groups_and_a_context_that_pickles(bench: Bench) -> None:
    import pickle

    jobs: list[Job] = []

    class Plugin:
        @hookimpl
        def register_executors(self, register: Callable[..., None]) -> None:
            def elsewhere(job: Job) -> Iterator[Any]:
                jobs.append(job)
                job.known(speed=1.0)
                job.share()
                for cells in reversed(job.groups):
                    answer = compute(*pickle.loads(pickle.dumps((job.context, cells))))
                    yield from pickle.loads(pickle.dumps(answer)).done

            register("elsewhere", elsewhere)

    bench.plugins.add(Plugin(), "elsewhere")
    there = bench.run("there", "letters", "tiny+mirror:batch_size=6", executor="elsewhere", speed=2)
    assert len(there.results) == 6
    assert len(jobs[0].groups) == 1 + 2
    here = bench.run("here", "letters", "tiny+mirror:batch_size=6")
    assert bench.stored("here") == bench.stored("there")
    assert [r.cell_id for r in here.results] == [r.cell_id for r in there.results]
