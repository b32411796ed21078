"""Target words: their tokens are those of the span, in every script and tokenizer, and remain in the window."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.plain_transformers import hidden_states, opened
from helpers.random_models import ARCHITECTURES, Models, encoder
from helpers.suite_marks import few
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer, SentencePieceUnigramTokenizer, processors

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.models.pooling import LostTargets, Pooling
from mirrorbench.models.targets import covering, cut_to

TRAINING = [
    "The quick brown fox jumps over the lazy dog, again and again.",
    "naïve café, Ærøskøbing, żółw, über-cool: semi-final!",
    "Быстрая коричневая лиса перепрыгивает через собаку",
    "敏捷的棕色狐狸跳过了懒狗。 東京都は日本の首都",
    "الثعلب البني السريع يقفز فوق الكلب",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है",
    "สุนัขจิ้งจอกสีน้ำตาล 빠른 갈색 여우가 게으른 개를",
] * 3
ALPHABET = sorted({c for line in TRAINING for c in line} | set(" \t\n  ﬁ½ǆ😀\u0301\u200b[]'#▁_09"))


@cache
def tokenizer(type_: str) -> ByteLevelBPETokenizer | SentencePieceUnigramTokenizer:
    """Train a tokenizer of bytes, with spaces inside tokens, or one that normalises texts."""
    ends = ["[CLS]", "[SEP]"]
    if type_ == "bytes":
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(
            TRAINING, vocab_size=360, special_tokens=ends, show_progress=False
        )
    else:
        trained = SentencePieceUnigramTokenizer()
        trained.train_from_iterator(TRAINING, 220, False, ["[UNK]", *ends], unk_token="[UNK]")
    ids = [(name, trained.token_to_id(name)) for name in ends]
    trained.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ids
    )
    return trained


@st.composite
def targets(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    """Draw a text and one to three non-empty spans in it."""
    words = [word for line in TRAINING for word in line.split()]
    pieces = st.one_of(
        st.sampled_from(words), st.text(st.sampled_from(ALPHABET), min_size=1, max_size=8)
    )
    text = draw(st.sampled_from([" ", "", "  "])).join(
        draw(st.lists(pieces, min_size=1, max_size=8))
    )
    spans = []
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text) - 1))
        spans.append((start, draw(st.integers(start + 1, len(text)))))
    return text, spans


@pytest.mark.parametrize("type_", ["bytes", "unigram"])
@settings(max_examples=40)
@given(targets())
@example(("  a  b", [(0, 3)]))
@example(("a b", [(1, 2)]))
@example(("😀😀", [(1, 2)]))
def test_target_tokens_cover_exactly_the_span(
    type_: str, drawn: tuple[str, list[tuple[int, int]]]
) -> None:
    text, spans = drawn
    encoding = tokenizer(type_).encode(text)
    characters = [set(range(start, end)) for start, end in encoding.offsets]
    chosen = set(covering(encoding.offsets, text, spans).tolist())
    wanted = {i for start, end in spans for i in range(start, end) if not text[i].isspace()}
    covered = set().union(*characters)
    assert wanted & covered == wanted & set().union(*(characters[token] for token in chosen))
    assert all(characters[token] & wanted for token in chosen)
    assert all(
        not characters[token] & wanted for token in range(len(characters)) if token not in chosen
    )


@settings(max_examples=100)
@given(
    st.integers(0, 60),
    st.data(),
    st.integers(3, 70),
    st.sampled_from([(1, 1), (0, 1), (2, 0), (0, 0)]),
)
def test_truncation_keeps_the_target(
    n: int, data: st.DataObject, max_length: int, special: tuple[int, int]
) -> None:
    before, after = special
    ids = [-1] * before + list(range(n)) + [-2] * after
    target = sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else []
    text = np.arange(before, before + n)
    room = max_length - before - after
    kept, positions = cut_to(ids, np.array(target, dtype=np.int64) + before, [text], room)
    assert len(kept) == min(len(ids), max_length)
    assert (kept[:before], kept[len(kept) - after :]) == (ids[:before], ids[len(ids) - after :])
    content = kept[before : len(kept) - after]
    room = len(content)
    start = content[0] if content else 0
    assert content == list(range(start, start + room))
    assert [kept[p] for p in positions] == [t for t in target if t in content]
    if not target:
        assert start == 0
    elif target[-1] - target[0] < room:
        assert {target[0], target[-1]} <= set(content)
        left = target[0] - start
        right = start + room - 1 - target[-1]
        assert abs(left - right) <= 1 or start in (0, n - room)
    else:  # nothing could show all of it; the first tokens are shown
        assert target[0] in content


WORDS = ["the", "bank", "of", "the", "river", "was", "steep", "and", "green", "in", "may"]


def word_input(words: list[str], *targets: int) -> TextInput:
    """Return a text of words, of which some are targets."""
    spans = []
    for target in targets:
        start = sum(len(word) + 1 for word in words[:target])
        spans.append((start, start + len(words[target])))
    return TextInput(" ".join(words), tuple(spans))


def naive(path: Path, item: TextInput, layers: slice) -> np.ndarray:
    """Pool one text, token by token, from the hidden states of plain transformers."""
    states, offsets = hidden_states(path, item.text)
    wanted = {
        c for start, end in item.spans for c in range(start, end) if not item.text[c].isspace()
    }
    inside = [not wanted.isdisjoint(range(start, end)) for start, end in offsets]
    return np.asarray(states[layers].mean(0)[inside].mean(0))


def test_short_last_copy_is_not_cut_at_the_left() -> None:
    longer, shorter = np.arange(1, 12), np.arange(12, 21)
    target = np.array([], dtype=np.int64)
    kept, _ = cut_to(list(range(22)), target, [longer, shorter], 10, keep_end=True)
    assert kept == [*range(11), *range(12, 22)]


@pytest.mark.parametrize("architecture", few(ARCHITECTURES, "bert", "roberta"))
def test_target_vector_averages_sub_words_and_layers(
    random_model: Models, architecture: str
) -> None:
    path = random_model(architecture)
    items = [
        word_input(WORDS, 1),
        word_input(WORDS, 0),
        word_input(WORDS, 4, 6),
        word_input(["x"], 0),
    ]
    for layers, chosen in (("-1:", slice(-1, None)), ("-2:", slice(-2, None)), (":", slice(None))):
        actual = encoder(path, Pooling("target", layers)).encode(items)
        for vector, item in zip(actual, items, strict=True):
            np.testing.assert_allclose(vector, naive(path, item, chosen), atol=1e-5)


def as_released(path: Path, item: TextInput, max_length: int) -> np.ndarray:
    """Read a target between brackets as ``get_embed`` of MirrorWiC's ``src/helper.py``, one text at a time."""
    tok, model = opened(path)
    ((start, end),) = item.spans
    text = f"{item.text[:start]}[ {item.text[start:end]} ]{item.text[end:]}"
    ids = tok(text, truncation=True, max_length=max_length)["input_ids"]
    opening, closing = tok.convert_tokens_to_ids(["[", "]"])
    first = ids.index(opening)
    last = ids.index(closing) - 1
    ids = [token for token in ids if token not in (opening, closing)]
    with torch.no_grad():
        output = model(torch.tensor([ids]), output_hidden_states=True)
    states = torch.stack(output.hidden_states)[-2:].mean(0)
    return states[0, first:last].mean(0).numpy()


