"""Measured traits of models agree with transformers alone, and are respected wherever texts are read."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.random_further_models import OTHER_INPUTS, build_further
from helpers.random_models import FAMILIES, UNPACKED, Models
from helpers.suite_marks import few

from mirrorbench.core.devices import autocast
from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.traits import HALVES, ModelTraits, traits_of
from mirrorbench.models.transformer import Transformer, load_transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder

CPU = torch.device("cpu")
CAUSAL = ("llama", "mistral", "qwen3", "gemma3", "gemma3-vision", "gpt2", "mamba")


def further(model_type: str, folder: Path) -> Transformer:
    build_further(model_type, folder)
    return load_transformer(folder, CPU)


@pytest.mark.parametrize("architecture", few(FAMILIES, "bert", "deberta", "gpt2", "t5"))
def test_measured_traits_match_the_family(random_model: Models, architecture: str) -> None:
    """A measurement leaves training mode and random state unchanged."""
    transformer = load_transformer(random_model(architecture), CPU)
    transformer.model.train()
    before = torch.random.get_rng_state()
    assert traits_of(transformer) == ModelTraits(
        causal=architecture in CAUSAL, packs=architecture not in UNPACKED
    )
    assert transformer.model.training
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("model_type", "pads"), few([("convbert", True), ("fnet", True), ("ernie", False)], 0, 2)
)
def test_padding_sensitive_models_read_texts_without_padding(
    tmp_path: Path, model_type: str, pads: bool
) -> None:
    """Vectors under every pooling and gradients are the same; a padded pass would change them."""
    transformer = further(model_type, tmp_path)
    assert transformer.traits.pads == pads
    rng = random.Random(1)
    rows = [[rng.randrange(10, 60) for _ in range(length)] for length in (4, 9, 4, 13)]
    poolings = [Pooling("mean"), Pooling("cls"), Pooling("last"), Pooling("mean", layers="-2:")]
    with torch.no_grad():
        together = transformer.forward(Ragged.of(rows), poolings)
        for row, ids in enumerate(rows):
            states = transformer.model(
                input_ids=torch.tensor([ids]), output_hidden_states=True
            ).hidden_states
            last = states[-1][0]
            both = torch.stack(states[-2:]).mean(0)[0]
            for actual, wanted in zip(
                together, (last.mean(0), last[0], last[-1], both.mean(0)), strict=True
            ):
                torch.testing.assert_close(actual[row], wanted, atol=1e-4, rtol=1e-4)
        padded = transformer.padded_states(Ragged.of(rows))[0][-1][0, :4].mean(0)
    assert (float((padded - together[0][0]).abs().max()) > 1e-3) == pads


def test_model_without_contextual_states_is_detected(random_model: Models) -> None:
    """MRA without its kernels is such a model: states depend on their own token alone."""
    transformer = load_transformer(random_model("bert"), CPU)
    assert traits_of(transformer).varies
    for layer in transformer.model.encoder.layer:
        torch.nn.init.zeros_(layer.attention.output.dense.weight)
    assert not traits_of(transformer).varies


def test_packing_is_disabled_where_vectors_differ(random_model: Models) -> None:
    """Position ids differ from the architecture's, although its code permits packing."""
    transformer = load_transformer(random_model("roberta"), CPU)
    assert traits_of(transformer).packs
    transformer.model.config.model_type = "electra"  # which numbers positions from 0
    assert not traits_of(transformer).packs


@pytest.mark.parametrize("model_type", ["esm", "phi3", "lfm2"])
def test_vector_ignores_masked_and_long_neighbours(tmp_path: Path, model_type: str) -> None:
    """ESM takes the share of mask tokens, longrope the longest text of a pass; LFM2 has convolutions."""
    transformer = further(model_type, tmp_path)
    assert not transformer.traits.packs
    masked = transformer.tokenizer.mask_token_id or 20
    length = min(transformer.positions or 40, 1100)
    rows = [[20, 21, 22, 23], [masked] * length]
    with torch.no_grad():
        (together,) = transformer.forward(Ragged.of(rows), [Pooling("mean")])
        alone = transformer.model(input_ids=torch.tensor(rows[:1])).last_hidden_state[0].mean(0)
    torch.testing.assert_close(together[0], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model_type", few(OTHER_INPUTS, "canine", "vilt"))
def test_models_with_non_token_inputs_are_refused(tmp_path: Path, model_type: str) -> None:
    with pytest.raises(
        ModelUnavailableError, match=r"by its tokens alone|no vocabulary of tokens"
    ) as caught:
        traits_of(further(model_type, tmp_path))
    assert "sbert:path=" in caught.value.hint


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("architecture", few(FAMILIES, "bert", "gemma3", "t5"))
def test_every_family_computes_in_half_precision(
    random_model: Models, architecture: str, half: str
) -> None:
    """Padded texts under autocast, gradients and the encoder's vectors are finite and near fp32."""
    transformer = load_transformer(random_model(architecture), CPU)
    texts = ["a text of some length, padded to none", "short"]
    ids = transformer.tokenize(texts, 40)
    wanted = TransformerEncoder(transformer, Pooling("mean")).encode(texts)
    with autocast(CPU, half):
        (actual,) = transformer.forward(ids, [Pooling("mean")])
    encoded = TransformerEncoder(transformer, Pooling("mean"), half).encode(texts)
    assert encoded.dtype == np.float32
    for vectors in (actual.detach().numpy(), encoded):
        near = np.linalg.norm(vectors - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
        assert 0 < near.max() < 0.1
    (actual / 16).sum().backward()
    gradients = [
        weight.grad for weight in transformer.model.parameters() if weight.grad is not None
    ]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)
