"""What the parser of word sense disambiguation returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorbench.core.inputs import TextInput


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A word whose sense is asked for.

    Attributes:
        id: unique within the data set, ``senseval2.d000.s000.t000``.
        target: the word in its sentence.
        candidates: keys of the senses of its lemma and part of speech, the most frequent first.
        gold: keys of the right ones, one or several.
        corpus: the part of the data set that it comes from (``senseval2``).
    """

    id: str
    target: TextInput
    candidates: tuple[str, ...]
    gold: frozenset[str]
    corpus: str


@dataclass(frozen=True, slots=True)
class SenseContexts:
    """What a sense of a word is recognised by.

    Attributes:
        examples: the word in the examples of its entry, none where it occurs in none of them.
        gloss: the word in a sentence about it: "<word> means <definition>".
    """

    examples: tuple[TextInput, ...]
    gloss: TextInput


@dataclass(frozen=True, slots=True)
class Disambiguation:
    """Words to disambiguate, and the senses that they may have.

    Attributes:
        occurrences: the words, in the order of the file.
        senses: contexts of every candidate, by its key.
    """

    occurrences: tuple[Occurrence, ...]
    senses: Mapping[str, SenseContexts]
