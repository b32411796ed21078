"""Augmentations of strings and token ids: what they change, how often, and what they leave."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.core.errors import UsageError
from mirrorbench.training.augmentations import AugmentationContext
from mirrorbench.training.augmentations.text import span_mask, token_mask, word_mask, word_shuffle

TOKEN = "<mask>"
solid = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=80)


def span_view(k: float = 5, seed: int = 0, protocol: str = "paper", mask: str = TOKEN) -> AugmentationContext:
    return AugmentationContext(np.random.default_rng(seed), k, mask, protocol)


@given(solid, st.integers(1, 10), st.integers(0, 99))
def test_exactly_k_consecutive_characters_go(text: str, k: int, seed: int) -> None:
    masked = span_mask(text, span_view(k, seed))
    if len(text) <= k:
        assert masked == text
        return
    left, token, right = masked.partition(TOKEN)
    assert token == TOKEN
    left, right = left.removesuffix(" "), right.removeprefix(" ")
    assert len(left) + len(right) == len(text) - k
    assert text.startswith(left)
    assert text.endswith(right)


@given(solid, st.integers(1, 10), st.integers(0, 99))
def test_the_released_reading(text: str, k: int, seed: int) -> None:
    masked = span_mask(text, span_view(k, seed, "released"))
    if len(text) < 30:
        assert masked == text
        return
    drawn = np.random.default_rng(seed).integers(len(text) - k)
    left, right = text.split(text[drawn : drawn + k], 1)
    assert masked == f"{left} [MASK] {right}".strip()


def starts(text: str, k: int, protocol: str) -> Counter[int]:
    generator = np.random.default_rng(0)
    token = TOKEN if protocol == "paper" else "[MASK]"
    return Counter(
        len(span_mask(text, AugmentationContext(generator, k, TOKEN, protocol)).partition(token)[0].removesuffix(" "))
        for _ in range(4000)
    )


def test_every_position_is_equally_likely_on_paper() -> None:
    found = starts("abcdefghij" * 4, 5, "paper")
    assert set(found) == set(range(36))
    assert min(found.values()) > 60  # 111 expected


def test_the_released_cut_is_at_the_first_occurrence_and_never_at_the_end() -> None:
    assert set(starts("abcdefghij" * 4, 5, "released")) == set(range(10))
    distinct = "".join(map(chr, range(0x4E00, 0x4E00 + 40)))
    assert set(starts(distinct, 5, "released")) == set(range(35))


def test_spaces_set_the_token_off_but_end_no_string() -> None:
    results = {span_mask("abcd", span_view(3, seed)) for seed in range(20)}
    assert results == {"<mask> d", "a <mask>"}


MASK = 4
SPECIAL = frozenset({0, 1, 2, 3, MASK})
rates = st.floats(0.01, 0.99)
seeds = st.integers(0, 10_000)


def text_view(rate: float, seed: int = 0) -> AugmentationContext:
    return AugmentationContext(np.random.default_rng(seed), rate, "[MASK]", "paper")


def token_view(rate: float, seed: int = 0) -> AugmentationContext:
    return AugmentationContext(np.random.default_rng(seed), rate, "[MASK]", "paper", 0, MASK, SPECIAL)


@given(st.lists(st.integers(0, 50)), rates, seeds)
def test_token_mask_keeps_length_specials_and_something_of_the_text(ids: list[int], rate: float, seed: int) -> None:
    before = list(ids)
    masked = token_mask(ids, token_view(rate, seed))
    assert ids == before
    assert len(masked) == len(ids)
    assert all(new in (old, MASK) for old, new in zip(ids, masked, strict=True))
    assert all(new == old for old, new in zip(ids, masked, strict=True) if old in SPECIAL)
    text = [token for token in ids if token not in SPECIAL]
    assert not text or any(token not in SPECIAL for token in masked)


@given(st.text(), rates, seeds)
def test_word_mask_masks_whole_words_and_not_all(text: str, rate: float, seed: int) -> None:
    masked = word_mask(text, text_view(rate, seed))
    if len(text.split()) < 2:
        assert masked.split() == text.split()
    words = text.split()
    assert all(new in (old, "[MASK]") for old, new in zip(words, masked.split(), strict=True))
    assert not words or any(old == new for old, new in zip(words, masked.split(), strict=True))


@given(st.lists(st.text("abc", min_size=1), max_size=30), st.integers(1, 10), seeds)
def test_word_shuffle_keeps_the_words(words: list[str], k: int, seed: int) -> None:
    assert Counter(word_shuffle(" ".join(words), text_view(k, seed)).split()) == Counter(words)


@pytest.mark.parametrize("k", [1, 3])
def test_word_shuffle_moves_words_as_far_as_it_may_and_no_further(k: int) -> None:
    view = text_view(k)
    text = " ".join(map(str, range(20)))
    moved = [abs(place - int(word)) for _ in range(500) for place, word in enumerate(word_shuffle(text, view).split())]
    assert max(moved) == k
    assert np.mean(np.array(moved) > 0) > 0.2


def test_masks_have_their_rate() -> None:
    ids, text = [2, *range(10, 40), 3], " ".join(f"w{i}" for i in range(30))
    of_ids, of_text = token_view(0.2), text_view(0.15)
    shares = [(token_mask(ids, of_ids).count(MASK), word_mask(text, of_text).count("[MASK]")) for _ in range(1000)]
    assert np.mean(shares, axis=0) / 30 == pytest.approx([0.2, 0.15], abs=0.01)


@pytest.mark.parametrize("function", [span_mask, word_shuffle])
def test_half_a_character_or_place_is_refused(function: Any) -> None:
    with pytest.raises(UsageError, match=rf"{function.__name__}=2\.5 is not a whole number"):
        function("a long enough text", text_view(2.5))
