"""Columns of a paper's table that an analysis fills."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.own_paper_tables import listing, own_tables

import mirrorbench as package

__all__ = ["own_tables"]


ANALYSED = """
title: Spaces
where: nowhere
kind: scores
scale: raw
columns:
  - {head: IS, analysis: {kind: isotropy, value: row_isotropy, task: quick-simlex, texts: texts.txt}}
  - {head: MVN, analysis: {kind: isotropy, value: mean_vector_norm, task: quick-simlex, texts: texts.txt}}
  - {head: dissimilar, analysis: {kind: similarity, value: low, task: quick-simlex}}
  - {head: similar, analysis: {kind: similarity, value: positive, task: quick-wic}}
  - {head: spring, analysis: {kind: projection, value: silhouette, task: quick-wic, word: spring}}
  - {head: random words, analysis: {kind: layers, value: random_similarity, task: quick-simlex, texts: texts.txt}}
rows:
  - {label: before, encoder: "bert+base:pooling=mean", values: [.169, 7.89, null, null, null, null]}
  - {label: after, encoder: "bert+mirror:corpus=tuned.txt", values: [.599, 2.11, null, null, null, null]}
"""


@pytest.mark.slow
def test_analysis_columns_equal_direct_measurements(
    mirrorbench: Callable, folder: Path, own_tables: Path, random_model: Callable[[str], Path]
) -> None:
    def cells_of(done: Any) -> dict[tuple[int, str], Any]:
        return {(cell["row"], cell["column"]): cell for cell in json.loads(done.out)["cells"]}

    (own_tables / "table9.yaml").write_text(ANALYSED)
    for name in ("texts.txt", "tuned.txt"):
        (folder / name).write_text("the cat sat here\na dog ran\nwe ate the pie\nthe dog sat\n")
    model = str(random_model("bert"))
    run = ("paper", "own/table9", "--encoder", model, "--run", "--seeds", "2", "--format", "json")
    cells = cells_of(mirrorbench(*run).assert_works())
    # Nothing is tuned in the first row: no seeds.
    assert {cell["seeds"] for (row, _), cell in cells.items() if row == 1} == {1}
    assert {cell["seeds"] for (row, _), cell in cells.items() if row == 2} == {2}
    plain = f"{model}+base:pooling=mean"
    assert cells[1, "IS"]["encoder"] == plain
    texts = (folder / "texts.txt").read_text().splitlines()
    vectors = package.load(plain).encode(texts).astype(np.float64)
    assert cells[1, "MVN"]["measured"] == pytest.approx(np.linalg.norm(vectors.mean(axis=0)))
    (path,) = (
        path
        for path in (folder / "results").rglob("quick-simlex/seed-0.npz")
        if "base" in str(path)
    )
    pairs = np.load(path)
    words = np.load(str(path).replace("quick-simlex", "quick-wic"))
    low = pairs["gold"] < pairs["gold"].min() + np.ptp(pairs["gold"]) / 3
    assert cells[1, "dissimilar"]["measured"] == pytest.approx(pairs["scores"][low].mean())
    positive = (words["gold"] == 1) & (words["splits"] == "train")  # the split that is scored
    assert cells[1, "similar"]["measured"] == pytest.approx(words["scores"][positive].mean())
    projected = mirrorbench("analyze", "projection", "-e", plain, "-f", "none")
    projected.assert_works(f"\t{cells[1, 'spring']['measured']:.4f}")
    mirrorbench(
        "analyze", "layers", "-e", plain, "-t", "quick-simlex", "--texts", "texts.txt", "-f", "none"
    )
    top = np.loadtxt(
        folder / "analysis" / "layers-quick-simlex.csv", delimiter=",", skiprows=1, usecols=5
    )
    assert cells[1, "random words"]["measured"] == pytest.approx(top[-4:].mean())
    again = mirrorbench(*run).assert_works()
    assert cells_of(again) == cells
    assert ", from earlier runs" in again.err  # nothing is computed twice
    assert mirrorbench("paper", "own/table9", "--encoder", model, "-f", "json").out == again.out
    assert listing(mirrorbench("paper", "--encoder", model).out)["own/table9"][0] == "12 of 12"
    # Results of analyses are not scores of tasks.
    assert "isotropy" not in mirrorbench("leaderboard", "results").assert_works().out
    # Other texts, another number.
    (folder / "texts.txt").write_text("the cat sat here\na dog ran\n")
    cells = cells_of(mirrorbench(*run).assert_works())
    assert cells[1, "MVN"]["measured"] == pytest.approx(np.linalg.norm(vectors[:2].mean(axis=0)))
