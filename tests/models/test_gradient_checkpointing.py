"""Gradient checkpointing: equal weights, less memory, and no effect afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.random_models import Models
from helpers.suite_marks import few

import mirrorbench
from mirrorbench.core.devices import cpu_threads
from mirrorbench.core.errors import UsageError
from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.encoder_loading import open_for_tuning
from mirrorbench.runs.registry import load_plugins
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import (
    identical_pairs,
    mirror_preset,
    mirrorwic_preset,
    words_in_context,
)
from mirrorbench.training.recipes import Recipe, override

REGISTERED = load_plugins(discover=False).augmentations.by_name()
LINES = [
    f"line {n} of a small corpus, about {word}"
    for n in range(4)
    for word in ("cats", "dogs", "letters", "snow")
]


def recipe(method: str = "mirror", **keys: Any) -> Recipe:
    """Return a method's recipe with two batches."""
    preset = (
        mirror_preset("sentence", "bert", "paper")
        if method == "mirror"
        else mirrorwic_preset("wic", "", "paper")
    )
    small = {
        "epochs": 1,
        "batch_size": 8,
        "span_mask": 0,
        "pooling": "mean" if method == "mirror" else "target",
    }
    return override(preset, {**small, **keys}, REGISTERED)


def tuned(path: Path, method: str = "mirror", precision: str = "fp32", **keys: Any) -> Transformer:
    asked = recipe(method, **keys)
    transformer = open_for_tuning(
        path, asked, REGISTERED, torch.device("cpu"), seed=3, precision=precision
    )
    pairs = identical_pairs if method == "mirror" else words_in_context
    tune_backbone(transformer, LINES, asked, 3, REGISTERED, precision=precision, pairs=pairs)
    return transformer


@pytest.mark.parametrize(
    ("family", "keys"),
    few(
        [
            ("bert", {"controlled_dropout": 0.1, "word_shuffle": 3}),
            ("t5", {}),
            ("gpt2", {"lora": 4, "lr": 0.01}),
            *((family, {}) for family in ("modernbert", "llama", "bart", "gemma3-vision")),
            ("deberta-v2", {"controlled_dropout": 0.1, "word_shuffle": 3}),
            ("bert", {"drophead": 0.2, "dropout": 0.0}),
            ("qwen3", {"precision": "bf16", "lora": 4}),
        ],
        0,
        1,
        2,
    ),
)
@pytest.mark.parametrize("method", few(["mirror", "mirrorwic"]))
def test_gradient_checkpointing_leaves_tuned_weights_unchanged(
    random_model: Models, family: str, keys: dict[str, Any], method: str
) -> None:
    """They are equal bit for bit: BERT draws from its own generators, the others from torch's."""
    path = random_model(family)
    plain, saving = (tuned(path, method, gradient_checkpointing=on, **keys) for on in (False, True))
    for (name, weight), (_, same) in zip(
        plain.model.named_parameters(), saving.model.named_parameters(), strict=True
    ):
        assert torch.equal(weight, same), name
    assert not any(
        getattr(module, "gradient_checkpointing", False) for module in saving.model.modules()
    )
    assert plain.model.config.to_dict() == saving.model.config.to_dict()  # what is saved
    assert number_of_hooks(plain.model) == number_of_hooks(saving.model)


def number_of_hooks(model: torch.nn.Module) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


def test_checkpointing_with_micro_batches_leaves_weights_unchanged(
    random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorbench.training.loop.limits", lambda objective: (150, 2))
    monkeypatch.setattr("mirrorbench.training.microbatch.MicroBatchReader._threads", 2)
    with cpu_threads(2):
        plain, saving = (
            tuned(random_model("bert"), gradient_checkpointing=on) for on in (False, True)
        )
    for weight, same in zip(plain.model.parameters(), saving.model.parameters(), strict=True):
        assert torch.equal(weight, same)


@pytest.mark.parametrize("family", few(["bert", "modernbert", "llama", "t5"]))
def test_gradient_checkpointing_saves_memory(random_model: Models, family: str) -> None:
    """Bytes that torch's profiler sees allocated and not freed in a pass."""
    from mirrorbench.models.gradient_checkpointing import checkpointed

    asked = recipe(train_max_length=40)
    ids = torch.randint(5, 40, (2, 40))
    model = open_for_tuning(
        random_model(family), asked, REGISTERED, torch.device("cpu")
    ).model.train()

    def held() -> int:
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
        with torch.profiler.profile(profile_memory=True) as profile:
            states = model(input_ids=ids, attention_mask=torch.ones_like(ids))
        total = sum(entry.self_cpu_memory_usage for entry in profile.key_averages())
        assert states is not None  # it holds the graph until here
        return int(total)

    plain = held()
    with checkpointed(model):
        less = held()
    assert less < plain / 5


@pytest.mark.parametrize("family", few(["albert", "mpnet", "xlnet"]))
def test_family_without_gradient_checkpointing_is_refused(
    random_model: Models, family: str
) -> None:
    spec = f"{random_model(family)}+mirror:gradient_checkpointing=true"
    with pytest.raises(UsageError, match="no gradient checkpointing for models of type") as caught:
        mirrorbench.load(spec, device="cpu")
    assert caught.value.hint == f"Write {random_model(family)}+mirror"
