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
from mirrorbench.runs.memory import GB, Memory, encoding_memory, saved_bytes, skeleton, tuning_memory
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


FAMILIES = ["bert", "deberta-v2", "modernbert", "llama", "gemma3-vision", "bart", "t5", "mamba"]


@pytest.mark.parametrize("family", few(FAMILIES, "bert", "t5"))
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
    weights = [weight for weight in transformer.model.parameters() if weight.requires_grad]
    own = {weight.untyped_storage().data_ptr() for weight in transformer.model.parameters()}
    saved: dict[int, torch.UntypedStorage] = {}
    optimizers: list[torch.optim.Optimizer] = []
    made = torch.optim.AdamW.__init__

    def remember(self: torch.optim.AdamW, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        optimizers.append(self)

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    reader = "mirrorbench.training.microbatch.MicroBatchReader"
    monkeypatch.setattr(torch.optim.AdamW, "__init__", remember)
    monkeypatch.setattr(f"{reader}._threads", 1)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        tune_backbone(transformer, [f"{line} and ".ljust(65, "a") for line in LINES], asked, 0, REGISTERED)
    found = tuning_memory(random_model(family), asked, "fp32")
    state = optimizers[0].state.values()
    averages = sum(t.nbytes for entry in state for name, t in entry.items() if name != "step")
    assert found.adam == averages
    assert found.gradients == sum(weight.nbytes for weight in weights)
    texts = 2 * len(LINES)
    assert sum(s.nbytes() for s in saved.values()) == pytest.approx(found.activations * texts / 2, rel=0.25)


def test_a_pass_saves_what_torch_says_it_does() -> None:
    """A linear layer and a ReLU: the input and the output, which both keep, once each."""

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.linear = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 8)

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            return self.linear(self.embedding(input_ids)).relu()

    ids = torch.zeros(2, 5, dtype=torch.int64)
    assert saved_bytes(Two(), ids) == 10 * (8 + 4 * 4 + 4 * 8)  # ids, input, output


def test_what_fits_where(tmp_path: Path) -> None:
    """7B: encodes in 16 GB, is tuned by LoRA in 40; there is nothing but a configuration."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_7B))
    large = tmp_path
    reading = Pooling("mean", "-1:", 64)
    parameters = 2 * 32000 * 4096 // 2 + 32 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 4096
    assert encoding_memory(large, reading, "fp32").weights == 4 * parameters
    assert encoding_memory(large, reading, "bf16").total < 16 * GB < encoding_memory(large, reading, "fp32").total
    full = tuning_memory(large, recipe(), "bf16")
    assert (full.weights, full.gradients, full.adam) == (4 * parameters, 4 * parameters, 8 * parameters)
    adapter = tuning_memory(large, recipe(lora=16), "bf16")
    learning = 32 * 16 * (4 * (4096 + 4096) + 3 * (4096 + 11008))
    assert (adapter.gradients, adapter.adam) == (4 * learning, 8 * learning)
    assert adapter.total < 16 * GB
    assert tuning_memory(large, recipe(lora=16), "fp32").total < 40 * GB < full.total


def test_the_parts_are_the_sum() -> None:
    said = "7.1 GB (weights 4.0, gradients 1.0, Adam 2.0, activations 0.06)"
    assert str(Memory(4 * 10**9, 10**9, 2 * 10**9, 0, 6 * 10**7)) == said
