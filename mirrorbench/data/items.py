"""What parsers return and tasks work on: pairs, words in context, mentions, dictionaries, senses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput

WordPair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts and a human judgement of their similarity.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``MSRpar/17``.
        left: the first text, exactly as in the original file.
        right: the second text.
        gold: the similarity, on the data set's own scale (rank correlations do not care).
        subset: the part of the data set that the pair belongs to (``MSRpar``), empty where there are no parts.
    """

    id: str
    left: str
    right: str
    gold: float
    subset: str = ""


@dataclass(frozen=True, slots=True)
class ContextPair:
    """Two words in context, and whether they mean the same.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``dev/17``.
        left: a word in its context.
        right: another word in another context, or in a statement about what the first may mean.
        label: 1 where they mean the same, 0 where they do not, ``None`` where the data set keeps it secret.
        split: ``train``, ``dev`` or ``test``.
    """

    id: str
    left: TextInput
    right: TextInput
    label: int | None
    split: str


@dataclass(frozen=True, slots=True)
class RatedContexts:
    """Two words in context, and the mean of people's ratings of their similarity (``id``: e.g. ``bright.a/1-2``)."""

    id: str
    left: TextInput
    right: TextInput
    rating: float


@dataclass(frozen=True, slots=True)
class ContextChange:
    """The same two words in two contexts: how does the context change their similarity?"""

    id: str
    first: RatedContexts
    second: RatedContexts


@dataclass(frozen=True, slots=True)
class Mention:
    """A name as it occurs in a text.

    Attributes:
        id: unique within its fold and stable between runs, e.g. ``9288106/3``.
        parts: the names to look up: one, or several for a composite mention ("breast and ovarian cancer").
        gold: the ids of the concepts that it stands for.
    """

    id: str
    parts: tuple[str, ...]
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Linking:
    """Mentions and the dictionary in which they are looked up.

    Attributes:
        mentions: what is looked up.
        names: the m names of the dictionary.
        ids: the concepts that each name stands for, m sets.
        fold: the name of this part of the data set, empty where there is one only.
    """

    mentions: tuple[Mention, ...]
    names: tuple[str, ...]
    ids: tuple[frozenset[str], ...]
    fold: str = ""


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
    """The contexts that stand for a sense of a word.

    Attributes:
        examples: the word in the examples of its entry, none where it occurs in none of them.
        gloss: the word in a sentence about it: "<word> means <definition>".
    """

    examples: tuple[TextInput, ...]
    gloss: TextInput


@dataclass(frozen=True, slots=True)
class Disambiguation:
    """Words to disambiguate, in the order of the file, and the contexts of all candidate senses by their key."""

    occurrences: tuple[Occurrence, ...]
    senses: Mapping[str, SenseContexts]


def check_targets(task: str, pairs: Iterable[ContextPair | RatedContexts]) -> None:
    """Check that the target words of a task's items are in their texts."""
    for pair in pairs:
        for side in (pair.left, pair.right):
            if not all(0 <= start < end <= len(side.text) for start, end in side.spans):
                raise DataFormatError(f"task {task}: a target of item {pair.id} is not in its text")
