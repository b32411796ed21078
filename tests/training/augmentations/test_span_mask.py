from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.core.errors import UsageError
from mirrorbench.training.augmentations import AugmentationContext
from mirrorbench.training.augmentations.text import span_mask

MASK = "<mask>"
solid = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=80)


def view(k: float = 5, seed: int = 0, protocol: str = "paper", mask: str = MASK) -> AugmentationContext:
    return AugmentationContext(np.random.default_rng(seed), k, mask, protocol)


@given(solid, st.integers(1, 10), st.integers(0, 99))
def test_exactly_k_consecutive_characters_go(text: str, k: int, seed: int) -> None:
    masked = span_mask(text, view(k, seed))
    if len(text) <= k:
        assert masked == text
        return
    left, token, right = masked.partition(MASK)
    assert token == MASK
    left, right = left.removesuffix(" "), right.removeprefix(" ")
    assert len(left) + len(right) == len(text) - k
    assert text.startswith(left)
    assert text.endswith(right)


@given(solid, st.integers(1, 10), st.integers(0, 99))
def test_the_released_reading(text: str, k: int, seed: int) -> None:
    masked = span_mask(text, view(k, seed, "released"))
    if len(text) < 30:
        assert masked == text
        return
    drawn = np.random.default_rng(seed).integers(len(text) - k)
    left, right = text.split(text[drawn : drawn + k], 1)
    assert masked == f"{left} [MASK] {right}".strip()


def starts(text: str, k: int, protocol: str) -> Counter[int]:
    generator = np.random.default_rng(0)
    token = MASK if protocol == "paper" else "[MASK]"
    return Counter(
        len(span_mask(text, AugmentationContext(generator, k, MASK, protocol)).partition(token)[0].removesuffix(" "))
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


def test_the_mask_token_is_the_tokenizers_on_paper_and_berts_as_released() -> None:
    text = "a sentence of more than thirty characters"
    assert MASK in span_mask(text, view())
    assert "[MASK]" in span_mask(text, view(protocol="released"))


def test_spaces_set_the_token_off_but_end_no_string() -> None:
    results = {span_mask("abcd", view(3, seed)) for seed in range(20)}
    assert results == {"<mask> d", "a <mask>"}


def test_short_strings_stay() -> None:
    for text in ("", "abcde"):
        assert span_mask(text, view(5)) == text
    assert span_mask("x" * 29, view(5, protocol="released")) == "x" * 29


def test_half_a_character_is_refused() -> None:
    with pytest.raises(UsageError, match=r"span_mask=2.5 is not a whole number"):
        span_mask("a long enough text", view(2.5))
