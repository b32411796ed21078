from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from random_models import ARCHITECTURES
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import fingerprint
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.runs import runner
from mirrorbench.runs.cells import CorpusRef, ModelRef
from mirrorbench.runs.runner import open_for_tuning, tune_model
from mirrorbench.runs.workspace import Workspace
from mirrorbench.training.methods import mirror_preset

CPU = torch.device("cpu")
TEXTS = [f"sentence number {number} of twenty, more or less" for number in range(20)]


def tunable(path: Path) -> ModelRef:
    recipe = replace(mirror_preset("sentence", "bert", "paper"), batch_size=10, lr=1e-3)
    corpus = CorpusRef("mine", 0, "0" * 64, len(TEXTS))
    return ModelRef(parse_spec("x+mirror"), fingerprint(path), path, "mirror", recipe, corpus, precision="fp32")


@pytest.fixture
def workspace(plugins: Plugins, tmp_path: Path) -> Workspace:
    return Workspace.create(cache=tmp_path, device="cpu", plugins=plugins)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tuned_model_gives_the_same_vectors_when_loaded_again(
    random_model: Callable[[str], Path], workspace: Workspace, monkeypatch: pytest.MonkeyPatch,
    architecture: str,
) -> None:  # fmt: skip
    model = tunable(random_model(architecture))
    made = []
    monkeypatch.setattr(runner, "open_for_tuning", lambda *args: made.append(open_for_tuning(*args)) or made[0])
    path, seconds = tune_model(model, TEXTS, workspace)
    in_memory = TransformerEncoder(made[0], Pooling()).encode(TEXTS)
    loaded = TransformerEncoder(load_transformer(path, CPU), Pooling()).encode(TEXTS)
    np.testing.assert_array_equal(loaded, in_memory)
    before = TransformerEncoder(load_transformer(random_model(architecture), CPU), Pooling()).encode(TEXTS)
    assert np.abs(loaded - before).max() > 1e-3
    assert seconds > 0


def test_it_opens_in_plain_transformers_and_says_what_it_is(
    random_model: Callable[[str], Path], workspace: Workspace
) -> None:
    cache, model = workspace.cache, tunable(random_model("bert"))
    path, seconds = tune_model(model, TEXTS, workspace)
    batch = AutoTokenizer.from_pretrained(path)(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        mean = AutoModel.from_pretrained(path).eval()(**batch).last_hidden_state[0].mean(0)
    ours = TransformerEncoder(load_transformer(path, CPU), Pooling()).encode(TEXTS[:1])
    np.testing.assert_allclose(ours[0], mean.numpy(), atol=1e-5)
    assert cache.model(model.key) == path
    description = cache.describe_model(model.key)
    assert description["spec"] == "x+mirror"
    assert description["recipe"] == model.recipe.to_json()  # type: ignore[union-attr]
    assert description["tuning"]["seconds"] == seconds
    assert description["tuning"]["steps"] == 2


def test_what_needs_no_tuning_is_refused(random_model: Callable[[str], Path], workspace: Workspace) -> None:
    model = replace(tunable(random_model("bert")), recipe=None, corpus=None)
    with pytest.raises(TuningError, match="nothing to tune"):
        tune_model(model, TEXTS, workspace)
