"""Which pairs the methods learn from, with which recipes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from augmented import AUGMENTATIONS, opened
from hypothesis import given
from hypothesis import strategies as st
from random_models import Models

from mirrorbench.core.errors import TuningError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.plugins import Plugins
from mirrorbench.models.pooling import Pooling
from mirrorbench.training import methods
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import (
    PairMaker,
    Pairs,
    mirrorwic_preset,
    name_pairs,
    pairs_preset,
    sap_preset,
    text_pairs,
    word_spans,
    words_in_context,
)
from mirrorbench.training.recipes import Recipe, override

SENTENCES = [
    "He sat on the bank of the river, and watched the boats.",
    "The bank raised its interest rates (again) in May 2009.",
    "Semi-final: nobody scored!",
    "Word",
]


def word_maker(rate: int, seed: int = 0, sides: int = 1, protocol: str = "paper") -> PairMaker:
    recipe = Recipe(0.04, 1, 50, "target", augment=(("span_mask", float(rate)),), sides=sides)
    return PairMaker(recipe, np.random.default_rng(seed), "[MASK]", protocol, AUGMENTATIONS)


def target(item: TextInput) -> str:
    ((start, end),) = item.spans
    return item.text[start:end]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The bank (again), 2009!", ["The", "bank", "again"]),
        ("don't semi-final 1st", ["don't", "semi-final", "1st"]),
        ("12 + 34 …", []),
        ("", []),
        ("Она пришла.", ["Она", "пришла"]),
        ("कुत्ते के ऊपर", ["कुत्ते", "के", "ऊपर"]),
        ("敏捷的狐狸", ["敏捷", "的狐", "狸"]),
        ("iPhone在中国。", ["iPhone", "在中", "国"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


@given(st.text(st.sampled_from("ab .,-中国कि'\n"), max_size=20))
def test_words_are_disjoint_and_start_and_end_in_letters(text: str) -> None:
    spans = word_spans(text)
    assert all(start < end for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert all(any(c.isalpha() for c in text[start:end]) for start, end in spans)
    assert not any(c.isspace() for start, end in spans for c in text[start:end])


@pytest.mark.parametrize("rate", [0, 1, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_the_target_stays_intact(rate: int, seed: int) -> None:
    pairs = words_in_context(SENTENCES, word_maker(rate, seed))
    assert len(pairs.left) == len(pairs.right) == len(SENTENCES)
    assert pairs.groups is None
    for text, left, right in zip(SENTENCES, pairs.left, pairs.right, strict=True):
        assert left.text == text
        assert target(left) == target(right)
        assert (*left.spans[0],) in word_spans(text)
        ((start, end),) = right.spans
        old_start, old_end = left.spans[0]
        for old, new in ((text[:old_start], right.text[:start]), (text[old_end:], right.text[end:])):
            assert new.count("[MASK]") == (rate > 0 and len(old) > rate)
            kept = new.replace("[MASK]", "")
            assert sum(not c.isspace() for c in old) - sum(not c.isspace() for c in kept) <= rate
            assert not new or old[:1].isspace() or not new[:1].isspace() or "[MASK]" in new


def test_the_target_is_set_off_as_in_the_text() -> None:
    """Without spaces only the mask token is; elsewhere a byte-level tokenizer would read another word without one."""
    for seed in range(40):
        made = words_in_context(["一二三四五六七八九十", "bcdfgh jklmnp qrstvw"], word_maker(3, seed)).right
        (head, tail), (before, after) = ((i.text[: i.spans[0][0]], i.text[i.spans[0][1] :]) for i in made)
        assert not head.endswith(" ") or head.endswith("[MASK] ")
        assert not tail.startswith(" ") or tail.startswith(" [MASK]")
        assert not before or before.endswith(" ")
        assert not after or after.startswith(" ")


def test_the_draw_is_seeded_and_one_side_changed_or_both() -> None:
    assert words_in_context(SENTENCES, word_maker(5, 1)) == words_in_context(SENTENCES, word_maker(5, 1))
    drawn = {target(words_in_context(SENTENCES[:1], word_maker(5, seed)).left[0]) for seed in range(60)}
    assert len(drawn) == len({SENTENCES[0][slice(*span)] for span in word_spans(SENTENCES[0])})
    pairs = words_in_context(SENTENCES, word_maker(0))
    assert pairs.left == pairs.right
    pairs = words_in_context(SENTENCES[:2], word_maker(5, 0, sides=2))
    assert all("[MASK]" in item.text for item in (*pairs.left, *pairs.right))
    assert pairs.left != pairs.right
    # Texts without a word are left out.
    assert len(words_in_context(["1 2 3", *SENTENCES, ""], word_maker(5)).left) == len(SENTENCES)


def test_the_released_code_takes_shorter_sentences_and_their_first_words() -> None:
    words = [f"w{i}" for i in range(35)]
    sentences = ["a cat sat", "the cat sat", " ".join(words), "x" * 148, "x" * 149]
    assert len(sentences[2]) < 149
    drawn = [words_in_context(sentences, word_maker(5, seed, protocol="released")).left for seed in range(200)]
    assert {tuple(item.text for item in items) for items in drawn} == {tuple(sentences[1:4])}
    assert {target(items[1]) for items in drawn} == set(words[:20])
    anywhere = {target(words_in_context(sentences[2:3], word_maker(5, seed)).left[0]) for seed in range(400)}
    assert anywhere == set(words)
    for before, masked in (("abcdefgh ", False), ("abcdefghi ", True)):  # less than ten characters are left alone
        made = [words_in_context([f"{before}target"], word_maker(3, seed, protocol="released")) for seed in range(20)]
        corrupted = ["[MASK]" in pairs.right[0].text for pairs in made if target(pairs.left[0]) == "target"]
        assert corrupted == [masked] * len(corrupted) != []


@pytest.mark.parametrize(
    ("architecture", "span", "dropout"), [("bert", 10, 0.4), ("roberta", 0, 0.3), ("deberta", 1, 0.3)]
)
def test_the_papers_recipe(architecture: str, span: int, dropout: float) -> None:
    recipe = mirrorwic_preset("wic", architecture, "paper")
    assert (recipe.rate("span_mask"), recipe.rate("dropout")) == (span, dropout)
    assert (recipe.temperature, recipe.lr, recipe.epochs, recipe.batch_size) == (0.04, 2e-5, 1, 200)
    assert (recipe.train_max_length, recipe.pooling, recipe.layers) == (50, "target", "-4:")
    released = mirrorwic_preset("wic", architecture, "released")
    assert (released.epochs, released.rate("dropout"), released.loss) == (2, 0.4, "ntxent")


def test_tuning_draws_the_views_of_a_word_together(random_model: Models) -> None:
    preset = mirrorwic_preset("wic", "roberta", "paper")
    recipe = override(preset, {"lr": 1e-3, "epochs": 12, "layers": "-2:", "span_mask": 2}, AUGMENTATIONS)
    texts = [f"{a} {b} {c}" for a in ("red", "old", "big") for b in ("cat", "dog") for c in ("ran", "sat", "ate")]
    transformer = opened(random_model("roberta"), recipe)
    report = tune_backbone(transformer, texts, recipe, 0, AUGMENTATIONS, pairs=words_in_context)
    assert report.losses[-1] < report.losses[0]


def pair_maker() -> PairMaker:
    recipe = pairs_preset("sentence", "bert", "paper")
    return PairMaker(recipe, np.random.default_rng(0), "[MASK]", "paper", AUGMENTATIONS)


def test_the_two_texts_are_the_views() -> None:
    made = text_pairs(["a cat\tthe cat", "x || y"], pair_maker())
    assert [item for item in made.left] == [TextInput("a cat"), TextInput("x")]
    assert [item for item in made.right] == [TextInput("the cat"), TextInput("y")]
    recipe = pairs_preset("word", "roberta", "paper")  # the level's, without a mask
    assert (recipe.temperature, recipe.rate("span_mask"), recipe.rate("dropout")) == (0.2, 0, 0.1)


def test_pairs_that_share_a_text_are_one_group() -> None:
    """By hand: a-b, b-e, e-c and c-d hang together."""
    groups = list(text_pairs(["a||b", "c||d", "b||e", "f||g", "e||c", "h||h"], pair_maker()).groups)
    assert len({groups[row] for row in (0, 1, 2, 4)}) == 1
    assert len(set(groups)) == 3


def test_no_pair() -> None:
    for line in ("alone", "a||b||c", "a||", "\tb", "a\tb\tc"):
        with pytest.raises(TuningError, match="no pair"):
            text_pairs(["a||b", line], pair_maker())


NAMES = [f"C{i}\t{kind} {word}" for i, word in enumerate(["liver", "lung", "heart", "skin", "bone"])
         for kind in ("cancer of the", "tumour of", "malign")]  # fmt: skip


def concept_pairs(texts: Sequence[str]) -> Pairs:
    recipe = sap_preset("phrase", "bert", "paper")
    return name_pairs(texts, PairMaker(recipe, np.random.default_rng(0), "[MASK]", "paper", AUGMENTATIONS))


def test_all_pairs_of_a_concepts_names(monkeypatch: pytest.MonkeyPatch) -> None:
    made = concept_pairs(
        ["C1||heart attack", "C2||cold", "C1||MI", "C1||myocardial infarction", "C2||common cold", "C3||x"]
    )
    found = set(zip(made.groups or (), [i.text for i in made.left], [i.text for i in made.right], strict=True))
    assert found == {
        ("C1", "heart attack", "MI"),
        ("C1", "heart attack", "myocardial infarction"),
        ("C1", "MI", "myocardial infarction"),
        ("C2", "cold", "common cold"),
    }
    monkeypatch.setattr(methods, "MOST_PAIRS", 7)  # a concept with many names does not dominate
    made = concept_pairs([*(f"C1||name {i}" for i in range(30)), "C2||a", "C2||b"])
    assert (made.groups or []).count("C1") == 7  # type: ignore[attr-defined]
    assert len({(a.text, b.text) for a, b in zip(made.left, made.right, strict=True)}) == 8


def test_the_two_formats_agree() -> None:
    one, other = concept_pairs([line.replace("\t", "||") for line in NAMES]), concept_pairs(NAMES)
    assert one == other
    names: dict[str, list[str]] = {}
    for line in NAMES:
        names.setdefault(line.split("\t")[0], []).append(line.split("\t")[1])
    ready = concept_pairs([f"{c}||{a} || {b}" for c, n in names.items() for a, b in combinations(n, 2)])
    assert ready == other


def test_what_is_no_training_data() -> None:
    for texts, message in (
        (["C1||a||b", "just a name"], "'just a name' is no name with an id"),
        (["C1||a||b||c"], "is no name with an id"),
        (["C1||"], "is no name with an id"),
        (["C1||a", "C2||b", "C1||a"], "no two names of the corpus share an id"),
    ):
        with pytest.raises(TuningError, match=message):
            concept_pairs(texts)


def test_tuning_draws_the_names_of_a_concept_together(random_model: Models, plugins: Plugins) -> None:
    preset = plugins.methods["sap"].preset("phrase", "bert", "paper")
    recipe = override(preset, {"lr": 1e-3, "epochs": 8, "dropout": 0}, AUGMENTATIONS)
    assert (recipe.loss, recipe.batch_size) == ("multi-similarity", 256)
    assert (recipe.pooling, recipe.train_max_length) == ("cls", 25)
    transformer, gaps = opened(random_model("bert"), recipe), []
    groups = torch.tensor([int(line[1]) for line in NAMES])
    same = groups[:, None] == groups
    for tuned in (False, True):
        if tuned:
            tune_backbone(transformer, NAMES, recipe, 0, AUGMENTATIONS, pairs=plugins.methods["sap"].pairs)
        ids = transformer.tokenize([line.split("\t")[1] for line in NAMES], 25)
        with torch.no_grad():
            vectors = torch.nn.functional.normalize(transformer.forward(ids, [Pooling("cls")])[0], dim=1)
        cosines = vectors @ vectors.T
        # Of names of one concept, each with itself among them, minus those of names of different concepts.
        gaps.append(float(cosines[same].mean() - cosines[~same].mean()))
    assert gaps[1] > gaps[0] + 0.05
