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

    It is an item of ``PairSimilarity`` and ``PairClassification``. A plugin makes such objects in code, or in a parser
    for cards of the kinds ``pair-similarity`` and ``pair-classification``. The values are not checked here but when the
    task is loaded.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``MSRpar/17``.
        left: first text, exactly as in the original file.
        right: second text.
        gold: similarity, on the data set's own scale; for ``PairClassification`` 1 or 0.
        subset: part of the data set (``MSRpar``); empty if there are no parts (default).

    Example:
        >>> from mirrorbench.plugin import Pair
        >>> pair = Pair("captions/1", "A cat sleeps.", "The cat is asleep.", gold=4.8, subset="captions")
        >>> pair.gold
        4.8
    """

    id: str
    left: str
    right: str
    gold: float
    subset: str = ""


@dataclass(frozen=True, slots=True)
class ContextPair:
    """Two words in context, and whether they have the same meaning.

    It is an item of ``WordInContext``. A plugin makes such objects in code, or in a parser for cards of the kind
    ``word-in-context``. The values are not checked here but when the task is loaded.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``dev/17``.
        left: a word in its context: a ``TextInput`` with the text, and in ``spans`` the first character of the word and
            the one after its last (several pairs of numbers for a word in several parts).
        right: another word in context, or in a statement about a meaning of the first.
        label: 1 for the same meaning, 0 for different ones, ``None`` if the label is not public.
        split: ``train``, ``dev`` or ``test``. The threshold is chosen on ``dev``, where both labels must occur.

    Example:
        >>> from mirrorbench.plugin import ContextPair, TextInput
        >>> shore = TextInput("They sat on the bank.", spans=((16, 20),))
        >>> money = TextInput("She works in a bank.", spans=((15, 19),))
        >>> pair = ContextPair("dev/1", shore, money, label=0, split="dev")
        >>> pair.left.target, pair.right.target
        ('bank', 'bank')
    """

    id: str
    left: TextInput
    right: TextInput
    label: int | None
    split: str


@dataclass(frozen=True, slots=True)
class RatedContexts:
    """Two words in context, and the mean of human ratings of their similarity.

    It is an item of ``UsageSimilarity``, and one half of a ``ContextChange``. A plugin makes such objects in code, or
    in a parser for cards of the kind ``usage-similarity``. The values are not checked here but when the task is loaded.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``bright.a/1-2``.
        left: a word in its context: a ``TextInput`` with the text, and in ``spans`` the first character of the word and
            the one after its last (several pairs of numbers for a word in several parts).
        right: the other word in context; its text may be the same.
        rating: similarity, on the data set's own scale.

    Example:
        >>> from mirrorbench.plugin import RatedContexts, TextInput
        >>> river = TextInput("the river bank", spans=((10, 14),))
        >>> money = TextInput("a bank in the city", spans=((2, 6),))
        >>> RatedContexts("bank.n/1-2", river, money, rating=1.5).left.target
        'bank'
    """

    id: str
    left: TextInput
    right: TextInput
    rating: float


@dataclass(frozen=True, slots=True)
class ContextChange:
    """Two words in two contexts, with a rating of their similarity in each: does the context change it?

    It is an item of ``SimilarityChange``. A plugin makes such objects in code, or in a parser for cards of the kind
    ``similarity-change``. The values are not checked here but when the task is loaded.

    Attributes:
        id: unique within the data set and stable between runs.
        first: both words in the first context, a ``RatedContexts``. Its ``left`` and ``right`` are most often two words
            of one text; its own ``id`` is not used.
        second: the same words, in the same order, in the second context.

    Example:
        >>> from mirrorbench.plugin import ContextChange, RatedContexts, TextInput
        >>> floods = "The bank of the river floods."
        >>> lends = "The bank by the river lends money."
        >>> change = ContextChange(
        ...     "bank-river",
        ...     first=RatedContexts("1", TextInput(floods, ((4, 8),)), TextInput(floods, ((16, 21),)), rating=8.0),
        ...     second=RatedContexts("2", TextInput(lends, ((4, 8),)), TextInput(lends, ((16, 21),)), rating=3.0),
        ... )
        >>> change.second.rating - change.first.rating
        -5.0
    """

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

    Example:
        >>> from mirrorbench.plugin import Mention
        >>> mention = Mention("note-7/1", ("heart attacks",), gold=frozenset({"D009203"}))
        >>> mention.document
        ''
    """

    id: str
    parts: tuple[str, ...]
    gold: frozenset[str]
    document: str = ""


