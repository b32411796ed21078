"""What texts have in common whose vectors differ."""

from __future__ import annotations

import pytest

from mirrorbench.agreement.shared_traits import script_of, shared_traits

PLAIN = ["a cat sleeps", "the river rose", "nobody came", "it was late", "birds sing"]


@pytest.mark.parametrize(
    ("differing", "trait"),
    [
        (["in 1984 it fell", "route 66"], "hold a digit"),
        (["this < that", "'so it goes'"], "HTML escapes"),
        (["Москва зимой", "снег идёт"], "are in Cyrillic script"),
        (["first\nsecond", "a\nb"], "hold a line break"),
        ([" a cat", "a dog "], "begin or end with a space"),
        (["a cat " * 20, "a dog " * 20], "are longer than"),
        (["cafe\u0301", "nai\u0308ve"], "composed form"),
        (["a 😀", "b 👍"], "a symbol or an emoji"),
    ],
)
def test_trait_that_only_differing_texts_have_is_named(differing: list[str], trait: str) -> None:
    texts = [*PLAIN, *differing * 3]
    flags = [False] * len(PLAIN) + [True] * len(differing) * 3
    phrases = shared_traits(texts, flags)
    assert any(trait in phrase and phrase.startswith("100%") for phrase in phrases)


def test_traits_of_all_texts_are_not_named() -> None:
    texts = [f"room {number}" for number in range(12)]
    assert shared_traits(texts, [True, False] * 6) == []
    assert shared_traits(texts, [True] * 12) == []


def test_traits_of_a_few_texts_are_not_named() -> None:
    assert shared_traits([*PLAIN, "in 1984 it fell"], [False] * len(PLAIN) + [True]) == []


@pytest.mark.parametrize(
    ("text", "script"), [("abc где", "LATIN"), ("где abc рус", "CYRILLIC"), ("42 !", "")]
)
def test_script_is_that_of_most_letters(text: str, script: str) -> None:
    assert script_of(text) == script
