"""Counts of items with words for which an encoder has no vector."""

from __future__ import annotations

from pathlib import Path

import pytest

import mirrorbench
from mirrorbench.core.encoder_protocol import as_inputs
from mirrorbench.core.unknown_words import UnknownWords, unknown_words_of

VECTORS = "3 2\ncat 1 0\ndog 0 1\nnew-york 1 1\n"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    (tmp_path / "words.vec").write_text(VECTORS)
    return tmp_path / "words.vec"


def test_items_with_unknown_words_are_counted(words: Path) -> None:
    texts = {
        "a": ("a cat", "Dog!"),
        "b": ("cat – dog", "New-York"),
        "c": ("yak", "cat"),
        "d": ("", "dog"),
    }
    inputs = as_inputs([text for own in texts.values() for text in own])
    encoder = mirrorbench.load(f"static:path={words}")
    assert encoder.count_words(inputs) == [
        (2, 1),
        (1, 1),
        (2, 2),
        (1, 1),
        (1, 0),
        (1, 1),
        (0, 0),
        (1, 1),
    ]
    assert unknown_words_of(encoder, inputs, texts) == UnknownWords(2, 4, 1)
    transformed = mirrorbench.load(f"static:path={words},dims=1")
    assert unknown_words_of(transformed, inputs, texts) == UnknownWords(2, 4, 1)
    assert unknown_words_of(mirrorbench.load("tiny"), inputs, texts) is None


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        (UnknownWords(0, 9, 0), ""),
        (UnknownWords(3, 1900, 0), "3 of 1,900 pairs have words without a vector"),
        (
            UnknownWords(4, 20, 2),
            "4 of 20 pairs have words without a vector; in 2 a text has no other words (cosine 0)",
        ),
    ],
)
def test_sentence_names_numbers(counts: UnknownWords, sentence: str) -> None:
    assert counts.sentence("pairs") == sentence
    assert UnknownWords.of_json(counts.to_json()) == counts


def test_pairs_with_unknown_words_are_noted_in_results(words: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("sentence1,sentence2,score\ncat,dog,1\ncat,cat,5\nyak,cat,3\n")
    (result,) = mirrorbench.evaluate(f"static:path={words}", str(pairs)).results
    sentence = "1 of 3 pairs have words without a vector; in 1 a text has no other words (cosine 0)"
    assert f"static:path={words}: {sentence}" in result.notes
    assert result.encoder["unknown_words"] == {"items": 1, "of": 3, "empty": 1}
