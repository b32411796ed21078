from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from augmented import AUGMENTATIONS

from mirrorbench.core.errors import TuningError
from mirrorbench.core.plugins import Plugins
from mirrorbench.models.pooling import Pooling
from mirrorbench.runs.runner import open_for_tuning
from mirrorbench.training import methods
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import PairMaker, Pairs, name_pairs, sap_preset
from mirrorbench.training.recipes import override

NAMES = [f"C{i}\t{kind} {word}" for i, word in enumerate(["liver", "lung", "heart", "skin", "bone"])
         for kind in ("cancer of the", "tumour of", "malign")]  # fmt: skip


def pairs(texts: Sequence[str]) -> Pairs:
    recipe = sap_preset("phrase", "bert", "paper")
    return name_pairs(texts, PairMaker(recipe, np.random.default_rng(0), "[MASK]", "paper", AUGMENTATIONS))


def test_all_pairs_of_a_concepts_names() -> None:
    made = pairs(["C1||heart attack", "C2||cold", "C1||MI", "C1||myocardial infarction", "C2||common cold", "C3||x"])
    found = set(zip(made.groups or (), [i.text for i in made.left], [i.text for i in made.right], strict=True))
    assert found == {
        ("C1", "heart attack", "MI"),
        ("C1", "heart attack", "myocardial infarction"),
        ("C1", "MI", "myocardial infarction"),
        ("C2", "cold", "common cold"),
    }


def test_the_two_formats_agree() -> None:
    one, other = pairs([line.replace("\t", "||") for line in NAMES]), pairs(NAMES)
    assert one == other
    names: dict[str, list[str]] = {}
    for line in NAMES:
        names.setdefault(line.split("\t")[0], []).append(line.split("\t")[1])
    ready = pairs([f"{c}||{a} || {b}" for c, n in names.items() for a, b in combinations(n, 2)])
    assert ready == other


def test_a_concept_with_many_names_does_not_dominate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "MOST_PAIRS", 7)
    made = pairs([*(f"C1||name {i}" for i in range(30)), "C2||a", "C2||b"])
    assert (made.groups or []).count("C1") == 7  # type: ignore[attr-defined]
    assert len({(a.text, b.text) for a, b in zip(made.left, made.right, strict=True)}) == 8


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["C1||a||b", "just a name"], "'just a name' is no name with an id"),
        (["C1||a||b||c"], "is no name with an id"),
        (["C1||"], "is no name with an id"),
        (["C1||a", "C2||b", "C1||a"], "no two names of the corpus share an id"),
    ],
)
def test_what_is_no_training_data(texts: list[str], message: str) -> None:
    with pytest.raises(TuningError, match=message):
        pairs(texts)


def test_tuning_draws_the_names_of_a_concept_together(random_model: Callable[[str], Path], plugins: Plugins) -> None:
    recipe = override(
        plugins.methods["sap"].preset("phrase", "bert", "paper"), {"lr": 1e-3, "epochs": 8, "dropout": 0}, AUGMENTATIONS
    )
    assert (recipe.loss, recipe.batch_size, recipe.pooling, recipe.train_max_length) == (
        "multi-similarity", 256, "cls", 25,
    )  # fmt: skip
    transformer = open_for_tuning(random_model("bert"), recipe, AUGMENTATIONS, torch.device("cpu"))
    groups = torch.tensor([int(line[1]) for line in NAMES])

    @torch.no_grad()
    def gap() -> float:
        """Mean cosine of names of one concept minus that of names of different concepts."""
        ids = transformer.tokenize([line.split("\t")[1] for line in NAMES], 25)
        vectors = torch.nn.functional.normalize(transformer.forward(ids, [Pooling("cls")])[0], dim=1)
        same = (groups[:, None] == groups) & ~torch.eye(len(groups), dtype=torch.bool)
        other = groups[:, None] != groups
        cosines = vectors @ vectors.T
        return float(cosines[same].mean() - cosines[other].mean())

    before = gap()
    tune_backbone(transformer, NAMES, recipe, 0, AUGMENTATIONS, pairs=plugins.methods["sap"].pairs)
    assert gap() > before + 0.05
