"""Short real tunings with each augmentation: the weights change, and the same run gives the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from augmented import AUGMENTATIONS, TEXTS, opened, recipe
from random_models import Models
from suites import few

from mirrorbench.core.errors import TuningError
from mirrorbench.models.transformer import Transformer
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import PairMaker, Pairs


def hooks_of(model: torch.nn.Module) -> list[int]:
    return [number for module in model.modules() for number in (*module._forward_pre_hooks, *module._forward_hooks)]


def tuned(path: Path, **params: object) -> torch.Tensor:
    changed = recipe(**params)
    transformer = opened(path, changed)
    before = weights(transformer)
    hooks = hooks_of(transformer.model)  # those by which transformers collects the states of layers
    report = tune_backbone(transformer, TEXTS[:50], changed, 0, AUGMENTATIONS)
    assert (report.steps, report.strings) == (2, 50)
    assert np.isfinite(report.losses).all()
    assert hooks_of(transformer.model) == hooks
    assert not torch.equal(weights(transformer), before)
    return weights(transformer)


def weights(transformer: Transformer) -> torch.Tensor:
    return torch.cat([value.flatten().float() for value in transformer.model.state_dict().values()])


@pytest.mark.parametrize(
    ("architecture", "params"),
    few([
        ("bert", {"drophead": 0.2, "span_mask": 5, "token_mask": 0.1, "loss": "multi-similarity"}),
        ("bert", {"controlled_dropout": 0.2, "word_mask": 0.2, "word_shuffle": 3, "sides": 2}),
        ("bert", {"dropout": 0.1}),
        ("deberta", {"drophead": 0.2, "controlled_dropout": 0.1, "span_mask": 3, "token_mask": 0.1}),
    ], 0, 1),
)  # fmt: skip
def test_each_augmentation_tunes_and_repeats(
    architecture: str, params: dict[str, object], random_model: Models
) -> None:
    path = random_model(architecture)
    first = tuned(path, **params)
    assert torch.equal(first, tuned(path, **params))
    assert not torch.equal(first, tuned(path))


def test_a_method_brings_its_own_pairs(random_model: Models) -> None:
    """Half of the strings, with their neighbours, in groups of five: what is asked for is what is tuned on."""
    seen: list[int] = []

    def neighbours(texts: Sequence[str], maker: PairMaker) -> Pairs:
        return maker.pairs(texts[::2], texts[1::2], [f"group {i // 5}" for i in range(len(texts) // 2)])

    changed = recipe(epochs=2, controlled_dropout=0.2, drophead=0.2)
    transformer = opened(random_model("bert"), changed)
    report = tune_backbone(transformer, TEXTS, changed, 0, AUGMENTATIONS, advance=seen.append, pairs=neighbours)
    assert (report.steps, report.strings) == (4, 100)  # twice fifty pairs
    assert seen == [50, 50, 50, 50]  # of twice a hundred strings
    with pytest.raises(TuningError, match="gives 1 pairs"):
        tune_backbone(transformer, TEXTS, changed, 0, AUGMENTATIONS, pairs=lambda _, maker: maker.pairs(["a"], ["b"]))
    # What was attached is undone after a failure.
    assert not any(m._forward_pre_hooks for m in transformer.model.modules())
    assert not torch.overrides._get_current_function_mode_stack()


def test_a_tokenizer_without_mask_token(random_model: Models) -> None:
    for name, rate in (("span_mask", 5), ("token_mask", 0.5), ("word_mask", 0.5)):
        changed = recipe(**{name: rate})
        transformer = opened(random_model("bert"), changed)
        transformer.tokenizer.mask_token = None
        with pytest.raises(TuningError, match=f"no mask token, so {name} cannot be applied") as caught:
            tune_backbone(transformer, TEXTS, changed, 0, AUGMENTATIONS)
        assert f"{name}=0" in caught.value.hint
