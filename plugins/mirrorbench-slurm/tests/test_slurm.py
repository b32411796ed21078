from __future__ import annotations

import time
from typing import Any

import mirrorbench_slurm
import pytest

from mirrorbench.errors import UsageError

TUNED = "tiny+mirror:batch_size=6"


@pytest.fixture
def with_slurm(bench: Any) -> Any:
    if "slurm" not in bench.plugins.executors:  # installed, it has registered itself
        bench.plugins.add(mirrorbench_slurm, "slurm")
    return bench


@pytest.mark.parametrize("cluster", ["local", "debug"])
def test_jobs_give_what_this_process_gives(with_slurm: Any, cluster: str) -> None:
    """``local``: each job is a process, and one of them is killed; ``debug``: all in this one."""
    (with_slurm.folder / "died").touch()
    expected = with_slurm.run("here", "letters", "dying", TUNED)
    if cluster == "local":
        (with_slurm.folder / "died").unlink()
    options = {"cluster": cluster, "workers": 2, "groups": 2, "minutes": 5}
    outcome = with_slurm.run("there", "dying", "letters", "broken", TUNED, executor="slurm", **options)
    assert with_slurm.stored("there") == with_slurm.stored("here")
    assert {r.cell_id for r in outcome.results} == {r.cell_id for r in expected.results}
    assert [failure.reason for failure in outcome.failures] == ["RuntimeError: it broke"]
    assert sum("it is submitted again" in note for note in with_slurm.log.notes) == (cluster == "local")


def test_a_machine_without_slurm(with_slurm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(mirrorbench_slurm.SlurmError, match="Slurm cannot be used here") as caught:
        with_slurm.run("there", "letters", executor="slurm")
    assert "cluster=local" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [({"partitoin": "gpu"}, "unknown executor option 'partitoin'"), ({"cluster": "moon"}, "knows no cluster 'moon'")],
)
def test_options_that_are_wrong(with_slurm: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        with_slurm.run("there", "letters", executor="slurm", **options)


def test_ctrl_c_ends_cleanly_and_the_same_command_goes_on(bench: Any, command: Any, interrupted: Any) -> None:
    cells = ("run", "-t", "cats", "-e", "letters", "-e", "blocking")
    there = (*cells, "--executor", "slurm:cluster=local", "--workers", "2")
    code, err = interrupted(*there, stored=1)
    assert code == 130
    assert "Traceback" not in err
    assert err.count("Interrupted. What is done is stored in results; the same command goes on from there.") == 1
    first = bench.folder / "results" / "letters" / "cats" / "seed-0.json"
    kept = first.read_bytes()
    leases = bench.folder / "results" / ".leases"
    deadline = time.monotonic() + 60
    while list(leases.iterdir()):  # the cancelled job gives its own back
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (bench.folder / "go").touch()
    out, err = command(*there).communicate(timeout=240)
    assert "2 results in results, 1 of them from earlier runs" in err
    assert first.read_bytes() == kept
    straight = command(*cells, "-o", "straight", MIRRORBENCH_CACHE=str(bench.folder / "fresh"))
    assert straight.communicate(timeout=120)[0] == out
    assert bench.stored("results") == bench.stored("straight")
