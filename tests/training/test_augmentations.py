"""Augmentations of strings and token ids: their changes and frequencies."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorbench.core.errors import UsageError
from mirrorbench.training.augmentations import (
    AugmentationContext,
    span_mask,
    token_mask,
    word_mask,
    word_shuffle,
)

TOKEN = "<mask>"
MASK = 4
SPECIAL = frozenset({0, 1, 2, 3, 4})
solid = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=80)
rates = st.floats(0.01, 0.99)
seeds = st.integers(0, 10_000)


@settings(max_examples=50)
@given(solid, st.integers(1, 10), st.integers(0, 99))
def test_span_mask_replaces_k_consecutive_characters(text: str, k: int, seed: int) -> None:
    masked = span_mask(text, view(k, seed))
    if len(text) <= k:
        assert masked == text
        return
    left, token, right = masked.partition(TOKEN)
    assert token == TOKEN
    left = left.removesuffix(" ")
    right = right.removeprefix(" ")
    assert len(left) + len(right) == len(text) - k
    assert text.startswith(left)
    assert text.endswith(right)


@settings(max_examples=50)
@given(st.text("ab", min_size=25, max_size=60), st.integers(1, 10), st.integers(0, 99))
def test_released_span_mask_cuts_at_first_occurrence(text: str, k: int, seed: int) -> None:
    masked = span_mask(text, view(k, seed, "released"))
    if len(text) < 30:
        assert masked == text
        return
    drawn = np.random.default_rng(seed).integers(len(text) - k)
    left, right = text.split(text[drawn : drawn + k], 1)
    assert masked == f"{left} [MASK] {right}".strip()


@pytest.mark.parametrize(
    ("protocol", "token", "text", "most"),
    [
        ("paper", TOKEN, "abcdefghij" * 4, 36),
        # The released cut is at the first occurrence and never at the end.
        ("released", "[MASK]", "abcdefghij" * 4, 10),
        ("released", "[MASK]", "".join(map(chr, range(0x4E00, 0x4E00 + 40))), 35),
    ],
)
def test_span_starts_are_uniform_within_protocol_range(
    protocol: str, token: str, text: str, most: int
) -> None:
    made = view(5, 0, protocol)
    actual = Counter(
        len(span_mask(text, made).partition(token)[0].removesuffix(" ")) for _ in range(40 * most)
    )
    assert set(actual) == set(range(most))
    assert min(actual.values()) > 18  # 40 expected


def view(rate: float = 5, seed: int = 0, protocol: str = "paper") -> AugmentationContext:
    return AugmentationContext(
        np.random.default_rng(seed), rate, TOKEN, protocol, mask_id=MASK, special_ids=SPECIAL
    )


@pytest.mark.parametrize("k", [1, 3])
def test_word_shuffle_moves_words_at_most_k_places(k: int) -> None:
    made = view(k)
    words = np.arange(20)
    shuffled = np.array(
        [word_shuffle(" ".join(map(str, words)), made).split() for _ in range(500)], dtype=int
    )
    assert (np.sort(shuffled) == words).all()
    assert np.abs(shuffled - words).max() == k
    assert np.mean(shuffled != words) > 0.2


def test_mask_has_spaces_and_fractional_rates_are_rejected() -> None:
    assert {span_mask("abcd", view(3, seed)) for seed in range(20)} == {"<mask> d", "a <mask>"}
    for function in (span_mask, word_shuffle):
        with pytest.raises(UsageError, match=rf"{function.__name__}=2\.5 is not a whole number"):
            function("a long enough text", view(2.5))


@settings(max_examples=50)
@given(st.lists(st.integers(0, 50)), rates, seeds)
def test_token_mask_keeps_length_specials_and_one_token(
    ids: list[int], rate: float, seed: int
) -> None:
    before = list(ids)
    masked = token_mask(ids, view(rate, seed))
    assert ids == before
    assert len(masked) == len(ids)
    assert all(new in (old, MASK) for old, new in zip(ids, masked, strict=True))
    assert all(new == old for old, new in zip(ids, masked, strict=True) if old in SPECIAL)
    text = [token for token in ids if token not in SPECIAL]
    assert not text or any(token not in SPECIAL for token in masked)


@settings(max_examples=50)
@given(st.text(), rates, seeds)
def test_word_mask_masks_whole_words_but_not_all(text: str, rate: float, seed: int) -> None:
    masked = word_mask(text, view(rate, seed))
    words = text.split()
    assert all(new in (old, TOKEN) for old, new in zip(words, masked.split(), strict=True))
    assert not words or any(old == new for old, new in zip(words, masked.split(), strict=True))


def test_masked_share_equals_the_rate() -> None:
    ids = [2, *range(10, 40), 3]
    text = " ".join(f"w{i}" for i in range(30))
    of_ids = view(0.2)
    of_text = view(0.15)
    shares = [
        (token_mask(ids, of_ids).count(MASK), word_mask(text, of_text).count(TOKEN))
        for _ in range(1000)
    ]
    assert np.mean(shares, axis=0) / 30 == pytest.approx([0.2, 0.15], abs=0.01)