@pytest.mark.parametrize("architecture", few(["bert", "deberta", "modernbert"]))
def test_marked_targets_equal_the_released_code(random_model: Models, architecture: str) -> None:
    path = random_model(architecture)
    long = random.Random(1).choices(WORDS, k=60)
    items = [
        word_input(WORDS, 0),
        word_input(WORDS, 6),
        word_input(long, 3),
        TextInput("no riverbanks", ((8, 12),)),  # inside a word, which the marks divide
        TextInput("ab " * 18 + "cd", ((24, 26),)),  # too long with its marks alone
    ]
    actual = encoder(path, Pooling("target-marked", "-2:", 40)).encode(items)
    for vector, item in zip(actual, items, strict=True):
        np.testing.assert_allclose(vector, as_released(path, item, 40), atol=1e-5)
    # What a cut at the end would lose, where the released code stops, is read in a window.
    items = [word_input(long, target) for target in (3, 30, 59)]
    reader = encoder(path)
    poolings = [Pooling("target", max_length=40), Pooling("target-marked", max_length=40)]
    window, marked = reader.encode_pooled(items, poolings)
    np.testing.assert_allclose(marked[1:], window[1:], atol=1e-6)
    assert np.abs(marked[0] - window[0]).max() > 1e-3
    assert [reader.lost_targets(items, pooling).texts_cut for pooling in poolings] == [3, 2]


def test_lost_targets_are_counted(random_model: Models) -> None:
    path = random_model("bert")
    pooling = Pooling("target", max_length=10)
    reader = encoder(path, pooling)
    items = [
        word_input(WORDS, 1),  # moved, not lost
        word_input(["a", "x" * 30, "b"], 1),  # longer than the window
        TextInput("some bank", ((4, 5),)),  # a space
        TextInput("a\u200bb", ((1, 2),)),  # a character that the tokenizer drops
        TextInput("  a", ((0, 2),)),  # the spaces around the text
    ]
    begun, whole = reader.encode(
        [TextInput("  the bank", ((1, 5),)), TextInput("the bank", ((0, 3),))]
    )
    np.testing.assert_allclose(begun, whole, atol=1e-6)
    assert reader.lost_targets(items, pooling) == LostTargets(
        texts_cut=2, targets_cut=1, targets_missing=3
    )
    mean = encoder(path, Pooling("mean", max_length=10))
    np.testing.assert_allclose(reader.encode(items)[2:], mean.encode(items)[2:], atol=1e-6)
    text = "the bank was steep"  # a text without a target is its own
    actual = reader.encode(
        [TextInput(text), TextInput(text, ((0, len(text)),)), TextInput(f" {text} ")]
    )
    np.testing.assert_allclose(actual, np.tile(actual[:1], (3, 1)), atol=1e-6)
    assert reader.encode([TextInput("")]).shape == (1, 32)
    reader.transformer.tokenizer = SimpleNamespace(is_fast=False)
    with pytest.raises(UsageError, match="pooling=target"):
        reader.transformer.locate([TextInput("a", ((0, 1),))], 10)
