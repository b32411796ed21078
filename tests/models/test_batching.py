"""Batches hold each text once, and are made ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.models import batching
from mirrorbench.models.batching import even_batches, similar_length_batches


@given(
    st.lists(st.integers(0, 300)),
    st.integers(1, 1000),
    st.just(0) | st.integers(1, 300),
    st.integers(0, 50),
)
def test_batches_hold_each_text_once(
    lengths: list[int], budget: int, fixed: int, pass_cost: int
) -> None:
    similar = list(similar_length_batches(lengths, budget, fixed, pass_cost))
    equal = list(similar_length_batches(lengths, budget, fixed, 0))
    even = list(even_batches(lengths, budget))
    for batches in (similar, equal, even):
        indices = list(chain(*batches))
        assert sorted(indices) == list(range(len(lengths)))
        assert [lengths[index] for index in indices] == sorted(lengths, reverse=True)
    for batch in (*similar, *equal):
        width = fixed or lengths[batch[0]]
        assert len(batch) == 1 or len(batch) * width <= budget
    if not fixed:
        for batch in similar:
            width = max(1, lengths[batch[0]])
            padding = sum(width - lengths[index] for index in batch)
            assert padding <= max(pass_cost, len(batch))
        for batch in equal:
            assert len({max(1, lengths[index]) for index in batch}) == 1
    sizes = []
    for batch in even:
        sizes.append(sum(lengths[index] for index in batch))
    assert all(size <= budget + max(lengths) for size in sizes)
    if len(lengths) >= 50 and max(lengths) <= budget / 4:
        assert max(sizes) - min(sizes) <= 2 * max(lengths)


def test_batches_equal_examples_by_hand() -> None:
    for lengths, budget, pass_cost, expected in (
        ([3, 9, 3, 10], 20, 32, [[3, 1], [0, 2]]),  # longest first
        ([50, 2, 2], 10, 32, [[0], [1, 2]]),  # over the budget: a batch of its own
        ([9, 8, 8, 3, 3, 3], 100, 2, [[0, 1, 2], [3, 4, 5]]),  # ends where padding would cost more
        ([9, 8, 8, 3, 3, 3], 100, 1, [[0], [1, 2], [3, 4, 5]]),
        ([5, 5, 2, 5, 5, 5], 20, 0, [[0, 1, 3, 4], [5], [2]]),  # of one length
        ([], 10, 32, []),
    ):
        assert list(similar_length_batches(lengths, budget, pass_cost=pass_cost)) == expected
    assert list(even_batches([10, 1, 1], 10)) == [[0], [1, 2]]  # few
    assert list(even_batches([2, 4, 3, 3], 12)) == [[1, 2, 3, 0]]
    # Several batches are even in number.
    assert list(even_batches([2, 4, 2, 4], 6)) == [[1], [3, 0, 2]]
    assert list(even_batches([], 6)) == []


def prefetching() -> bool:
    return any(thread.name.startswith("mirrorbench-prefetch") for thread in threading.enumerate())


@pytest.mark.parametrize("n", [0, 20])
def test_prefetched_items_keep_their_order(n: int) -> None:
    """Another thread computes them; an error replaces its item."""
    makers = set()

    def items() -> Iterator[int]:
        for number in range(n):
            makers.add(threading.current_thread())
            yield number
        raise ValueError("broken")

    iterator = batching.prefetch(items(), n_ahead=2)
    assert [next(iterator) for _ in range(n)] == list(range(n))
    with pytest.raises(ValueError, match="broken"):
        next(iterator)
    assert len(makers - {threading.current_thread()}) == (n > 0)
    assert not prefetching()
    assert list(batching.prefetch(iter(range(n)), n_ahead=2)) == list(range(n))


def test_prefetching_is_bounded() -> None:
    made: list[int] = []
    ahead = threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                ahead.set()
            yield number

    with closing(batching.prefetch(items(), n_ahead=3)) as iterator:
        assert next(iterator) == 0
        assert ahead.wait(30)  # made though nobody has asked for it
        for number in range(1, 5):
            assert next(iterator) == number
            assert len(made) <= number + 1 + 3 + 1  # handed over, waiting, and one in the making
    assert not prefetching()  # who stops early leaves no thread behind
