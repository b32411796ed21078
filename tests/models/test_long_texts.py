"""Beginnings of long texts that hold all tokens of the window."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.random_models import Models
from helpers.sentence_transformer_directories import as_sentence_transformers
from helpers.suite_marks import few
from helpers.tokenizer_directories import KINDS, TEXTS, Kind
from tokenizers import normalizers
from transformers import CanineTokenizer, PreTrainedTokenizerFast

import mirrorbench
from mirrorbench.core.errors import UnreadableTextError
from mirrorbench.models import long_texts
from mirrorbench.models.backbones import embedded_directory
from mirrorbench.models.long_texts import count_longer, shorten, token_ids
from mirrorbench.models.opening import read_tokenizer

WINDOW = 12
PIECES = [
    *(word for text in TEXTS for word in text.split()),
    "e\u0301\u0302\u0327",  # marks on a letter
    "\u0301",  # a mark after white space
    "你好世界",
    "東京タワー",
    "\u200d",
    "👩\u200d👩\u200d👧",
    "Σ",
    "ﬁ",
    "x" * 150,
    "ab12" * 60,
    "0123456789" * 20,
    "<mask>",
    "[SEP]",
    "…",
    "don't",
]
SPACES = [" ", " ", " ", "  ", " " * 40, "\n", "\r\n", "\t", "\u3000", "\u00a0", "", ""]


def random_text(draws: random.Random) -> str:
    pieces = draws.choices(PIECES, k=draws.randint(100, 400))
    return "".join(piece + draws.choice(SPACES) for piece in pieces)


def whole_ids(text: str, tokenizer: Any) -> list[int]:
    ids: list[int] = tokenizer([text], truncation=True, max_length=WINDOW)["input_ids"][0]
    return ids


def check_shortened(tokenizer: Any, n: int) -> None:
    draws = random.Random(5)
    texts = [random_text(draws) for _ in range(n)]
    shortened = shorten(texts, tokenizer, WINDOW)
    assert sum(map(len, shortened)) < sum(map(len, texts)) / 2
    for text, beginning in zip(texts, shortened, strict=True):
        assert text.startswith(beginning)
        assert whole_ids(beginning, tokenizer) == whole_ids(text, tokenizer)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    KINDS["bert uncased"].write(tmp_path)
    return read_tokenizer(tmp_path)


@pytest.mark.parametrize("n", [10, pytest.param(1000, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", KINDS)
def test_shortened_texts_have_the_same_tokens(name: str, n: int, tmp_path: Path) -> None:
    KINDS[name].write(tmp_path)
    check_shortened(read_tokenizer(tmp_path), n)


def as_one_word(model: str) -> Any:
    """As in Llama and Gemma, whose tokenizers do not divide a text before they merge its characters."""
    whole = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained = Kind("llama", model, normalizer=whole, first="<s>").trained()
    return PreTrainedTokenizerFast(tokenizer_object=trained)


def test_texts_of_one_pretokenized_word_are_shortened() -> None:
    check_shortened(as_one_word("bytes"), 20)


def test_pieces_of_several_words_keep_a_text_whole() -> None:
    texts = ["a" + " a" * 5000, "the lazy dog " * 500]
    assert shorten(texts, as_one_word("unigram"), WINDOW) == texts


def test_slow_tokenizer_reads_a_beginning_too() -> None:
    tokenizer = CanineTokenizer()  # written in Python
    text = "a word " * 1000
    (beginning,) = shorten([text], tokenizer, WINDOW)
    assert len(beginning) < 1000
    assert whole_ids(beginning, tokenizer) == whole_ids(text, tokenizer)


def test_beginning_grows_until_the_window_is_filled(tokenizer: Any) -> None:
    empty = " " * 3000 + "a cat " * 2000  # white space alone makes no token
    (beginning,) = shorten([empty], tokenizer, WINDOW)
    assert 3000 < len(beginning) < len(empty)
    assert whole_ids(beginning, tokenizer) == whole_ids(empty, tokenizer)


def test_text_cut_at_the_left_is_left_whole(tokenizer: Any) -> None:
    tokenizer.truncation_side = "left"
    text = "a cat " * 1000 + "the dog"
    assert shorten([text], tokenizer, WINDOW) == [text]


def test_text_without_white_space_is_left_whole(tokenizer: Any) -> None:
    text = "你好世界" * 1000
    assert shorten([text], tokenizer, WINDOW) == [text]


def test_text_that_must_be_whole_is_limited(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_texts, "MOST_CHARACTERS", 5000)
    shorten(["a cat " * 10_000, "好" * 5000], tokenizer, WINDOW)
    with pytest.raises(UnreadableTextError, match=r"5,001 characters.* no white space"):
        shorten(["short", "好" * 5001], tokenizer, WINDOW)
    with pytest.raises(UnreadableTextError, match="first 5,000 characters have too few tokens"):
        shorten([" " * 6000 + "a cat " * 100], tokenizer, WINDOW)
    tokenizer.truncation_side = "left"
    with pytest.raises(UnreadableTextError, match="cuts it at the left"):
        shorten(["a cat " * 1000], tokenizer, WINDOW)


def test_texts_longer_than_the_window_are_counted(tokenizer: Any) -> None:
    texts = ["a cat", "a dog " * 6, "好" * WINDOW, " " * 5000 + "a cat", "the lazy dog " * 1000]
    lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]]
    for window in (WINDOW, 4, lengths[1], lengths[1] - 1):
        assert count_longer(texts, tokenizer, window) == sum(n > window for n in lengths)


@pytest.mark.parametrize("name", few([*KINDS], 0, 12, 24, 36))
def test_counts_of_longer_texts_match_the_tokenizer(name: str, tmp_path: Path) -> None:
    KINDS[name].write(tmp_path)
    tokenizer = read_tokenizer(tmp_path)
    draws = random.Random(3)
    texts = [random_text(draws)[: draws.randint(0, 150)] for _ in range(100)]
    texts += [character * n for character in "ﷺﬁ\u3000½" for n in range(0, 40, 3)]
    lengths = [len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]]
    for window in (8, 20, 64):
        assert count_longer(texts, tokenizer, window) == sum(n > window for n in lengths)


def test_counts_divide_no_word() -> None:
    """WordPiece makes one token of a word of more than 100 characters, and many of its beginning."""
    draws = random.Random(3)
    words = ["".join(draws.choices("abcdef0123456789", k=119)) for _ in range(40)]
    assert count_longer([" ".join(words)], read_tokenizer(embedded_directory()), 64) == 0


def test_texts_are_tokenised_in_parts_of_limited_size(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a cat", "a dog and a fox", "", "the lazy dog"] * 5
    expected = token_ids(texts, tokenizer, WINDOW)
    monkeypatch.setattr(long_texts, "MOST_CHARACTERS", 25)
    assert [len(part) for part in long_texts.parts_of_texts(texts)][:3] == [3, 2, 2]
    assert token_ids(texts, tokenizer, WINDOW) == expected


@pytest.mark.parametrize(
    "spec", ["{}:pooling=mean", "{}:pooling=mean,prompt=of%20{{text}}%20now", "sbert:path={}"]
)
def test_shortened_texts_keep_their_vectors(
    spec: str, random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = as_sentence_transformers(
        random_model("bert"), tmp_path / "model", "Transformer", "Pooling"
    )
    texts = [f"quick zebras {n} and lazy dogs " * 300 for n in range(3)]
    vectors = mirrorbench.load(spec.format(model), device="cpu").encode(texts)
    monkeypatch.setattr(long_texts, "CHARACTERS_PER_TOKEN", 10_000)  # nothing is long
    whole = mirrorbench.load(spec.format(model), device="cpu").encode(texts)
    np.testing.assert_array_equal(vectors, whole)


def test_line_of_an_unreadable_text_is_named(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_texts, "MOST_CHARACTERS", 50_000)
    file = tmp_path / "texts.jsonl"
    file.write_text(json.dumps({"s": "short"}) + "\n\n" + json.dumps({"s": "好" * 50_001}) + "\n")
    session = mirrorbench.Session(device="cpu", offline=True)
    with pytest.raises(UnreadableTextError, match=r"texts\.jsonl, line 3: the text has 50,001"):
        session.encode(str(file), f"{random_model('bert')}:pooling=mean", io.StringIO(), column="s")
    file.write_text(json.dumps({"s": "a [word] in a text " + "好" * 50_001}))
    with pytest.raises(UnreadableTextError, match=r"line 1: .* it has a target word"):
        session.encode(
            str(file),
            f"{random_model('bert')}:pooling=target",
            io.StringIO(),
            column="s",
            words_in_context=True,
        )
