"""What an encoder is in use."""

from __future__ import annotations

import pytest
from helpers.stored_results import stored

from mirrorbench.core.truncation import Truncation
from mirrorbench.own_data.in_use import InUse


@pytest.mark.parametrize(
    ("spec", "dimensions", "n_bytes"),
    [
        ("tiny", 256, 1024),
        ("tiny:dims=32,type=int8", 32, 32),
        ("tiny:dims=12,type=binary", 12, 2),
        ("tiny:post=whiten", 256, 1024),
    ],
)
def test_size_of_a_vector_follows_from_its_numbers(
    spec: str, dimensions: int, n_bytes: int
) -> None:
    result = stored(spec, "./a.csv", 0.5, encoder={"dimensions": dimensions})
    own = InUse.of([result], ())
    assert (own.dimensions, own.bytes_per_vector, own.texts_per_second) == (
        dimensions,
        n_bytes,
        None,
    )


def test_speed_covers_this_run_and_texts_all_data() -> None:
    def result(task: str, cut: int, speed: float | None) -> object:
        counts = {"truncation": Truncation(cut, 50, 8).to_json()} if cut else {}
        cost = {"encoding": {"texts_per_second": speed}} if speed else {}
        encoder = {"dimensions": 8, "texts": 50, **counts}
        return stored("tiny", task, 0.5, encoder=encoder, cost=cost)

    results = [result("./a", 5, 70.0), result("./b", 0, 90.0), result("./c", 0, None)]
    own = InUse.of(results, [results[0].cell_id, results[2].cell_id])
    assert (own.texts_per_second, own.texts, own.cut) == (70.0, 150, 5)
    assert own.share_cut == pytest.approx(1 / 30)


def test_share_of_cut_texts_is_unknown_if_one_data_set_does_not_tell() -> None:
    results = []
    for task, truncation in (
        ("./a", Truncation(5, 50, 8)),
        ("./b", Truncation(1, 50, 0, unknown=True)),
    ):
        encoder = {"dimensions": 8, "texts": 50, "truncation": truncation.to_json()}
        results.append(stored("tiny", task, 0.5, encoder=encoder))
    assert InUse.of(results, ()).share_cut is None
