from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.augmented_models import AUGMENTATIONS, opened, recipe, tuning_of
from helpers.augmented_models import TEXTS as HUNDRED
from helpers.random_models import Models
from helpers.suite_marks import few
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.loop import TuningReport, _Loop, batches, tune_backbone
from mirrorbench.training.losses import TokenizedPairs
from mirrorbench.training.methods import PairMaker, Pairs, identical_pairs, mirror_preset
from mirrorbench.training.microbatch import PairTokenizer
from mirrorbench.training.recipes import Recipe

TEXTS = [
    f"{animal} number {number} is {state}"
    for animal in ("cat", "dog", "zebra", "old whale")
    for number, state in enumerate(
        ("asleep", "awake", "hungry", "on the run", "gone", "back again")
    )
]
FAST = replace(mirror_preset("sentence", "bert", "paper"), epochs=4, batch_size=8, lr=1e-3)


@pytest.fixture
def fresh(random_model: Models) -> Callable[[Recipe], Transformer]:
    return lambda recipe=FAST: opened(random_model("bert"), recipe)


def weights(transformer: Transformer) -> torch.Tensor:
    return torch.cat(
        [p.detach().flatten() for n, p in transformer.model.named_parameters() if "pooler" not in n]
    )


def run(
    transformer: Transformer, recipe: Recipe = FAST, seed: int = 0, **options: str
) -> TuningReport:
    return tune_backbone(transformer, TEXTS, recipe, seed, AUGMENTATIONS, **options)


def first_step(
    opened: Callable[..., Transformer], precision: str
) -> tuple[_Loop, TokenizedPairs, torch.Tensor]:
    """The loop of a tuning before the optimiser's first step, its batch, and the gradients that this step takes."""
    recipe = replace(FAST, augment=())
    transformer = opened(recipe)
    loop = tuning_of(transformer, recipe, precision=precision)
    maker = PairMaker(recipe, np.random.default_rng(0), "[MASK]", "paper", AUGMENTATIONS)
    tokenizer = PairTokenizer(transformer, maker, AUGMENTATIONS)
    (pairs,) = tokenizer.batches(identical_pairs(TEXTS, maker), iter([np.arange(8)]))
    loop.within_memory(pairs)
    actual = [p.grad.flatten() for p in transformer.model.parameters() if p.grad is not None]
    return loop, pairs, torch.cat(actual) / loop.scaler.get_scale()


def test_fp16_matches_fp32_gradients_and_skips_overflowing_steps(
    fresh: Callable[..., Transformer],
) -> None:
    """The released code tunes so (train.py: autocast and ``GradScaler``): a GPU before Ampere has no bf16."""
    *_, expected = first_step(fresh, "fp32")
    loop, pairs, actual = first_step(fresh, "fp16")
    assert loop.scaler.get_scale() == 65536.0
    assert torch.cosine_similarity(actual, expected, dim=0) > 0.999
    assert abs(actual.norm() / expected.norm() - 1) < 0.01
    before = weights(loop.reader.transformer)
    loop.scaler = torch.amp.GradScaler("cpu", init_scale=1e30)
    loop.step(pairs)
    assert torch.equal(weights(loop.reader.transformer), before)
    assert loop.scaler.get_scale() == pytest.approx(5e29)


