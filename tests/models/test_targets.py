"""Target words: the tokens chosen are those of the span, in every script and tokenizer, and stay in the window."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_models import ARCHITECTURES, Models, encoder
from suites import few
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.errors import UsageError
from mirrorbench.core.inputs import LostTargets, TextInput
from mirrorbench.models.batching import Ragged
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.targets import covering, cut_to, stripped, target_weights, window
from mirrorbench.models.transformer import load_transformer

CPU = torch.device("cpu")
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
KINDS = ("wordpiece", "byte-bpe", "byte-bpe-trimmed", "unigram")


@cache
def tokenizer(kind: str) -> Tokenizer:
    if kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=160, special_tokens=["[UNK]", "[CLS]", "[SEP]"])
    elif kind.startswith("byte-bpe"):
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind.endswith("trimmed"))
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=["[CLS]", "[SEP]"], initial_alphabet=alphabet)
    else:
        made = Tokenizer(models.Unigram())
        made.normalizer = normalizers.NFKC()
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=220, special_tokens=["[UNK]", "[CLS]", "[SEP]"], unk_token="[UNK]", show_progress=False
        )
    trainer.show_progress = False
    made.train_from_iterator(TRAINING, trainer)
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    template = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    if kind == "byte-bpe-trimmed":
        template = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
    made.post_processor = template
    return made


@st.composite
def targets(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    """A text, and one to three spans in it that are not empty."""
    words = [word for line in TRAINING for word in line.split()]
    pieces = st.one_of(st.sampled_from(words), st.text(st.sampled_from(ALPHABET), min_size=1, max_size=8))
    text = draw(st.sampled_from([" ", "", "  "])).join(draw(st.lists(pieces, min_size=1, max_size=8)))
    spans = []
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text) - 1))
        spans.append((start, draw(st.integers(start + 1, len(text)))))
    return text, spans


def visible(text: str, spans: list[tuple[int, int]]) -> set[int]:
    return {i for start, end in spans for i in range(start, end) if not text[i].isspace()}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(targets())
@example(("  a  b", [(0, 3)]))
@example(("a b", [(1, 2)]))
@example(("😀😀", [(1, 2)]))
def test_the_tokens_chosen_cover_exactly_the_span(kind: str, drawn: tuple[str, list[tuple[int, int]]]) -> None:
    text, spans = drawn
    encoding = tokenizer(kind).encode(text)
    characters = [set(range(start, end)) for start, end in encoding.offsets]
    chosen = set(covering(encoding.offsets, text, spans).tolist())
    wanted = visible(text, spans)
    covered = set().union(*characters)
    assert wanted & covered == wanted & set().union(*(characters[token] for token in chosen))
    assert all(characters[token] & wanted for token in chosen)
    assert all(not characters[token] & wanted for token in range(len(characters)) if token not in chosen)


@settings(max_examples=50)
@given(st.integers(1, 40), st.lists(st.integers(0, 39), min_size=1, unique=True), st.integers(1, 45))
def test_the_window_is_full_and_shows_the_target(n: int, target: list[int], room: int) -> None:
    positions = np.array(sorted(p for p in target if p < n), dtype=np.int64)
    start = window(n, positions, room)
    assert 0 <= start <= max(0, n - room)
    if not len(positions):
        assert start == 0
    elif positions[-1] - positions[0] < room:
        assert start <= positions[0]
        assert positions[-1] < start + room
        left, right = positions[0] - start, start + room - 1 - positions[-1]
        assert abs(left - right) <= 1 or start in (0, max(0, n - room))
    else:  # nothing could show all of it; the first tokens are shown
        assert start <= positions[0] < start + room


@settings(max_examples=50)
@given(st.integers(0, 60), st.data(), st.integers(3, 70), st.sampled_from([(1, 1), (0, 1), (2, 0), (0, 0)]))
def test_a_cut_keeps_the_template_and_a_piece_of_the_text(
    n: int, data: st.DataObject, max_length: int, special: tuple[int, int]
) -> None:
    before, after = special
    ids = [-1] * before + list(range(100, 100 + n)) + [-2] * after
    target = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else [], dtype=np.int64) + before
    kept, positions = cut_to(ids, target, max_length, special)
    assert len(kept) == min(len(ids), max_length)
    assert kept[:before] == ids[:before]
    assert kept[len(kept) - after :] == ids[len(ids) - after :]
    content = kept[before : len(kept) - after]
    assert content == list(range(content[0], content[0] + len(content))) if content else n == 0
    assert [kept[p] for p in positions] == [ids[t] for t in target if ids[t] in content]


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=5))
def test_weights_average(sets: list[set[int]]) -> None:
    values = np.random.default_rng(0).normal(size=10)
    found = target_weights(Ragged.of([sorted(s) for s in sets]), 10) @ values
    np.testing.assert_allclose(found, [np.mean([values[i] for i in s]) for s in sets], atol=1e-6)


@given(st.text(" \tab", max_size=6), st.text("abc", min_size=1, max_size=5), st.text(" \nab", max_size=6))
def test_stripping_moves_the_spans(before: str, target: str, after: str) -> None:
    item = TextInput(before + target + after, ((len(before), len(before) + len(target)),))
    text, ((start, end),) = stripped(item)
    assert text == item.text.strip()
    assert text[start:end] == target
    assert stripped(TextInput(item.text)) == (text, ((0, len(text)),))
    assert stripped(TextInput("  a", ((0, 2),))) == ("a", ((0, 0),))  # in the spaces around


# Through a model


WORDS = ["the", "bank", "of", "the", "river", "was", "steep", "and", "green", "in", "may"]


def word_input(words: list[str], *targets: int) -> TextInput:
    text = " ".join(words)
    starts = [len(" ".join(words[:t])) + (t > 0) for t in targets]
    return TextInput(text, tuple((s, s + len(words[t])) for s, t in zip(starts, targets, strict=True)))


@cache
def opened(path: Path) -> tuple[Any, Any]:
    return AutoModel.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)


def naive(path: Path, item: TextInput, layers: slice) -> np.ndarray:
    """One text at a time, token by token, from the hidden states of plain transformers."""
    model, tok = opened(path)
    batch = tok(item.text, return_offsets_mapping=True, return_tensors="pt")
    offsets = batch.pop("offset_mapping")[0].tolist()
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        states = torch.stack(model(**batch, output_hidden_states=True).hidden_states)[:, 0].double()[layers].mean(0)
    rows = []
    for row, (start, end) in enumerate(offsets):
        if any(not item.text[c].isspace() for c in range(start, end) for s, e in item.spans if s <= c < e):
            rows.append(states[row].numpy())
    return np.mean(rows, axis=0)


@pytest.mark.parametrize("architecture", few(ARCHITECTURES, "bert", "roberta"))
def test_the_vector_is_the_mean_over_sub_words_and_layers(random_model: Models, architecture: str) -> None:
    path = random_model(architecture)
    items = [word_input(WORDS, 1), word_input(WORDS, 0), word_input(WORDS, 4, 6), word_input(["x"], 0)]
    for layers, chosen in (("-1:", slice(-1, None)), ("-2:", slice(-2, None)), (":", slice(None))):
        found = encoder(path, Pooling("target", layers)).encode(items)
        for vector, item in zip(found, items, strict=True):
            np.testing.assert_allclose(vector, naive(path, item, chosen), atol=1e-5)


@pytest.mark.parametrize("architecture", few(["bert", "roberta", "deberta-v2"], 0, 1))
def test_a_window_around_the_target(random_model: Models, architecture: str) -> None:
    path = random_model(architecture)
    words = random.Random(1).choices(WORDS, k=60)
    model = load_transformer(path, CPU)
    for target in (0, 30, 59):
        located = model.locate([word_input(words, target)], 40)
        assert (located.cut, located.missing) == (0, 0)
        ids, positions = located.ids[0], located.targets[0]
        assert len(ids) == 40
        whole = model.tokenizer(" ".join(words))["input_ids"]
        assert (ids[0], ids[-1]) == (whole[0], whole[-1])
        assert model.tokenizer.decode([ids[p] for p in positions]).strip() == words[target]


def as_released(path: Path, item: TextInput, max_length: int) -> np.ndarray:
    """As ``get_embed`` of MirrorWiC's ``src/helper.py`` reads a target between brackets, one text at a time."""
    model, tok = opened(path)
    ((start, end),) = item.spans
    text = f"{item.text[:start]}[ {item.text[start:end]} ]{item.text[end:]}"
    ids = tok(text, truncation=True, max_length=max_length)["input_ids"]
    opening, closing = tok.convert_tokens_to_ids(["[", "]"])
    first, last = ids.index(opening), ids.index(closing) - 1
    ids = [token for token in ids if token not in (opening, closing)]
    with torch.no_grad():
        states = torch.stack(model(torch.tensor([ids]), output_hidden_states=True).hidden_states)[-2:].mean(0)
    return states[0, first:last].mean(0).numpy()


