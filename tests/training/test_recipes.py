from __future__ import annotations

from typing import Any

import pytest
from helpers.augmented_models import AUGMENTATIONS

from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.training.methods import mirror_preset
from mirrorbench.training.recipes import Recipe, override


def changed(**params: Any) -> Recipe:
    return override(mirror_preset("sentence", "bert", "paper"), params, AUGMENTATIONS)


# Paper 1, section 3 ("Training Setup and Details"), Table 21 and appendix B.
@pytest.mark.parametrize(
    ("level", "temperature", "span", "epochs", "length"),
    [
        ("word", 0.2, 0, 2, 25),
        ("phrase", 0.04, 2, 2, 25),
        ("sentence", 0.04, 5, 1, 50),
        ("wic", 0.04, 5, 1, 50),
    ],
)
@pytest.mark.parametrize("architecture", ["bert", "roberta", "deberta-v2"])
@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_mirror_presets_have_published_values(
    level: str,
    temperature: float,
    span: int,
    epochs: int,
    length: int,
    architecture: str,
    protocol: str,
) -> None:
    recipe = mirror_preset(level, architecture, protocol)
    assert (recipe.temperature, recipe.epochs, recipe.train_max_length) == (
        temperature,
        epochs,
        length,
    )
    assert (recipe.rate("span_mask"), recipe.rate("dropout"), recipe.rate("drophead")) == (
        span,
        0.1,
        0,
    )
    assert (recipe.lr, recipe.batch_size, recipe.layers) == (2e-5, 200, "-1:")
    assert recipe.loss == ("infonce" if protocol == "paper" else "ntxent")
    mean = {"paper": "mean", "released": "mean-padded"}[protocol]
    assert recipe.pooling == (
        mean if architecture == "bert" and level in ("sentence", "wic") else "cls"
    )
    assert (recipe.drop_last, recipe.clean_corpus) == (
        (True, False) if protocol == "released" else (False, True)
    )


def test_recipe_values_can_be_overridden() -> None:
    recipe = changed(
        temperature=1,
        epochs=3,
        train_max_length=9,
        pooling="cls",
        layers=-2,
        lr=0.1,
        batch_size=4,
        weight_decay=0,
        loss="ntxent",
        drop_last=True,
        clean_corpus=False,
        dropout=0,
        span_mask=7,
    )
    assert recipe == Recipe(
        1.0,
        3,
        9,
        "cls",
        "-2",
        0.1,
        4,
        0.0,
        "ntxent",
        (("dropout", 0.0), ("span_mask", 7.0)),
        True,
        False,
    )
    assert recipe.to_json()["augment"] == {"dropout": 0.0, "span_mask": 7.0}
    assert (
        changed(max_length=3, corpus="x", corpus_size=7) == changed()
    )  # keys of others are left alone
    assert [changed(controlled_dropout=rate).rate("dropout") for rate in (0, 0.1)] == [
        0.1,
        0,
    ]  # takes its place
    # The identity of other tunings is as before each of the later keys.
    later = changed(gradient_checkpointing=True).to_json()
    assert later.pop("gradient_checkpointing") is True
    assert later == changed().to_json()


@pytest.mark.parametrize("method", ["mirror", "mirrorwic", "pairs", "sap"])
def test_multi_similarity_parameters_follow_the_protocol(method: str, plugins: Plugins) -> None:
    """Released code: ``alpha=1, beta=60, base=0.5`` in SapBERT's and in MirrorWiC's ``metric_learning.py``."""
    preset = plugins.methods[method].preset
    actual = {}
    for protocol in ("paper", "released"):
        recipe = override(
            preset("phrase", "bert", protocol), {"loss": "multi-similarity"}, AUGMENTATIONS
        )
        actual[protocol] = (recipe.alpha, recipe.beta, recipe.base)
        assert (
            recipe.to_json().items()
            >= {"alpha": recipe.alpha, "beta": recipe.beta, "base": recipe.base}.items()
        )
    assert actual == {"paper": (2, 50, 0.5), "released": (1, 60, 0.5)}
    own = changed(loss="multi-similarity", alpha=3, base=0)
    assert (own.alpha, own.beta, own.base) == (3, 50, 0)
    assert not {"alpha", "beta", "base"} & changed().to_json().keys()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epochs": 0}, "epochs=0 is out of range"),
        ({"batch_size": 1}, "batch_size=1 is out of range"),
        ({"temperature": 0}, "temperature=0.0 is out of range"),
        ({"temperature": "hot"}, "temperature=hot is not a number"),
        ({"lr": -1.0}, "lr=-1.0 is out of range"),
        ({"lr": float("inf")}, "lr=inf is out of range"),
        ({"train_max_length": 2}, "train_max_length=2 is out of range"),
        ({"drop_last": 1}, "drop_last=1 is not of type bool"),
        ({"dropout": 1}, "dropout=1 is out of range"),
        ({"sides": 3}, "sides=3 is out of range"),
        ({"loss": "multi-similarity", "alpha": 0}, "alpha=0.0 is out of range"),
        ({"loss": "multi-similarity", "base": 1.5}, "base=1.5 is out of range"),
        ({"beta": 60}, "beta=60 belongs to the loss multi-similarity, and the loss is infonce"),
        ({"span_mask": -1}, "span_mask=-1 is out of range"),
        (
            {"controlled_dropout": 0.1, "dropout": 0.1},
            "dropout and controlled_dropout set the same layers",
        ),
        ({"span_mask": True}, "span_mask=True is not a number"),
    ],
)
def test_invalid_recipe_values_are_rejected(params: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        changed(**params)


def test_unknown_key_suggests_the_nearest_key() -> None:
    for unknown, nearest in (("temprature", "temperature"), ("spanmask", "span_mask")):
        with pytest.raises(UnknownNameError, match=f"'{unknown}'") as caught:
            changed(**{unknown: 1})
        assert nearest in caught.value.hint
