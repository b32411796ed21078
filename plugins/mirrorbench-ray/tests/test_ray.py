from __future__ import annotations

from typing import Any

import mirrorbench_ray
import pytest

from mirrorbench.errors import UsageError

TUNED = "tiny+mirror:batch_size=6"


@pytest.fixture
def with_ray(bench: Any) -> Any:
    if "ray" not in bench.plugins.executors:  # installed, it has registered itself
        bench.plugins.add(mirrorbench_ray, "ray")
    return bench


def test_two_workers_of_which_one_is_killed_give_what_this_process_gives(with_ray: Any) -> None:
    (with_ray.folder / "died").touch()  # so that it lives here, in the process of the tests
    expected = with_ray.run("here", "letters", "dying", TUNED)
    (with_ray.folder / "died").unlink()
    outcome = with_ray.run("there", "letters", "dying", "broken", TUNED, executor="ray", workers=2)
    assert (with_ray.folder / "died").exists()
    assert with_ray.stored("there") == with_ray.stored("here")
    assert [r.cell_id for r in outcome.results] == [r.cell_id for r in expected.results]
    assert [failure.reason for failure in outcome.failures] == ["RuntimeError: it broke"]
    assert len(list((with_ray.folder / "there-cache" / "models").iterdir())) == 2
    again = with_ray.run("there", "letters", "dying", TUNED, executor="ray", workers=2)
    assert (again.computed, len(again.results)) == (0, 4)


def test_a_cluster_that_is_not_there(with_ray: Any) -> None:
    with pytest.raises(mirrorbench_ray.RayError, match=r"no Ray cluster at 127\.0\.0\.1:1") as caught:
        with_ray.run("there", "letters", executor="ray", address="127.0.0.1:1")
    assert "ray start --head" in caught.value.hint


def test_an_unknown_option(with_ray: Any) -> None:
    with pytest.raises(UsageError, match="unknown executor option 'gpu'") as caught:
        with_ray.run("there", "letters", executor="ray", gpu=1)
    assert "gpus" in caught.value.hint


def test_ctrl_c_ends_cleanly_and_the_same_command_goes_on(bench: Any, command: Any, interrupted: Any) -> None:
    cells = ("run", "-t", "cats", "-e", "letters", "-e", "blocking")
    there = (*cells, "--executor", "ray", "--workers", "2")
    code, err = interrupted(*there, stored=1)
    assert code == 130
    assert "Traceback" not in err
    assert err.count("Interrupted. What is done is stored in results; the same command goes on from there.") == 1
    first = bench.folder / "results" / "letters" / "cats" / "seed-0.json"
    kept = first.read_bytes()
    (bench.folder / "go").touch()
    out, err = command(*there).communicate(timeout=240)
    assert "2 results in results, 1 of them from earlier runs" in err
    assert first.read_bytes() == kept
    straight = command(*cells, "-o", "straight", MIRRORBENCH_CACHE=str(bench.folder / "fresh"))
    assert straight.communicate(timeout=120)[0] == out
    assert bench.stored("results") == bench.stored("straight")
