"""What the parser of bilingual dictionaries returns."""

from __future__ import annotations

from dataclasses import dataclass

WordPair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A bilingual dictionary in two parts, and the words among which translations are looked for.

    Attributes:
        train: pairs of source and target word from which a mapping is learnt.
        test: pairs that are to be found; a source word with several translations has several pairs.
        source_words: further words of the source language, most frequent first.
        target_words: further words of the target language, most frequent first.
    """

    train: tuple[WordPair, ...]
    test: tuple[WordPair, ...]
    source_words: tuple[str, ...] = ()
    target_words: tuple[str, ...] = ()
