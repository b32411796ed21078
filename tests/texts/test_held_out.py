"""The held-out report against its definition, computed pair by pair."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mirrorbench.texts.held_out import evaluate_held_out, nearest_rows, positive_pairs, score_pairs, shortened


def by_definition(left: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Wang & Isola 2020, section 4.1, with loops."""
    left = [row / math.sqrt(sum(x * x for x in row)) for row in left.astype(float)]
    right = [row / math.sqrt(sum(x * x for x in row)) for row in right.astype(float)]
    n = len(left)
    alignment = sum(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x, y in zip(left, right, strict=True)) / n
    kernel = [
        math.exp(-2 * sum((a - b) ** 2 for a, b in zip(left[i], left[j], strict=True)))
        for i in range(n)
        for j in range(i)
    ]
    hits = [all(left[i] @ right[i] > left[i] @ right[j] for j in range(n) if j != i) for i in range(n)]
    return {"alignment": alignment, "uniformity": math.log(sum(kernel) / len(kernel)), "accuracy@1": sum(hits) / n}


def test_the_numbers_are_the_definition() -> None:
    rng = np.random.default_rng(0)
    left = rng.normal(size=(12, 5)).astype(np.float32)
    right = (left + rng.normal(size=(12, 5))).astype(np.float32)
    found = score_pairs(left, right)
    assert found == pytest.approx(by_definition(left, right), abs=1e-9)
    assert 0 < found["accuracy@1"] < 1


def test_identical_pairs_are_aligned_and_one_point_is_not_uniform() -> None:
    same = np.ones((4, 3), dtype=np.float32)
    assert score_pairs(same, same) == {"alignment": 0.0, "uniformity": pytest.approx(0), "accuracy@1": 0.0}


def test_a_repeated_text_is_no_hit() -> None:
    """Its own partner is as near as the other's, to the last bit or not."""
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 40, 96))
    left[20:], right[20:] = left[:20], right[:20] * np.arange(1, 21)[:, None] / 3
    left += 3 * right / np.linalg.norm(right, axis=1, keepdims=True)
    assert score_pairs(left, right)["accuracy@1"] == 0
    assert nearest_rows(np.concatenate([right, right]), 20) == list(range(20, 40))


def test_nearest_neighbours() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 2]], dtype=np.float32)
    assert nearest_rows(vectors, 3) == [1, 0, 3]


@pytest.mark.parametrize("text", ["a", "ab", "a longer text that says something", "語彙", "x" * 1000])
def test_a_cut_text_lacks_a_tenth(text: str) -> None:
    short = shortened(text, np.random.default_rng(1))
    assert short
    assert short == text if len(text) == 1 else len(text) - max(1, len(text) // 10) - 2 <= len(short) < len(text)


def test_the_positive_of_a_text_is_a_copy_and_that_of_a_pair_its_second_text() -> None:
    lines = [("some text",), ("other text",)]
    assert positive_pairs(lines, 3) == positive_pairs(lines, 3)
    assert [left for left, _ in positive_pairs(lines, 3)] == ["some text", "other text"]
    assert positive_pairs([("a", "b")], 3) == [("a", "b")]


def test_each_text_is_encoded_once() -> None:
    asked: list[str] = []

    class Letters:
        fingerprint = "x"

        def encode(self, inputs):
            asked.extend(item.text for item in inputs)
            return np.array([[item.text.count(c) + 0.1 for c in "abc"] for item in inputs], dtype=np.float32)

    _, neighbours = evaluate_held_out(Letters(), [("a", "aa"), ("b", "bb"), ("a", "c")])
    assert sorted(asked) == ["a", "aa", "b", "bb", "c"]
    assert neighbours == ["a", "a", "a"]
