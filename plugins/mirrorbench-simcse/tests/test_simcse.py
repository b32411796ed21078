from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mirrorbench_simcse
import pytest
import torch
from harness.fixtures import Said

from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import locate
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.runs.loading import open_for_tuning
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.recipes import Recipe, override

WORDS = ["river", "stone", "garden", "music", "winter", "window", "letter", "bridge", "forest", "market"]
TEXTS = [f"the {one} is near the {other}" for n, one in enumerate(WORDS) for other in WORDS[n + 1 :]]
TEXTS += [f"nobody saw the {word}" for word in WORDS] + [f"a {word} of five" for word in WORDS[:5]]


def opened(plugins: Plugins, **changes: Any) -> tuple[Transformer, Recipe, dict[str, Augmentation]]:
    registered = {entry.name: entry.value for entry in plugins.augmentations}
    recipe = override(mirrorbench_simcse.simcse_preset("sentence", "bert", "paper"), changes, registered)

    transformer = open_for_tuning(
        locate(parse_spec("tiny"), "en", offline=True), recipe, registered, torch.device("cpu")
    )
    return transformer, recipe, registered


@pytest.mark.parametrize(
    ("architecture", "batch_size", "lr"), [("bert", 64, 3e-5), ("roberta", 512, 1e-5), ("electra", 64, 3e-5)]
)
@pytest.mark.parametrize("level", ["word", "phrase", "sentence", "wic"])
def test_the_preset_holds_the_papers_values(
    plugins: Plugins, level: str, architecture: str, batch_size: int, lr: float
) -> None:
    recipe = plugins.methods["simcse"].preset(level, architecture, "paper")
    assert (recipe.temperature, recipe.epochs, recipe.train_max_length) == (0.05, 1, 32)
    assert (recipe.batch_size, recipe.lr, recipe.weight_decay) == (batch_size, lr, 0.0)
    assert (recipe.loss, recipe.pooling, recipe.layers) == ("in-batch", "cls", "-1:")
    assert dict(recipe.augment) == {"dropout": 0.1, "simcse_head": 1.0}
    assert recipe.clean_corpus
    assert not plugins.methods["simcse"].preset(level, architecture, "released").clean_corpus


def test_the_head_is_a_dense_layer_and_a_tanh_over_the_tokens(plugins: Plugins) -> None:
    transformer, *_ = opened(plugins)
    ids, pooling = transformer.tokenize(TEXTS[:3], 32), [Pooling("cls", "-1:", 32)]
    with torch.no_grad():
        (before,) = transformer.forward(ids, pooling)
        detach = mirrorbench_simcse.Head().attach(transformer.model, 1.0)
        weights = dict(transformer.model.named_parameters())
        dense, bias = weights["simcse_head.0.weight"], weights["simcse_head.0.bias"]
        (within,) = transformer.forward(ids, pooling)
        assert detach is not None
        detach()
        (after,) = transformer.forward(ids, pooling)
    torch.testing.assert_close(within, torch.tanh(before @ dense.T + bias))
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert "simcse_head.0.weight" not in transformer.model.state_dict()


def test_the_head_learns_and_changes_what_is_learned(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[list[torch.Tensor]] = []
    attach = mirrorbench_simcse.Head.attach

    def watched(self: mirrorbench_simcse.Head, model: Any, rate: float) -> Any:
        detach = attach(self, model, rate)
        head = model.simcse_head[0].weight if detach else torch.zeros(1)
        heads.append([head.detach().clone(), head])
        return detach

    monkeypatch.setattr(mirrorbench_simcse.Head, "attach", watched)
    weights = []
    for on in (1, 0, 1):
        transformer, recipe, registered = opened(plugins, simcse_head=on, batch_size=20)
        before = {name: value.clone() for name, value in transformer.model.state_dict().items()}
        report = tune_backbone(transformer, TEXTS, recipe, 0, registered)
        after = transformer.model.state_dict()
        assert after.keys() == before.keys()
        assert any(not torch.equal(after[name], before[name]) for name in after)
        assert 0 < report.losses[0] < math.log(20) + 1
        weights.append(torch.cat([value.flatten().float() for value in after.values()]))
    assert not torch.equal(*heads[0])
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])


def test_the_head_refuses_other_layers(plugins: Plugins) -> None:
    transformer, recipe, registered = opened(plugins, layers="-2:")
    with pytest.raises(TuningError, match="simcse_head stands on the last layer") as caught:
        tune_backbone(transformer, TEXTS, recipe, 0, registered)
    assert "simcse_head=0" in caught.value.hint


def test_it_tunes_through_the_command_line(said: Said, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    assert len(set(TEXTS)) == 60
    run = ["run", "--offline", "--tasks", "quick-sts", "--corpus", "mine.txt"]
    specs = ["--encoder", "tiny+simcse:batch_size=20", "--encoder", "tiny+mirror:batch_size=20"]
    code, out, err = said(*run, *specs)
    assert code == 0, err
    assert "+ SimCSE" in out
    (result,) = (tmp_path / "results").glob("*simcse*/quick-sts/seed-0.json")
    cell = json.loads(result.read_text(encoding="utf-8"))
    assert cell["cell"]["recipe"]["loss"] == "in-batch"
    assert cell["cell"]["corpus"]["n"] == 60
    assert 0.3 < cell["main_score"] < 1