@dataclass(frozen=True, slots=True)
class Linking:
    """Mentions, and the dictionary to link them to.

    It is an item of ``EntityLinking``, one for each fold of a data set. A plugin makes such objects in code, or in a
    parser for cards of the kind ``entity-linking``. The values are not checked here but when the task is loaded.

    Attributes:
        mentions: a tuple of the mentions to link: objects with the attributes ``id`` (a text, unique within the task
            and stable between runs), ``parts`` (a tuple of the names to link: one, or several for a composite mention
            such as "breast and ovarian cancer"), ``gold`` (a frozenset of the ids of the right concepts) and
            ``document`` (the name of the mention's document; empty if unknown).
        names: a tuple of the m names of the dictionary.
        ids: for each name the ids of its concepts, a tuple of m frozensets.
        fold: the name of the fold; empty if there is only one (default).

    Example:
        >>> from mirrorbench.plugin import Linking, Mention
        >>> linking = Linking(
        ...     mentions=(Mention("note-7/1", ("heart attacks",), frozenset({"D009203"})),),
        ...     names=("heart attack", "myocardial infarction", "flu"),
        ...     ids=(frozenset({"D009203"}), frozenset({"D009203"}), frozenset({"D007251"})),
        ... )
        >>> len(linking.names) == len(linking.ids)
        True
    """

    mentions: tuple[Mention, ...]
    names: tuple[str, ...]
    ids: tuple[frozenset[str], ...]
    fold: str = ""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A bilingual dictionary in two parts, and the candidate translations.

    It is the single item of ``LexiconInduction``. A plugin makes it in code, or in a parser for cards of the kind
    ``lexicon-induction``, which returns a list of one ``Lexicon``. The values are not checked here but when the task is
    loaded, which also puts all words into lower case.

    Attributes:
        train: a tuple of pairs ``(source word, target word)`` for learning a mapping.
        test: a tuple of pairs to find; a source word with several translations has several pairs.
        source_words: a tuple of further words of the source language, most frequent first (default empty). The words of
            the pairs need not be among them.
        target_words: a tuple of further words of the target language, most frequent first (default empty): with the
            target words of all pairs they are the candidates. For an encoder with a vocabulary of its own, and for the
            task of a card, other lists replace both.

    Example:
        >>> from mirrorbench.plugin import Lexicon
        >>> lexicon = Lexicon(
        ...     train=(("dog", "Hund"), ("cat", "Katze")),
        ...     test=(("house", "Haus"), ("house", "Gebäude")),
        ...     target_words=("und", "Tag"),
        ... )
        >>> {source for source, target in lexicon.test}
        {'house'}
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

    Example:
        >>> from mirrorbench.plugin import Occurrence, TextInput
        >>> word = TextInput("They sat on the bank.", spans=((16, 20),))
        >>> occurrence = Occurrence("s1.t1", word, ("bank%1", "bank%2"), frozenset({"bank%1"}), corpus="toy")
        >>> occurrence.gold <= set(occurrence.candidates)
        True
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

    Example:
        >>> from mirrorbench.plugin import SenseContexts, TextInput
        >>> gloss = TextInput("bank means sloping land beside water", spans=((0, 4),))
        >>> SenseContexts(examples=(), gloss=gloss).gloss.text
        'bank means sloping land beside water'
    """

    examples: tuple[TextInput, ...]
    gloss: TextInput


@dataclass(frozen=True, slots=True)
class Disambiguation:
    """Words to disambiguate, and the contexts of their candidate senses.

    It is the single item of ``SenseDisambiguation``. A plugin makes it in code, or in a parser for cards of the kind
    ``sense-disambiguation``, which returns a list of one ``Disambiguation``. The values are not checked here but when
    the task is loaded.

    Attributes:
        occurrences: a tuple of the words in file order: objects with the attributes ``id`` (a text, unique within the
            data set), ``target`` (the word in its sentence, a ``TextInput`` with ``spans``), ``candidates`` (a tuple of
            the keys of the senses of its lemma and part of speech, most frequent first), ``gold`` (a frozenset of the
            keys of the right senses), ``corpus`` (the name of the part of the data set) and ``contexts`` (a tuple of
            the names of the candidates' contexts in ``senses``; empty if the names are the keys).
        senses: for each sense key, or other name of contexts, an object with the attributes ``examples`` (a tuple of
            the word in example sentences, each a ``TextInput``; may be empty) and ``gloss`` (the word in a sentence
            with its definition, "<word> means <definition>", a ``TextInput``).

    Example:
        >>> from mirrorbench.plugin import Disambiguation, Occurrence, SenseContexts, TextInput
        >>> word = TextInput("They sat on the bank.", spans=((16, 20),))
        >>> shore = SenseContexts((), TextInput("bank means sloping land beside water", spans=((0, 4),)))
        >>> money = SenseContexts((), TextInput("bank means a company that lends money", spans=((0, 4),)))
        >>> items = Disambiguation(
        ...     occurrences=(Occurrence("s1.t1", word, ("bank%1", "bank%2"), frozenset({"bank%1"}), "toy"),),
        ...     senses={"bank%1": shore, "bank%2": money},
        ... )
        >>> items.occurrences[0].gold <= items.senses.keys()
        True
    """

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
