"""Methods: their pairs and recipes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers.augmented_models import AUGMENTATIONS, opened
from helpers.random_models import Models

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.training import methods
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
from mirrorbench.training.microbatch import PairTokenizer
from mirrorbench.training.recipes import Recipe

SENTENCES = [
    "He sat on the bank of the river, and watched the boats.",
    "The bank raised its interest rates (again) in May 2009.",
    "Semi-final: nobody scored!",
    "Word",
]


def maker_of(recipe: Recipe, seed: int = 0, protocol: str = "paper") -> PairMaker:
    return PairMaker(recipe, np.random.default_rng(seed), "[MASK]", protocol, AUGMENTATIONS)


def in_context(
    texts: Sequence[str], rate: int, seed: int = 0, sides: int = 1, protocol: str = "paper"
) -> Pairs:
    recipe = Recipe(0.04, 1, 50, "target", augment=(("span_mask", float(rate)),), sides=sides)
    return words_in_context(texts, maker_of(recipe, seed, protocol))


def target(item: TextInput) -> str:
    return item.text[slice(*item.spans[0])]


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
def test_word_spans_are_found_in_several_scripts(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


@pytest.mark.parametrize("rate", [0, 1, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_masking_leaves_the_target_word_intact(rate: int, seed: int) -> None:
    pairs = in_context(SENTENCES, rate, seed)
    assert len(pairs.left) == len(pairs.right) == len(SENTENCES)
    assert pairs.groups is None
    for text, left, right in zip(SENTENCES, pairs.left, pairs.right, strict=True):
        assert left.text == text
        assert target(left) == target(right)
        assert (*left.spans[0],) in word_spans(text)
        ((start, end),) = right.spans
        old_start, old_end = left.spans[0]
        for old, new in (
            (text[:old_start], right.text[:start]),
            (text[old_end:], right.text[end:]),
        ):
            assert new.count("[MASK]") == (rate > 0 and len(old) > rate)
            kept = new.replace("[MASK]", "")
            assert sum(not c.isspace() for c in old) - sum(not c.isspace() for c in kept) <= rate
            assert not new or old[:1].isspace() or not new[:1].isspace() or "[MASK]" in new


def test_target_keeps_the_spacing_of_its_text() -> None:
    """A mask token needs no space; elsewhere a byte-level tokenizer would read a different word without one."""
    for seed in range(40):
        made = in_context(["一二三四五六七八九十", "bcdfgh jklmnp qrstvw"], 3, seed).right
        (head, tail), (before, after) = (
            (i.text[: i.spans[0][0]], i.text[i.spans[0][1] :]) for i in made
        )
        assert not head.endswith(" ") or head.endswith("[MASK] ")
        assert not tail.startswith(" ") or tail.startswith(" [MASK]")
        assert not before or before.endswith(" ")
        assert not after or after.startswith(" ")


def test_targets_are_seeded_and_both_sides_can_change() -> None:
    assert in_context(SENTENCES, 5, 1) == in_context(SENTENCES, 5, 1)
    drawn = {target(in_context(SENTENCES[:1], 5, seed).left[0]) for seed in range(60)}
    assert len(drawn) == len({SENTENCES[0][slice(*span)] for span in word_spans(SENTENCES[0])})
    pairs = in_context(SENTENCES, 0)
    assert pairs.left == pairs.right
    pairs = in_context(SENTENCES[:2], 5, sides=2)
    assert all("[MASK]" in item.text for item in (*pairs.left, *pairs.right))
    assert pairs.left != pairs.right
    # Texts without a word are left out.
    assert len(in_context(["1 2 3", *SENTENCES, ""], 5).left) == len(SENTENCES)


def test_released_protocol_limits_sentence_length_and_target_position() -> None:
    words = [f"w{i}" for i in range(35)]
    sentences = ["a cat sat", "the cat sat", " ".join(words), "x" * 148, "x" * 149]
    drawn = [in_context(sentences, 5, seed, protocol="released").left for seed in range(200)]
    assert {tuple(item.text for item in items) for items in drawn} == {tuple(sentences[1:4])}
    assert {target(items[1]) for items in drawn} == set(words[:20])
    assert {target(in_context(sentences[2:3], 5, seed).left[0]) for seed in range(400)} == set(
        words
    )
    for before, masked in (
        ("abcdefgh ", False),
        ("abcdefghi ", True),
    ):  # less than ten characters are left alone
        made = [in_context([f"{before}target"], 3, seed, protocol="released") for seed in range(20)]
        corrupted = [
            "[MASK]" in pairs.right[0].text for pairs in made if target(pairs.left[0]) == "target"
        ]
        assert corrupted == [masked] * len(corrupted) != []


@pytest.mark.parametrize(
    ("architecture", "span", "dropout"),
    [("bert", 10, 0.4), ("roberta", 0, 0.3), ("deberta", 1, 0.3)],
)
def test_method_presets_have_published_values(architecture: str, span: int, dropout: float) -> None:
    recipe = mirrorwic_preset("wic", architecture, "paper")
    assert (recipe.rate("span_mask"), recipe.rate("dropout")) == (span, dropout)
    assert (recipe.temperature, recipe.lr, recipe.epochs, recipe.batch_size) == (0.04, 2e-5, 1, 200)
    assert (recipe.train_max_length, recipe.pooling, recipe.layers) == (50, "target", "-4:")
    released = mirrorwic_preset("wic", architecture, "released")
    assert (released.epochs, released.rate("dropout"), released.loss) == (2, 0.4, "ntxent")
    recipe = sap_preset("phrase", architecture, "paper")
    assert (recipe.loss, recipe.batch_size, recipe.lr, recipe.epochs) == (
        "multi-similarity",
        256,
        2e-5,
        1,
    )
    assert (recipe.pooling, recipe.train_max_length, recipe.rate("dropout")) == ("cls", 25, 0.1)
    recipe = pairs_preset("word", architecture, "paper")  # the level's, without a mask
    assert (recipe.temperature, recipe.rate("span_mask"), recipe.rate("dropout")) == (0.2, 0, 0.1)


def paired(texts: Sequence[str]) -> Pairs:
    return text_pairs(texts, maker_of(pairs_preset("sentence", "bert", "paper")))


def test_pairs_sharing_a_text_form_one_group() -> None:
    made = paired(["a cat\tthe cat", "x || y"])
    assert made.left == [TextInput("a cat"), TextInput("x")]
    assert made.right == [TextInput("the cat"), TextInput("y")]
    groups = list(paired(["a||b", "c||d", "b||e", "f||g", "e||c", "h||h"]).groups or ())
    assert len({groups[row] for row in (0, 1, 2, 4)}) == 1  # a-b, b-e, e-c and c-d hang together
    assert len(set(groups)) == 3
    for line in ("alone", "a||b||c", "a||", "\tb", "a\tb\tc"):
        with pytest.raises(TuningError, match="is not a pair of texts"):
            paired(["a||b", line])


def concept_pairs(texts: Sequence[str]) -> Pairs:
    return name_pairs(texts, maker_of(sap_preset("phrase", "bert", "paper")))


def test_all_names_of_a_concept_are_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        "C1||heart attack",
        "C2||cold",
        "C1||MI",
        "C1||myocardial infarction",
        "C2||common cold",
        "C3||x",
    ]
    made = concept_pairs(names)
    actual = zip(
        made.groups or (), [i.text for i in made.left], [i.text for i in made.right], strict=True
    )
    ready = [
        ("C1", "heart attack", "MI"),
        ("C1", "heart attack", "myocardial infarction"),
        ("C1", "MI", "myocardial infarction"),
        ("C2", "cold", "common cold"),
    ]
    assert sorted(actual) == sorted(ready)
    assert made == concept_pairs([line.replace("||", "\t") for line in names])
    assert made == concept_pairs(["||".join(pair) for pair in ready])
    monkeypatch.setattr(methods, "MOST_PAIRS", 7)  # a concept with many names does not dominate
    made = concept_pairs([*(f"C1||name {i}" for i in range(30)), "C2||a", "C2||b"])
    assert list(made.groups or ()).count("C1") == 7
    assert len({(a.text, b.text) for a, b in zip(made.left, made.right, strict=True)}) == 8


def test_unusable_concept_corpora_are_rejected() -> None:
    for texts, message in (
        (["C1||a||b", "just a name"], "'just a name' is not a name with an id"),
        (["C1||a||b||c"], "is not a name with an id"),
        (["C1||"], "is not a name with an id"),
        (["C1||a", "C2||b", "C1||a"], "no two names of the corpus share an id"),
    ):
        with pytest.raises(TuningError, match=message):
            concept_pairs(texts)


def test_pairs_of_one_group_share_a_label(random_model: Models, plugins: Plugins) -> None:
    recipe = sap_preset("phrase", "bert", "paper")
    transformer = opened(random_model("bert"), recipe)
    lines = ["C1||a||b", "C2||c||d", "C1||e||f", "C3||g||h"]
    tokenizer = PairTokenizer(transformer, maker_of(recipe), AUGMENTATIONS)
    made = plugins.methods["sap"].pairs(lines, maker_of(recipe))
    (batch,) = tokenizer.batches(made, iter([np.array([3, 2, 0])]))
    assert batch.labels.tolist() == [2, 0, 0]
    expected = transformer.tokenize(["g", "e", "a", "h", "f", "b"], 25)
    assert [list(row) for row in batch.ids] == [list(row) for row in expected]
