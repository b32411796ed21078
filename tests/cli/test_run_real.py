"""The main job on a real model and real data, against an independent computation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from mirrorbench.data.store import DataStore

pytestmark = pytest.mark.real


@pytest.mark.slow
def test_scores_equal_sentence_transformers(
    mirrorbench: Callable, folder: Path, minilm: Path, originals: Callable[..., DataStore]
) -> None:
    """The mean row of `minilm` is the encoder as its files say, which keep 256 tokens: no text here has beyond 64."""
    from sentence_transformers import SentenceTransformer

    data = originals("sts").root
    command = ("run", "-e", "minilm+base", "-t", "sts17-en", "--data-dir", str(data), "--offline")
    mirrorbench(*command).assert_works()
    stored = [json.loads(path.read_text()) for path in folder.rglob("seed-0.json")]
    (found,) = (
        result["main_score"] for result in stored if result["cell"]["spec"] == "minilm+base"
    )
    model = SentenceTransformer(str(minilm), device="cpu", local_files_only=True)
    assert model.max_seq_length == 256
    texts, gold = (
        (data / "sts17-en" / f"STS.{kind}.track5.en-en.txt")
        .read_text(encoding="utf-8")
        .splitlines()
        for kind in ("input", "gs")
    )
    assert len(gold) == 250
    left, right = zip(*(line.split("\t")[:2] for line in texts), strict=True)
    cosines = model.similarity_pairwise(model.encode(left), model.encode(right))
    expected = spearmanr(cosines, np.array(gold, float)).statistic
    assert found == pytest.approx(expected, abs=5e-5)
    assert 0.8 < expected < 0.9


@pytest.mark.slow
def test_minilm_matches_sentence_transformers(minilm: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    import mirrorbench as package

    texts = ["the printer does not work " * 40, "a dog"]
    expected = SentenceTransformer(str(minilm), device="cpu").encode(texts)
    actual = package.load("minilm", device="cpu").encode(texts)
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    lines = [f"{word} {n}" for n in range(8) for word in ("cats", "dogs")]
    package.tune(lines, "minilm+mirror:lr=0,epochs=1", tmp_path / "tuned", held_out=0, device="cpu")
    tuned = SentenceTransformer(str(tmp_path / "tuned"), device="cpu")
    assert tuned.max_seq_length == 256
    np.testing.assert_allclose(tuned.encode(texts), expected, atol=1e-5)
