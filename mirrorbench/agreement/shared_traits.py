"""What texts have in common whose vectors differ: length, script, digits, spaces."""

from __future__ import annotations

import html
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

Trait = Callable[[str], bool]
"""Whether a text has a trait."""
CLEAR_DIFFERENCE = 0.6
"""Least difference of the shares of differing and other texts for a trait to be named."""
FEWEST_TEXTS = 5
"""Number of texts from which what they share is no coincidence."""
MOST_TRAITS = 3
"""Number of traits that are named at most."""


def shared_traits(texts: Sequence[str], differing: Sequence[bool]) -> list[str]:
    """Return phrases on what texts that differ have, and others do not, the clearest first: ``hold a digit``.

    There are none for a few texts, which always share something.

    Args:
        texts: the texts.
        differing: for each text, whether its two vectors differ.
    """
    differing_texts = [text for text, differs in zip(texts, differing, strict=True) if differs]
    other_texts = [text for text, differs in zip(texts, differing, strict=True) if not differs]
    if min(len(differing_texts), len(other_texts)) < FEWEST_TEXTS:
        return []

    def clearest(traits: dict[str, Trait]) -> list[tuple[float, str]]:
        """Return the traits that clearly more of the differing texts have, the clearest first."""
        found = []
        for phrase, holds in traits.items():
            share = sum(map(holds, differing_texts)) / len(differing_texts)
            share_of_others = sum(map(holds, other_texts)) / len(other_texts)
            if share - share_of_others >= CLEAR_DIFFERENCE:
                words = f"{share:.0%} of them {phrase}, {share_of_others:.0%} of the others"
                found.append((share - share_of_others, words))
        return sorted(found, reverse=True)

    # Of all lengths, only the one that separates the texts best is named.
    found = [*clearest(_lengths(texts))[:1], *clearest(_characters(texts))]
    found.sort(reverse=True)
    return [words for _, words in found[:MOST_TRAITS]]


def script_of(text: str) -> str:
    """Return the script of most letters of a text as Unicode names it: ``LATIN``; empty without letters."""
    scripts: Counter[str] = Counter()
    for character in text:
        if character.isalpha():
            scripts[unicodedata.name(character, "").partition(" ")[0]] += 1
    return scripts.most_common(1)[0][0] if scripts else ""


def _characters(texts: Sequence[str]) -> dict[str, Trait]:
    """Return the traits of characters that are looked at, each with its phrase."""
    traits: dict[str, Trait] = {
        "hold a digit": lambda text: any(map(str.isdigit, text)),
        "hold a capital letter": lambda text: any(map(str.isupper, text)),
        "hold a letter outside ASCII": _holds_letter_outside_ascii,
        "hold a line break": lambda text: "\n" in text or "\r" in text,
        "begin or end with a space": lambda text: text != text.strip(),
        "hold several spaces in a row": lambda text: "  " in text.strip(),
        "hold a symbol or an emoji": _holds("S"),
        "hold punctuation": _holds("P"),
        "hold a character that HTML escapes": lambda text: html.escape(text) != text,
        "hold no letter": lambda text: not any(map(str.isalpha, text)),
        "are not in Unicode's composed form": lambda text: (
            not unicodedata.is_normalized("NFC", text)
        ),
    }
    for script in sorted({script_of(text) for text in texts} - {""}):
        traits[f"are in {script.title()} script"] = _is_in(script)
    return traits


def _lengths(texts: Sequence[str]) -> dict[str, Trait]:
    """Return the traits of length that are looked at, each with its phrase."""
    traits: dict[str, Trait] = {}
    lengths = sorted({len(text) for text in texts})
    for n_characters in lengths[:: max(1, len(lengths) // 50)]:
        traits[f"are longer than {n_characters:,} characters"] = _is_longer(n_characters)
        traits[f"are at most {n_characters:,} characters long"] = _is_at_most(n_characters)
    return traits


def _holds_letter_outside_ascii(text: str) -> bool:
    return any(character.isalpha() and not character.isascii() for character in text)


def _holds(category: str) -> Trait:
    """Return the trait of texts with a character of a category of Unicode, such as ``S`` (symbols)."""
    return lambda text: any(unicodedata.category(letter).startswith(category) for letter in text)


def _is_in(script: str) -> Trait:
    return lambda text: script_of(text) == script


def _is_longer(n_characters: int) -> Trait:
    return lambda text: len(text) > n_characters


def _is_at_most(n_characters: int) -> Trait:
    return lambda text: len(text) <= n_characters
