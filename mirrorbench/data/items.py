"""Items of tasks, as parsers return them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts and a human judgement of their similarity.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``MSRpar/17``.
        left: first text, exactly as in the original file.
        right: second text.
        gold: similarity, on the data set's own scale.
        subset: part of the data set (``MSRpar``); empty if there are no parts.
    """

    id: str
    left: str
    right: str
    gold: float
    subset: str = ""


@dataclass(frozen=True, slots=True)
class ContextPair:
    """Two words in context, and whether they have the same meaning.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``dev/17``.
        left: a word in its context.
        right: another word in context, or in a statement about a meaning of the first.
        label: 1 for the same meaning, 0 for different ones, ``None`` if the label is not public.
        split: ``train``, ``dev`` or ``test``.
    """

    id: str
    left: TextInput
    right: TextInput
    label: int | None
    split: str


@dataclass(frozen=True, slots=True)
class RatedContexts:
    """Two words in context, and the mean of human ratings of their similarity; ``id`` is e.g. ``bright.a/1-2``."""

    id: str
    left: TextInput
    right: TextInput
    rating: float


@dataclass(frozen=True, slots=True)
class ContextChange:
    """Two words in two contexts, with a rating of their similarity in each: does the context change it?"""

    id: str
    first: RatedContexts
    second: RatedContexts


WordPair = tuple[str, str]
"""A word, and its translation."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention of a concept in a text.

    Attributes:
        id: unique within its fold and stable between runs, e.g. ``9288106/3``.
        parts: the names to link: one, or several for a composite mention ("breast and ovarian cancer").
        gold: ids of the right concepts.
        document: the document of the mention; empty if unknown.
    """

    id: str
    parts: tuple[str, ...]
    gold: frozenset[str]
    document: str = ""


@dataclass(frozen=True, slots=True)
class Linking:
    """Mentions, and the dictionary to link them to.

    Attributes:
        mentions: the mentions to link.
        names: the m names of the dictionary.
        ids: for each name the ids of its concepts, m sets.
        fold: the fold of the data set; empty if there is only one.
    """

    mentions: tuple[Mention, ...]
    names: tuple[str, ...]
    ids: tuple[frozenset[str], ...]
    fold: str = ""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A bilingual dictionary in two parts, and the candidate translations.

    Attributes:
        train: pairs of source and target word for learning a mapping.
        test: pairs to find; a source word with several translations has several pairs.
        source_words: further words of the source language, most frequent first.
        target_words: further words of the target language, most frequent first.
    """

    train: tuple[WordPair, ...]
    test: tuple[WordPair, ...]
    source_words: tuple[str, ...] = ()
    target_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A word to disambiguate.

    Attributes:
        id: unique within the data set, e.g. ``senseval2.d000.s000.t000``.
        target: the word in its sentence.
        candidates: keys of the senses of the lemma and part of speech, most frequent first.
        gold: keys of the right senses, one or several.
        corpus: the part of the data set (``senseval2``).
        contexts: names of the candidates' contexts in ``Disambiguation.senses``; empty if the names are the keys.
    """

    id: str
    target: TextInput
    candidates: tuple[str, ...]
    gold: frozenset[str]
    corpus: str
    contexts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SenseContexts:
    """Contexts that represent a sense of a word.

    Attributes:
        examples: the word in examples of its WordNet entry; may be empty.
        gloss: the word in a sentence with its definition: "<word> means <definition>".
    """

    examples: tuple[TextInput, ...]
    gloss: TextInput


@dataclass(frozen=True, slots=True)
class Disambiguation:
    """Words to disambiguate, in file order, and the contexts of all candidate senses by sense key or other name."""

    occurrences: tuple[Occurrence, ...]
    senses: Mapping[str, SenseContexts]


def example_choice(options: Mapping[str, Any]) -> tuple[str, int]:
    """Return the choice of a sense's examples (``first``, ``random`` or ``all``), and the seed of a random choice."""
    choice = options.get("examples", "first")
    seed = options.get("seed", 0)
    if choice not in ("first", "random", "all"):
        raise DataFormatError(f"examples={choice} must be one of first, random, all")
    if seed and choice != "random":
        raise DataFormatError(f"seed={seed} needs examples=random; this is examples={choice}")
    return choice, seed
