"""Memory by arithmetic: against models in memory, against what a tuning saves, and for models of today's sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from random_models import Models
from suites import few
from transformers import AutoConfig

from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.loading import open_for_tuning
from mirrorbench.runs.memory import GB, encoding_memory, skeleton, tuning_memory
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import mirror_preset
from mirrorbench.training.recipes import Recipe, override

REGISTERED = load_plugins(discover=False).augmentations.by_name()
LINES = [f"line {n} of a small corpus, about {word}" for n in range(6) for word in ("cats", "dogs", "letters", "snow")]
# What is published of Llama 2 7B.
LLAMA_7B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096,
    "torch_dtype": "float16",
}  # fmt: skip


def recipe(**keys: Any) -> Recipe:
    """Mirror's, with other values."""
    return override(
        mirror_preset("sentence", "llama", "paper"), {"pooling": "mean", "span_mask": 0, **keys}, REGISTERED
    )


@pytest.mark.parametrize("family", few(["bert", "t5", "modernbert", "llama", "gemma3-vision", "mamba"], 0, 1))
def test_weights_are_counted_without_them(random_model: Models, family: str) -> None:
    path = random_model(family)
    counted = skeleton(AutoConfig.from_pretrained(path))
    assert {weight.device.type for weight in counted.parameters()} == {"meta"}
    assert sum(w.numel() for w in counted.parameters()) == load_transformer(path, torch.device("cpu")).n_parameters


@pytest.mark.parametrize(("family", "lora"), few([("bert", 0), ("llama", 0), ("bert", 4), ("llama", 4)], 0, 3))
def test_what_a_tuning_holds_and_saves(
    random_model: Models, monkeypatch: pytest.MonkeyPatch, family: str, lora: int
) -> None:
    """Gradients and averages to the byte; activations within a quarter, by hooks on what a whole step saves."""
    asked = recipe(lora=lora, batch_size=24, train_max_length=40)
    transformer = open_for_tuning(random_model(family), asked, REGISTERED, torch.device("cpu"))
    own = {weight.untyped_storage().data_ptr() for weight in transformer.model.parameters()}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    monkeypatch.setattr("mirrorbench.training.microbatch.MicroBatchReader._threads", 1)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        tune_backbone(transformer, [f"{line} and ".ljust(65, "a") for line in LINES], asked, 0, REGISTERED)
    found = tuning_memory(random_model(family), asked, "fp32")
    assert found.gradients == sum(w.nbytes for w in transformer.model.parameters() if w.requires_grad)
    assert found.adam == 2 * found.gradients
    assert sum(s.nbytes() for s in saved.values()) == pytest.approx(found.activations * len(LINES), rel=0.25)


def test_what_fits_where(tmp_path: Path) -> None:
    """7B: encodes in 16 GB, is tuned by LoRA in 40; there is nothing but a configuration."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_7B))
    parameters = 2 * 32000 * 4096 // 2 + 32 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 4096
    single, half = (encoding_memory(tmp_path, Pooling("mean", "-1:", 64), precision) for precision in ("fp32", "bf16"))
    assert single.weights == 4 * parameters
    assert half.total < 16 * GB < single.total
    full = tuning_memory(tmp_path, recipe(), "bf16")
    assert (full.weights, full.gradients, full.adam) == (4 * parameters, 4 * parameters, 8 * parameters)
    adapter = tuning_memory(tmp_path, recipe(lora=16), "bf16")
    learning = 32 * 16 * (4 * (4096 + 4096) + 3 * (4096 + 11008))
    assert (adapter.gradients, adapter.adam) == (4 * learning, 8 * learning)
    assert adapter.total < 16 * GB
    assert tuning_memory(tmp_path, recipe(lora=16), "fp32").total < 40 * GB < full.total