@pytest.mark.parametrize("architecture", few(["bert", "deberta", "modernbert"]))
def test_marked_targets_are_read_as_in_the_released_code(random_model: Models, architecture: str) -> None:
    path = random_model(architecture)
    long = random.Random(1).choices(WORDS, k=60)
    items = [
        word_input(WORDS, 0), word_input(WORDS, 6), word_input(long, 3),
        TextInput("no riverbanks", ((8, 12),)),  # inside a word, which the marks divide
        TextInput("ab " * 18 + "cd", ((24, 26),)),  # too long with its marks alone
    ]  # fmt: skip
    found = encoder(path, Pooling("target-marked", "-2:", 40)).encode(items)
    for vector, item in zip(found, items, strict=True):
        np.testing.assert_allclose(vector, as_released(path, item, 40), atol=1e-5)
    # What a cut at the end would lose, where the released code stops, is read in a window.
    items = [word_input(long, target) for target in (3, 30, 59)]
    one, poolings = encoder(path), [Pooling(f"target{mark}", max_length=40) for mark in ("", "-marked")]
    window, marked = one.encode_pooled(items, poolings)
    np.testing.assert_allclose(marked[1:], window[1:], atol=1e-6)
    assert np.abs(marked[0] - window[0]).max() > 1e-3
    assert [one.lost_targets(items, pooling).texts_cut for pooling in poolings] == [3, 2]


