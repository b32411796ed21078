from __future__ import annotations

import hashlib
import string
import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from mirrorbench.core.errors import DataUnavailableError
from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.generated import LONGEST, SHORTEST, WORD, WORDS, frequent_words, random_sentences, random_strings
from mirrorbench.data.store import DataStore


def test_random_strings_have_no_meaning_and_never_change() -> None:
    strings = random_strings()
    assert len(strings) == len(set(strings)) == 10_000
    assert set("".join(strings)) == set(string.ascii_letters + string.digits)
    lengths = [len(text) for text in strings]
    assert (min(lengths), max(lengths)) == (SHORTEST, LONGEST)
    share = "".join(strings).count("e") / sum(lengths)
    assert share == pytest.approx(1 / 62, rel=0.1)
    checksum = hashlib.sha256("\n".join(strings).encode()).hexdigest()
    assert checksum == "e06ca84b4f8f36a6b7015be28ebf04dd001b2c32a5ebd2e687f4ae4522b17bf2"


def test_random_sentences_are_as_long_as_sentences(originals: Callable[..., DataStore]) -> None:
    """Mirror-BERT, section 4.4: "uniformly sampling English letters and digits", and so "on the sentence-level"."""
    sentences = random_sentences()
    assert len(sentences) == len(set(sentences)) == 10_000
    assert sentences == random_sentences()
    own = [len(text.split(" ")) for text in sentences]
    words = [len(word) for text in sentences for word in text.split(" ")]
    assert (min(own), max(own)) == WORDS
    assert (min(words), max(words)) == WORD
    letters = "".join(sentences).replace(" ", "")
    counts = np.array([letters.count(one) for one in string.ascii_letters + string.digits])
    assert counts.sum() == len(letters)
    assert counts / counts.sum() == pytest.approx(1 / 62, rel=0.05)
    real = read_corpus("sts-sentences", originals("train"), builtin_cards()).texts
    found = np.quantile([len(text.split()) for text in real], [0.1, 0.9], method="lower")
    assert tuple(found) == WORDS
    assert tuple(np.quantile([len(word) for text in real for word in text.split()], [0.1, 0.9])) == WORD


def test_buckets_hold_different_words_of_falling_frequency() -> None:
    wordfreq = pytest.importorskip("wordfreq")
    buckets = [frequent_words(bucket) for bucket in (0, 1, 9)]
    assert [len(words) for words in buckets] == [10_000] * 3
    assert len({word for words in buckets for word in words}) == 30_000
    for higher, lower in pairwise(buckets):
        assert wordfreq.zipf_frequency(higher[-1], "en", "large") >= wordfreq.zipf_frequency(lower[0], "en", "large")


def test_without_wordfreq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(DataUnavailableError, match="wordfreq") as caught:
        frequent_words(0)
    assert "mirrorbench[words]" in caught.value.hint
