"""Recipes of specs: presets, backbones, users."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.recipe_resolution import resolve_recipe


@pytest.mark.parametrize("method", ["base", "mirror", "pairs", "sap"])
@pytest.mark.parametrize("level", ["word", "phrase", "sentence"])
def test_sentence_encoders_keep_their_pooling_in_tuning(
    registered: Plugins, method: str, level: str
) -> None:
    """The rows of a ladder differ in one thing: Mirror's recipe reads words at [CLS], this model by mean pooling."""
    for protocol, pooling in (("paper", "mean"), ("released", "mean-padded")):
        recipe = resolve_recipe(parse_spec(f"minilm+{method}"), level, "bert", protocol, registered)
        assert recipe.pooling == pooling
        for spec, expected in (("minilm+{}:pooling=cls", "cls"), ("roberta+{}:pooling=cls", "cls")):
            named = resolve_recipe(
                parse_spec(spec.format(method)), level, "bert", protocol, registered
            )
            assert named.pooling == expected
            assert replace(recipe, pooling=expected) == named
    for name, pooling in (("bge", "cls"), ("qwen3-embedding", "last"), ("e5", "mean")):
        assert (
            resolve_recipe(
                parse_spec(f"{name}+{method}"), level, "bert", "paper", registered
            ).pooling
            == pooling
        )
    assert (
        resolve_recipe(parse_spec("minilm+mirrorwic"), "wic", "bert", "paper", registered).pooling
        == "target"
    )
