"""Generated corpora: random strings and frequent words."""

from __future__ import annotations

import hashlib
import string
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from mirrorbench.core.errors import DataUnavailableError
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.generated_corpora import (
    LONGEST_STRING,
    SENTENCE_WORD_CHARACTERS,
    SENTENCE_WORDS,
    SHORTEST_STRING,
    frequent_words,
    random_sentences,
    random_strings,
)
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins


def test_random_strings_never_change() -> None:
    strings = random_strings()
    assert len(set(strings)) == 10_000
    assert {min(map(len, strings)), max(map(len, strings))} == {SHORTEST_STRING, LONGEST_STRING}
    checksum = hashlib.sha256("\n".join(strings).encode()).hexdigest()
    assert checksum == "e06ca84b4f8f36a6b7015be28ebf04dd001b2c32a5ebd2e687f4ae4522b17bf2"


def test_random_sentences_match_real_sentence_lengths(originals: Callable[..., DataStore]) -> None:
    """Mirror-BERT, section 4.4: "uniformly sampling English letters and digits", and so "on the sentence-level"."""
    sentences = random_sentences()
    assert len(sentences) == len(set(sentences)) == 10_000
    checksum = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    assert checksum == "68b43baee8723c25031088ae03cd18dfd7dc06bbd328f5bf8ea5046c7ef480de"
    letters = Counter("".join(sentences).replace(" ", ""))
    assert letters.keys() == set(string.ascii_letters + string.digits)
    assert [count / letters.total() for count in letters.values()] == pytest.approx(
        [1 / 62] * 62, rel=0.05
    )
    real = read_corpus("sts-sentences", originals("train"), builtin_cards()).texts
    for texts, quantiles in ((sentences, [0, 1]), (real, [0.1, 0.9])):
        n_words = np.quantile([len(text.split()) for text in texts], quantiles, method="lower")
        n_letters = np.quantile([len(word) for text in texts for word in text.split()], quantiles)
        assert (tuple(n_words), tuple(n_letters)) == (SENTENCE_WORDS, SENTENCE_WORD_CHARACTERS)


def test_generated_corpora_are_registered() -> None:
    known = load_plugins(discover=False).corpora.names()
    assert {"random-strings", "words-en-0-10k", "words-en-90-100k", "frequent-words-zh"} <= {*known}


def test_word_buckets_are_disjoint_and_ordered_by_frequency() -> None:
    wordfreq = pytest.importorskip("wordfreq")
    buckets = [frequent_words(bucket) for bucket in (0, 1, 9)]
    assert [len(words) for words in buckets] == [10_000] * 3
    assert len({word for words in buckets for word in words}) == 30_000
    for higher, lower in pairwise(buckets):
        assert wordfreq.zipf_frequency(higher[-1], "en", "large") >= wordfreq.zipf_frequency(
            lower[0], "en", "large"
        )


def test_missing_wordfreq_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(DataUnavailableError, match="wordfreq") as caught:
        frequent_words(0)
    assert "mirrorbench[words]" in caught.value.hint
