"""Tuning with ``lora``: what is stored, that it repeats, and that nothing but the adapter learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from random_models import Models

from mirrorbench.core.specs import parse_spec
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer, load_transformer
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.loading import open_for_tuning
from mirrorbench.session import Session
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import mirror_preset
from mirrorbench.training.recipes import Recipe, override

LINES = [f"line {n} of a small corpus, about {word}" for n in range(6) for word in ("cats", "dogs", "letters", "snow")]


def tuned(path: Path, precision: str = "fp32", **keys: float) -> tuple[Transformer, Recipe]:
    """A model after three epochs."""
    registered = load_plugins(discover=False).augmentations.by_name()
    preset = mirror_preset("sentence", "bert", "paper")
    recipe = override(preset, {"lora": 4, "lr": 0.01, "epochs": 3, "batch_size": 8, "span_mask": 0, **keys}, registered)
    transformer = open_for_tuning(path, recipe, registered, torch.device("cpu"), seed=3, precision=precision)
    tune_backbone(transformer, LINES, recipe, 3, registered, precision=precision)
    return transformer, recipe


def learnt(transformer: Transformer) -> dict[str, torch.Tensor]:
    """The adapter."""
    return {name: weight.detach() for name, weight in transformer.model.named_parameters() if weight.requires_grad}


def test_the_adapter_alone_learns_and_a_tuning_repeats_bit_for_bit(random_model: Models) -> None:
    path = random_model("bert")
    first, second = (learnt(tuned(path)[0]) for _ in range(2))
    plain = dict(load_transformer(path, torch.device("cpu")).model.named_parameters())
    after = dict(tuned(path)[0].model.named_parameters())
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    frozen = {name.replace(".base_layer", ""): weight for name, weight in after.items() if name not in first}
    assert {*frozen} == {*plain}
    assert all(torch.equal(weight, plain[name]) for name, weight in frozen.items())
    assert all(bool(weight.any()) for weight in first.values())  # the second matrices are zero before


def test_gradient_caching_changes_nothing(random_model: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = learnt(tuned(random_model("bert"))[0])
    monkeypatch.setattr("mirrorbench.training.loop.limits", lambda objective: (10_000, 2))  # no activations are kept
    for name, weight in learnt(tuned(random_model("bert"))[0]).items():
        torch.testing.assert_close(weight, whole[name], atol=1e-5, rtol=1e-4)


def test_a_backbone_kept_in_bf16_is_tuned_as_one_in_float32(random_model: Models, tmp_path: Path) -> None:
    """Its matrices are those that autocast rounds to, so all numbers are the same, bit for bit."""
    opened = load_transformer(random_model("llama"), torch.device("cpu"))
    opened.model.to(torch.bfloat16)
    opened.save(tmp_path / "half")
    opened.model.float()
    opened.save(tmp_path / "single")
    half, single = (tuned(tmp_path / name, "bf16")[0] for name in ("half", "single"))
    assert (half.kept, single.kept) == ("bf16", "fp32")
    assert {weight.dtype for weight in learnt(half).values()} == {torch.float32}
    assert all(torch.equal(weight, learnt(single)[name]) for name, weight in learnt(half).items())


def test_the_cache_stores_the_adapter_which_opens_with_the_same_vectors(random_model: Models, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(LINES))
    spec = f"{random_model('bert')}+mirror:lora=4,lr=0.01,corpus={tmp_path / 'lines.txt'}"
    made = Session(device="cpu").workspace.load(parse_spec(spec), "sentence")[0]
    before = made.encode(LINES)
    (folder,) = (Session(device="cpu").workspace.cache.root / "models").iterdir()
    assert not [*folder.glob("model*"), *folder.glob("config.json")]
    assert (folder / "adapter_model.safetensors").stat().st_size < 60_000
    again = Session(device="cpu").workspace.load(parse_spec(spec), "sentence")[0]
    assert isinstance(again, TransformerEncoder)
    assert again.transformer.path == folder
    np.testing.assert_array_equal(again.encode(LINES), before)
    plain = TransformerEncoder(load_transformer(random_model("bert"), torch.device("cpu")), Pooling("mean", "-1:", 64))
    assert np.abs(plain.encode(LINES) - before).max() > 1e-3


def test_recipes_without_it_are_as_they_were() -> None:
    preset = mirror_preset("sentence", "bert", "paper")
    assert "lora" not in preset.to_json()
    registered = load_plugins(discover=False).augmentations.by_name()
    assert override(preset, {"lora": 16}, registered).to_json() == {**preset.to_json(), "lora": 16}
