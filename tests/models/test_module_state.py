"""Passes leave nothing behind: equal texts have equal vectors, whatever was read before and beside them."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.random_further_models import FURTHER, build_further
from helpers.random_models import FAMILIES, build
from helpers.sentence_transformer_directories import as_sentence_transformers
from helpers.suite_marks import few
from transformers import AutoModel

import mirrorbench
from mirrorbench.models.families import set_dropout_rates
from mirrorbench.models.gradient_checkpointing import checkpointed
from mirrorbench.models.module_state import ModuleState, restore_state_after_each_pass
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.transformer import Transformer, load_transformer

CPU = torch.device("cpu")
ORDERS = ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3])
CONSTANT = ("mra",)
"""Types whose random models have one vector for all texts, and are refused."""


def texts(longest: int) -> list[str]:
    """Texts of letters, one of which is as long as a model reads, and one a single letter."""
    letters = "thequickbrownfoxjumpsoverthelazydog" * 3
    return ["x", "quick zebras", letters[: longest - 4], "two dogs run", letters[7 : longest - 3]]


def alone(path: Path, transformer: Transformer, text: str, longest: int) -> np.ndarray:
    """The mean state of a text by a model of transformers that has read nothing else."""
    ids = transformer.tokenize([text], longest)
    model: Any = AutoModel.from_pretrained(path).eval()
    model.config.use_cache = False  # xLSTM cannot keep what it was given
    if hasattr(model, "get_encoder") and getattr(model.config, "is_encoder_decoder", False):
        model = model.get_encoder()
    row = torch.tensor(ids.padded(int(ids.lengths.max()), 0))
    torch.manual_seed(0)  # Reformer draws the hashes of its tokens
    with torch.no_grad():
        states = model(input_ids=row, attention_mask=torch.ones_like(row)).last_hidden_state
    return np.asarray(states[0].mean(0))


@pytest.mark.parametrize(
    "architecture",
    few(
        [name for name in (*FAMILIES, *FURTHER) if name not in CONSTANT],
        "bert",
        "big_bird",
        "reformer",
    ),
)
def test_vectors_are_those_of_each_text_alone(architecture: str, tmp_path: Path) -> None:
    longest = 76
    (build if architecture in FAMILIES else build_further)(architecture, tmp_path)
    encoder: Any = mirrorbench.load(
        f"{tmp_path}+base:pooling=mean,max_length={longest}", device="cpu"
    )
    wanted = np.stack(
        [alone(tmp_path, encoder.encoder.transformer, text, longest) for text in texts(longest)]
    )
    for order in ORDERS:
        actual = encoder.encode([texts(longest)[row] for row in order])
        np.testing.assert_allclose(actual, wanted[order], atol=1e-5)


def test_sentence_transformers_reads_each_text_alone(tmp_path: Path) -> None:
    build_further("big_bird", tmp_path / "plain")
    path = as_sentence_transformers(
        tmp_path / "plain", tmp_path / "model", "Transformer", "Pooling"
    )
    encoder = mirrorbench.load(f"sbert:path={path}", device="cpu")
    wanted = np.stack([encoder.encode([text])[0] for text in texts(60)])
    assert np.abs(wanted[0] - wanted[2]).max() > 1e-3
    for order in ORDERS:
        actual = encoder.encode([texts(60)[row] for row in order])
        np.testing.assert_allclose(actual, wanted[order], atol=1e-5)


@pytest.mark.parametrize("saving", [False, True])
def test_gradients_are_those_of_each_text_alone(saving: bool, tmp_path: Path) -> None:
    """Both passes come before the gradients, with gradient checkpointing too."""
    build_further("big_bird", tmp_path)
    rows = [[5 + n % 20 for n in range(length)] for length in (70, 6, 72)]

    def gradients(*batches: list[list[int]]) -> torch.Tensor:
        transformer = load_transformer(tmp_path, CPU, partial(set_dropout_rates, rate=0.0))
        transformer.model.train()
        with checkpointed(transformer.model) if saving else nullcontext():
            vectors = []
            for batch in batches:
                vectors.append(transformer.forward(Ragged.of(batch), [Pooling("mean")])[0])
            torch.cat(vectors).square().sum().backward()
        weights = transformer.model.encoder.parameters()
        return torch.cat([weight.grad.flatten() for weight in weights])

    expected = sum(gradients([row]) for row in rows)
    single_texts = [[row] for row in rows]
    torch.testing.assert_close(gradients(*single_texts), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(gradients(rows), expected, atol=1e-5, rtol=1e-4)


class Counter(torch.nn.Module):
    """A module whose passes change an attribute, a buffer, a submodule and torch's random numbers, and add one."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("seen", torch.zeros(1))
        self.inner: torch.nn.Module = torch.nn.Identity()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen = self.seen + 1
        self.inner = torch.nn.ReLU()
        self.new = 1
        if values.sum() < 0:
            raise ValueError("negative")
        return values + torch.rand(1)


@pytest.mark.parametrize("fails", [False, True])
def test_everything_that_a_pass_changes_is_undone(fails: bool) -> None:
    model = Counter().eval()
    restore_state_after_each_pass(model)
    model = copy.deepcopy(model)
    drawn = torch.random.get_rng_state()
    values = torch.ones(1) * (-1 if fails else 1)
    with pytest.raises(ValueError, match="negative") if fails else nullcontext():
        assert model(values) == model(values)
    assert (model.calls, model.seen.item()) == (0, 0)
    assert type(model.inner) is torch.nn.Identity
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_state_before_a_pass_can_be_restored() -> None:
    model = Counter()
    first = ModuleState(model)
    model(torch.ones(1))
    assert model.calls == 1
    first.restore()
    assert (model.calls, model.new) == (0, 1)
