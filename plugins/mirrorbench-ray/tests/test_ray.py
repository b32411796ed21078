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
