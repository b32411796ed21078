"""Generated corpora: random strings, and words by frequency."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mirrorbench.core.errors import DataUnavailableError, not_installed
from mirrorbench.data.corpora import SIZE, GeneratedCorpus

N_BUCKETS = 10
"""Number of buckets of ``SIZE`` words: the paper splits the 100k most frequent words (Figure 8)."""
# The paper gives no lengths of its random strings. These are the lengths of most of its 10k English words, and of four
# fifths of its 10k sentences.
SHORTEST_STRING = 3
"""Fewest characters of a random string."""
LONGEST_STRING = 12
"""Most characters of a random string."""
SENTENCE_WORDS = (5, 18)
"""Fewest and most words of a random sentence."""
SENTENCE_WORD_CHARACTERS = (2, 8)
"""Fewest and most characters of a word in a random sentence."""
LONG_LIST_WORDS = 200_000
"""Most words in a language's long list: a common size of the vocabularies of static vectors."""
LANGUAGES = ("ar", "de", "en", "es", "fi", "fr", "he", "hr", "it", "pl", "ru", "tr", "zh")
"""Languages of the long lists: languages of the papers' lexical tasks that wordfreq has."""
_Draw = Callable[[], float]
_CHARACTERS = string.ascii_letters + string.digits


def random_strings() -> list[str]:
    """Generate distinct random strings of English letters and digits (Mirror-BERT, Table 10, appendix C)."""
    return _distinct(lambda draw: _random_word(draw, (SHORTEST_STRING, LONGEST_STRING)))


def random_sentences() -> list[str]:
    """Generate distinct random strings as long as sentences, made of random words (Mirror-BERT, section 4.4).

    "We did a similar experiment on the sentence-level and observed similar trends."
    """
    return _distinct(_random_sentence)


def _distinct(random_text: Callable[[_Draw], str]) -> list[str]:
    """Return ``SIZE`` distinct texts, the same on every machine."""
    draw = random.Random(2021).random  # Python guarantees the sequence of this method only
    distinct: dict[str, None] = {}
    while len(distinct) < SIZE:
        distinct[random_text(draw)] = None
    return list(distinct)


def _random_integer(draw: _Draw, bounds: tuple[int, int]) -> int:
    """Return an integer between two bounds, both included."""
    low, high = bounds
    return low + int(draw() * (high - low + 1))


def _random_word(draw: _Draw, lengths: tuple[int, int]) -> str:
    length = _random_integer(draw, lengths)
    return "".join(_CHARACTERS[int(draw() * len(_CHARACTERS))] for _ in range(length))


def _random_sentence(draw: _Draw) -> str:
    n_words = _random_integer(draw, SENTENCE_WORDS)
    return " ".join(_random_word(draw, SENTENCE_WORD_CHARACTERS) for _ in range(n_words))


def frequent_words(bucket: int) -> Sequence[str]:
    """Return English words by frequency: bucket 0 has the 10k most frequent, 1 the next 10k (Mirror-BERT, Figure 8).

    The paper counts in Wikipedia and released only the first bucket. These are from wordfreq's large list, which counts
    in Wikipedia and other sources and no longer changes; ties are in alphabetical order.
    """
    words = top_words("en", SIZE * N_BUCKETS)
    return words[bucket * SIZE : (bucket + 1) * SIZE]


def top_words(language: str, n: int) -> Sequence[str]:
    """Return the ``n`` most frequent words of a language, or all of wordfreq's best list if it has fewer.

    ``DataUnavailableError`` if wordfreq is not installed.
    """
    try:
        from wordfreq import top_n_list
    except ImportError as error:
        raise not_installed(
            DataUnavailableError, "lists of frequent words need", "wordfreq", "words"
        ) from error
    # wordfreq lists Croatian together with Serbian and Bosnian.
    words: list[str] = top_n_list("sh" if language == "hr" else language, n, wordlist="best")
    return words


def generated_corpora() -> Iterator[GeneratedCorpus]:
    """Yield random strings and sentences, ten buckets of English words, and the long word lists."""
    yield GeneratedCorpus(
        "random-strings", "10k random strings of letters and digits", random_strings
    )
    yield GeneratedCorpus(
        "random-sentences", "10k random strings as long as sentences", random_sentences
    )
    for bucket in range(N_BUCKETS):
        # Ranks in thousands.
        low = bucket * SIZE // 1000
        high = (bucket + 1) * SIZE // 1000
        title = f"English words from frequency rank {low}k to {high}k (wordfreq)"
        yield GeneratedCorpus(f"words-en-{low}-{high}k", title, partial(frequent_words, bucket))
    for language in LANGUAGES:
        title = f"up to {LONG_LIST_WORDS // 1000}k words of {language} by frequency (wordfreq)"
        yield GeneratedCorpus(
            f"frequent-words-{language}", title, partial(top_words, language, LONG_LIST_WORDS)
        )
