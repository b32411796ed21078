"""All methods of the package, loaded from Python and run on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.plugin_fixtures import Said
from helpers.suite_marks import few, slow
from sample_texts import CORPUS, TEXTS

import mirrorbench
from mirrorbench.plugin import Plugins


@pytest.mark.parametrize("method", ["simcse", "esimcse", "diffcse", "promptbert", "ct", "tsdae"])
def test_loaded_method_changes_the_vectors(plugins: Plugins, method: str) -> None:
    recipe = plugins.methods[method].preset("sentence", "bert", "paper")
    readout = f"pooling={recipe.pooling}"
    if recipe.prompt:
        readout += f",prompt={recipe.prompt}"
    untuned = mirrorbench.load(f"tiny+base:{readout}", offline=True).encode(TEXTS[:2])
    tuned = mirrorbench.load(f"tiny+{method}:{CORPUS}", offline=True).encode(TEXTS[:2])
    assert tuned.shape == untuned.shape == (2, 256)
    assert np.isfinite(tuned).all()
    assert not np.array_equal(tuned, untuned)


@pytest.mark.parametrize(
    "labels",
    few([(("ESimCSE", "PromptBERT"),), (("SimCSE", "DiffCSE", "CT", "TSDAE"),)], suite=slow),
)
def test_methods_tune_through_the_command_line(
    said: Said, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    (tmp_path / "mine.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    specs = [
        part for label in labels for part in ("--encoder", f"tiny+{label.lower()}:batch_size=16")
    ]
    code, out, err = said(
        "run", "--offline", "--tasks", "quick-sts", "--corpus", "mine.txt", *specs
    )
    assert code == 0, err
    for label in labels:
        assert f"tiny+{label.lower()}:batch_size=16" in out
        (result,) = (tmp_path / "results").glob(f"tiny+{label.lower()}_*/quick-sts/seed-0.json")
        cell = json.loads(result.read_text(encoding="utf-8"))
        assert cell["cell"]["corpus"]["n"] == len(TEXTS)
        assert 0.3 < cell["main_score"] < 1