def test_what_has_no_target_in_its_window_is_counted(random_model: Models) -> None:
    path = random_model("bert")
    pooling = Pooling("target", max_length=10)
    one = encoder(path, pooling)
    items = [
        word_input(WORDS, 1),  # moved, not lost
        word_input(["a", "x" * 30, "b"], 1),  # longer than the window
        TextInput("some bank", ((4, 5),)),  # a space
        TextInput("a\u200bb", ((1, 2),)),  # a character that the tokenizer drops
    ]
    assert one.lost_targets(items, pooling) == LostTargets(texts_cut=2, targets_cut=1, targets_missing=2)
    mean = encoder(path, Pooling("mean", max_length=10))
    np.testing.assert_allclose(one.encode(items)[2:], mean.encode(items)[2:], atol=1e-6)
    text = "the bank was steep"  # a text without a target is its own
    found = one.encode([TextInput(text), TextInput(text, ((0, len(text)),)), TextInput(f" {text} ")])
    np.testing.assert_allclose(found, np.tile(found[:1], (3, 1)), atol=1e-6)
    assert one.encode([TextInput("")]).shape == (1, 32)
    one.transformer.tokenizer = SimpleNamespace(is_fast=False)
    with pytest.raises(UsageError, match="pooling=target"):
        one.transformer.locate([TextInput("a", ((0, 1),))], 10)
