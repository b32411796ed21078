from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.models.batching import Ragged, equal_length_batches, even_batches, prefetch, similar_length_batches

ROWS = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=8)


@given(ROWS, st.integers(0, 3), st.data())
def test_ragged_rows(rows: list[list[int]], extra: int, data: st.DataObject) -> None:
    ragged = Ragged.of(rows)
    assert [row.tolist() for row in ragged] == rows
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert (len(ragged), ragged.values.dtype) == (len(rows), np.int32)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10)) if rows else []
    assert [row.tolist() for row in ragged.take(chosen)] == [rows[i] for i in chosen]
    width = max(map(len, rows), default=0) + extra
    assert ragged.padded(width, -1).tolist() == [row + [-1] * (width - len(row)) for row in rows]
    assert ragged.mask(width).tolist() == [[i < len(row) for i in range(width)] for row in rows]


@given(st.lists(st.integers(0, 300)), st.integers(1, 1000), st.just(0) | st.integers(1, 300), st.integers(0, 50))
def test_similar_lengths(lengths: list[int], budget: int, fixed: int, pass_cost: int) -> None:
    batches = list(similar_length_batches(lengths, budget, fixed, pass_cost))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = lengths[batch[0]]
        assert longest == max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * (fixed or longest) <= budget
        assert fixed or sum(max(1, longest) - lengths[index] for index in batch) <= max(pass_cost, len(batch))


@pytest.mark.parametrize(
    ("lengths", "budget", "pass_cost", "expected"),
    [
        ([3, 9, 3, 10], 20, 32, [[3, 1], [0, 2]]),  # longest first
        ([50, 2, 2], 10, 32, [[0], [1, 2]]),  # over the budget: a batch of its own
        ([5] * 7, 15, 32, [[0, 1, 2], [3, 4, 5], [6]]),
        ([9, 8, 8, 3, 3, 3], 100, 2, [[0, 1, 2], [3, 4, 5]]),  # ends where padding would cost more
        ([9, 8, 8, 3, 3, 3], 100, 1, [[0], [1, 2], [3, 4, 5]]),
        ([9, 8, 8, 3, 3, 3], 100, 20, [[0, 1, 2, 3, 4, 5]]),
        ([], 10, 32, []),
    ],
)
def test_similar_lengths_by_hand(lengths: list[int], budget: int, pass_cost: int, expected: list[list[int]]) -> None:
    assert list(similar_length_batches(lengths, budget, pass_cost=pass_cost)) == expected


@given(st.lists(st.integers(0, 60)), st.integers(1, 400), st.just(0) | st.integers(60, 300))
def test_one_length_in_a_batch(lengths: list[int], budget: int, fixed: int) -> None:
    batches = list(equal_length_batches(lengths, budget, fixed))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    widths = [{lengths[index] for index in batch} for batch in batches]
    assert all(len(width) == 1 for width in widths)
    assert [min(width) for width in widths] == sorted((min(width) for width in widths), reverse=True)
    assert all(len(batch) == 1 or len(batch) * (fixed or lengths[batch[0]]) <= budget for batch in batches)


def test_batches_of_one_length_are_evenly_filled() -> None:
    assert list(equal_length_batches([5, 5, 2, 5, 5, 5], budget=20)) == [[0, 1, 3], [4, 5], [2]]


@given(st.lists(st.integers(1, 300)), st.integers(1, 1000))
def test_even_batches_hold_each_text_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(even_batches(lengths, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    sizes = [sum(lengths[index] for index in batch) for batch in batches]
    assert all(len(batch) == 1 or size <= budget for batch, size in zip(batches, sizes, strict=True))
    shortest = [min(lengths[index] for index in batch) for batch in batches]
    longest = [max(lengths[index] for index in batch) for batch in batches]
    assert all(before >= after for before, after in zip(shortest, longest[1:], strict=False))
    if len(lengths) >= 50 and max(lengths) <= budget / 4:
        assert max(sizes) - min(sizes) <= 2 * max(lengths)


def test_even_batches_are_few_and_where_they_can_be_even_in_number() -> None:
    assert list(even_batches([10, 1, 1], 10)) == [[0], [1, 2]]
    assert list(even_batches([2, 4, 3, 3], 12)) == [[1, 2, 3, 0]]
    assert list(even_batches([2, 4, 2, 4], 6)) == [[1], [3], [0], [2]]
    assert list(even_batches([], 6)) == []


def prefetching() -> bool:
    return any(thread.name.startswith("mirrorbench-prefetch") for thread in threading.enumerate())


@pytest.mark.parametrize("n", [0, 1, 50])
def test_prefetched_items_are_the_same_in_order(n: int) -> None:
    assert list(prefetch(iter(range(n)), room=2)) == list(range(n))
    assert not prefetching()


def test_items_are_made_in_another_thread_before_they_are_asked_for() -> None:
    made = threading.Event()
    makers: list[threading.Thread] = []

    def items() -> Iterator[int]:
        yield 1
        makers.append(threading.current_thread())
        made.set()
        yield 2

    iterator = prefetch(items())
    assert next(iterator) == 1
    assert made.wait(30)  # the second one is made though nobody has asked for it
    assert list(iterator) == [2]
    assert makers != [threading.current_thread()]


def test_no_more_than_there_is_room_for() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    with closing(prefetch(items(), room=3)) as iterator:
        for number in range(5):
            assert next(iterator) == number
            assert len(made) <= number + 1 + 3 + 1  # handed over, waiting, and one in the making
    assert not prefetching()  # who stops early leaves no thread behind


def test_an_error_comes_where_its_item_would_have() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    iterator = prefetch(items())
    assert next(iterator) == 1
    with pytest.raises(ValueError, match="broken"):
        next(iterator)
    assert not prefetching()
