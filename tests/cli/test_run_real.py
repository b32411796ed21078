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


def sts17_english(root: Path) -> list[tuple[str, str, float]]:
    texts, gold = (
        (root / "sts17-en" / f"STS.{kind}.track5.en-en.txt").read_text(encoding="utf-8").splitlines()
        for kind in ("input", "gs")
    )
    return [(*text.split("\t")[:2], float(score)) for text, score in zip(texts, gold, strict=True)]


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
    (found,) = (result["main_score"] for result in stored if result["cell"]["spec"] == "minilm+base")
    model = SentenceTransformer(str(minilm), device="cpu", local_files_only=True)
    assert model.max_seq_length == 256
    pairs = sts17_english(data)
    assert len(pairs) == 250
    texts = sorted({text for pair in pairs for text in pair[:2]})
    vectors = dict(zip(texts, model.encode(texts, normalize_embeddings=True), strict=True))
    cosines = [np.dot(vectors[left], vectors[right]) for left, right, _ in pairs]
    expected = spearmanr(cosines, [gold for *_, gold in pairs]).statistic
    assert found == pytest.approx(expected, abs=5e-5)
    assert 0.8 < expected < 0.9


@pytest.mark.full
def test_what_a_window_leaves_out_stands_in_the_result(mirrorbench: Callable, folder: Path) -> None:
    from transformers import AutoTokenizer

    from mirrorbench.models.backbones import embedded_directory
    from mirrorbench.runs.builtin import plugins

    said = mirrorbench(
        "run", "-e", "tiny+base:pooling=target,layers=-2:,max_length=8", "-t", "quick-wic", "--offline"
    ).assert_works()
    (path,) = folder.rglob("seed-0.json")
    result = json.loads(path.read_text())
    task = plugins().tasks["quick-wic"]
    inputs = set(task.inputs(task.load(DataStore(folder / "data", offline=True))))
    tokenizer = AutoTokenizer.from_pretrained(embedded_directory())
    longer = sum(len(tokenizer(item.text)["input_ids"]) > 8 for item in inputs)
    assert 0 < longer < len(inputs) == result["encoder"]["texts"]
    assert result["encoder"]["texts_cut"] == longer
    assert f"a window of 8 tokens around the target of longer texts ({longer})" in said.out
