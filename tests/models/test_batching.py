from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.models.batching import equal_length_batches, even_batches, similar_length_batches


@given(st.lists(st.integers(0, 300)), st.integers(1, 1000), st.just(0) | st.integers(1, 300))
def test_each_index_once_and_within_the_budget(lengths: list[int], budget: int, fixed: int) -> None:
    batches = list(similar_length_batches(lengths, budget, fixed))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        width = fixed or max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * width <= budget


def test_alike_lengths_share_a_batch_longest_first() -> None:
    assert list(similar_length_batches([3, 9, 3, 10], budget=20)) == [[3, 1], [0, 2]]


def test_a_text_over_the_budget_is_a_batch_of_its_own() -> None:
    assert list(similar_length_batches([50, 2, 2], budget=10)) == [[0], [1, 2]]


def test_equal_inputs_give_equal_batches() -> None:
    assert list(similar_length_batches([5] * 7, budget=15)) == [[0, 1, 2], [3, 4, 5], [6]]


@given(st.lists(st.integers(1, 60)), st.integers(1, 400), st.integers(0, 50))
def test_padding_never_costs_more_than_another_pass(lengths: list[int], budget: int, pass_cost: int) -> None:
    for batch in similar_length_batches(lengths, budget, pass_cost=pass_cost):
        longest = lengths[batch[0]]
        assert sum(longest - lengths[index] for index in batch) <= pass_cost


def test_a_batch_ends_where_padding_would_cost_more() -> None:
    lengths = [9, 8, 8, 3, 3, 3]
    assert list(similar_length_batches(lengths, budget=100, pass_cost=2)) == [[0, 1, 2], [3, 4, 5]]
    assert list(similar_length_batches(lengths, budget=100, pass_cost=1)) == [[0], [1, 2], [3, 4, 5]]
    assert list(similar_length_batches(lengths, budget=100, pass_cost=20)) == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("budget", [1, 10])
def test_nothing_makes_no_batch(budget: int) -> None:
    assert list(similar_length_batches([], budget)) == []


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
    assert all(len(batch) == 1 or sum(lengths[index] for index in batch) <= budget for batch in batches)
    shortest = [min(lengths[index] for index in batch) for batch in batches]
    longest = [max(lengths[index] for index in batch) for batch in batches]
    assert all(before >= after for before, after in zip(shortest, longest[1:], strict=False))


@given(st.lists(st.integers(1, 60), min_size=50), st.integers(200, 1000))
def test_even_batches_differ_by_about_one_text(lengths: list[int], budget: int) -> None:
    sizes = [sum(lengths[index] for index in batch) for batch in even_batches(lengths, budget)]
    assert max(sizes) - min(sizes) <= 2 * max(lengths)


def test_even_batches_are_few_and_where_they_can_be_even_in_number() -> None:
    assert list(even_batches([10, 1, 1], 10)) == [[0], [1, 2]]
    assert list(even_batches([2, 4, 3, 3], 12)) == [[1, 2, 3, 0]]
    assert list(even_batches([2, 4, 2, 4], 6)) == [[1], [3], [0], [2]]
    assert list(even_batches([], 6)) == []