@given(st.integers(2, 400), st.integers(2, 50), st.booleans())
def test_batches_cover_every_string_unless_last_is_dropped(
    n: int, size: int, drop_last: bool
) -> None:
    seeds = (0, 0, 1)
    actual, again, reseeded = (
        list(batches(n, size, drop_last, np.random.default_rng(seed))) for seed in seeds
    )
    rows = np.concatenate(actual).tolist()
    lengths = [len(batch) for batch in actual]
    assert len(set(rows)) == len(rows)
    assert rows == np.concatenate(again).tolist()
    assert n < 40 or rows != np.concatenate(reseeded).tolist() != sorted(rows)
    if drop_last:
        assert lengths == ([size] * (n // size) or [n])
    else:
        assert sorted(rows) == list(range(n))
        assert max(lengths) - min(lengths) <= 1
        assert min(lengths) >= 2  # a string alone would have no negatives
        assert max(lengths) <= max(size, 3)


def test_tuning_lowers_the_loss(fresh: Callable[..., Transformer]) -> None:
    done: list[int] = []
    model = fresh()
    report = tune_backbone(model, TEXTS, FAST, 0, AUGMENTATIONS, advance=done.append)
    assert report.losses[-1] < report.losses[0] - 0.1
    assert sum(done) == report.strings == len(TEXTS) * FAST.epochs
    assert report.steps == len(done) == 3 * FAST.epochs
    assert 0 <= report.padding < 1
    assert not model.model.training


def test_seed_determines_tuning_bit_for_bit(fresh: Callable[..., Transformer]) -> None:
    actual = []
    for seed, noise in ((3, 1), (3, 2), (4, 1)):
        model = fresh()
        torch.manual_seed(noise)  # what went before must not matter
        report = run(model, replace(FAST, epochs=1), seed)
        drawn = torch.rand(3)
        torch.manual_seed(noise)
        assert torch.equal(torch.rand(3), drawn)  # the caller's generator is left alone
        actual.append((weights(model), report.losses))
    assert torch.equal(actual[0][0], actual[1][0])
    assert actual[0][1] == actual[1][1]
    assert not torch.equal(actual[0][0], actual[2][0])
    ordered = replace(
        FAST, epochs=1, augment=(("dropout", 0.0),)
    )  # which draws the order of the strings alone
    losses, reseeded = (run(fresh(ordered), ordered, seed).losses for seed in (3, 4))
    assert losses != reseeded


def test_divergence_tiny_corpus_and_excess_length_are_errors(
    fresh: Callable[..., Transformer],
) -> None:
    with pytest.raises(
        TuningError, match=r"the loss is not finite within steps \d+ to \d+"
    ) as caught:
        run(fresh(), replace(FAST, lr=1e30))
    assert "lower lr" in caught.value.hint
    for texts in ([], ["one"]):
        with pytest.raises(TuningError, match=f"a corpus of {len(texts)} distinct strings"):
            tune_backbone(fresh(), texts, FAST, 0, AUGMENTATIONS)
    with pytest.raises(UsageError, match="80 positions"):
        run(fresh(), replace(FAST, train_max_length=81))


NOISE = SimpleNamespace(configure=lambda config, rate: None, attach=lambda model, rate: None)
"""A plugin's augmentation that says nothing of packing."""


@pytest.mark.parametrize(
    ("augment", "pooling", "packed"),
    [
        ({"dropout": 0.1, "span_mask": 2.0}, "mean", True),
        ({"dropout": 0.1}, "mean-padded", False),
        ({"dropout": 0.0, "drophead": 0.1}, "mean", False),
        ({"dropout": 0.1, "drophead": 0.0}, "cls", True),
        ({"dropout": 0.0, "controlled_dropout": 0.1}, "mean", False),
        ({"dropout": 0.1, "noise": 1.0}, "mean", False),
    ],
)
def test_texts_are_packed_unless_augmentation_or_pooling_forbids(
    random_model: Models,
    monkeypatch: pytest.MonkeyPatch,
    augment: dict[str, float],
    pooling: str,
    packed: bool,
) -> None:
    registered = {**AUGMENTATIONS, "noise": Augmentation("noise", NOISE, on="model")}
    recipe = replace(FAST, epochs=1, pooling=pooling, augment=tuple(augment.items()))
    model = opened(random_model("bert"), recipe, registered)
    seen = set()
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda *a: seen.add(a[4]) or forward(*a))
    assert (tune_backbone(model, TEXTS, recipe, 0, registered).padding == 0) == packed
    assert seen == {packed}


@pytest.mark.parametrize("sides", [1, 2])
def test_chosen_sides_are_masked_anew_each_epoch(
    fresh: Callable[..., Transformer], monkeypatch: pytest.MonkeyPatch, sides: int
) -> None:
    recipe = replace(FAST, epochs=2, sides=sides)
    model = fresh(recipe)
    seen: list[str] = []
    tokenize = model.tokenize
    monkeypatch.setattr(
        model, "tokenize", lambda texts, *more: seen.extend(texts) or tokenize(texts, *more)
    )
    run(model, recipe)
    masked = [text for text in seen if "[MASK]" in text]
    assert (
        len(set(masked)) > 0.8 * len(TEXTS) * recipe.epochs * sides
    )  # a few draws may fall on the same place
    assert sorted(text for text in seen if text not in masked) == (
        sorted(TEXTS * recipe.epochs) if sides == 1 else []
    )


@pytest.mark.parametrize(
    ("architecture", "params"),
    few(
        [
            (
                "bert",
                {"drophead": 0.2, "span_mask": 5, "token_mask": 0.1, "loss": "multi-similarity"},
            ),
            ("bert", {"controlled_dropout": 0.2, "word_mask": 0.2, "word_shuffle": 3, "sides": 2}),
            ("bert", {"dropout": 0.1}),
            (
                "deberta",
                {"drophead": 0.2, "controlled_dropout": 0.1, "span_mask": 3, "token_mask": 0.1},
            ),
        ],
        0,
        1,
    ),
)
def test_augmentations_change_weights_and_are_reproducible(
    architecture: str, params: dict[str, object], random_model: Models
) -> None:
    actual = []
    for changed in (recipe(**params), recipe(**params), recipe()):
        transformer = opened(random_model(architecture), changed)
        tune_backbone(transformer, HUNDRED[:50], changed, 0, AUGMENTATIONS)
        actual.append(weights(transformer))
    assert torch.equal(actual[0], actual[1])
    assert not torch.equal(actual[0], actual[2])


def test_tuning_uses_pairs_of_the_method(random_model: Models) -> None:
    """Half of the strings are paired with their neighbours, in groups of five."""
    seen: list[int] = []

    def neighbours(texts: Sequence[str], maker: PairMaker) -> Pairs:
        return maker.pairs(
            texts[::2], texts[1::2], [f"group {i // 5}" for i in range(len(texts) // 2)]
        )

    changed = recipe(epochs=2, controlled_dropout=0.2, drophead=0.2)
    transformer = opened(random_model("bert"), changed)
    report = tune_backbone(
        transformer, HUNDRED, changed, 0, AUGMENTATIONS, advance=seen.append, pairs=neighbours
    )
    assert (report.steps, report.strings) == (4, 100)  # twice fifty pairs
    assert seen == [50, 50, 50, 50]  # of twice a hundred strings
    with pytest.raises(TuningError, match="gives 1 pairs"):
        tune_backbone(
            transformer,
            HUNDRED,
            changed,
            0,
            AUGMENTATIONS,
            pairs=lambda _, maker: maker.pairs(["a"], ["b"]),
        )
    # What was attached is undone, after a failure too.
    inside = [module for name, module in transformer.model.named_modules() if name]
    assert not any(module._forward_pre_hooks for module in inside)
    assert not torch.overrides._get_current_function_mode_stack()


def test_masking_without_mask_token_is_an_error(random_model: Models) -> None:
    for name, rate in (("span_mask", 5), ("token_mask", 0.5), ("word_mask", 0.5)):
        changed = recipe(**{name: rate})
        transformer = opened(random_model("bert"), changed)
        transformer.tokenizer.mask_token = None
        with pytest.raises(
            TuningError, match=f"no mask token, so {name} cannot be applied"
        ) as caught:
            tune_backbone(transformer, HUNDRED, changed, 0, AUGMENTATIONS)
        assert f"{name}=0" in caught.value.hint
