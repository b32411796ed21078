"""A whole run, tuning and scores, is what the plain procedure gives: padded, unsorted, text by text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, AutoTokenizer

import mirrorbench

PACKAGE = Path(mirrorbench.__file__).parent / "embedded"
BATCH, LENGTH, TEMPERATURE = 50, 50, 0.04
pytestmark = pytest.mark.real


def plain_model(texts: list[str]) -> tuple[Any, Any]:
    """One epoch over texts without augmentation: each view padded, a pass of its own, NT-Xent by cross-entropy."""
    tokenizer = AutoTokenizer.from_pretrained(PACKAGE / "tiny")
    model = AutoModel.from_pretrained(PACKAGE / "tiny", dtype=torch.float32).eval()  # no dropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    order = np.random.default_rng(0).permutation(len(texts))
    for rows in np.array_split(order, len(texts) // BATCH):
        views = [
            tokenizer([texts[row] for row in rows], padding="max_length", max_length=LENGTH, return_tensors="pt")
            for _ in range(2)
        ]
        vectors = torch.cat([mean(model(**view).last_hidden_state, view["attention_mask"]) for view in views])
        cosines = normalize(vectors) @ normalize(vectors).T / TEMPERATURE
        cosines.fill_diagonal_(float("-inf"))
        loss = cross_entropy(cosines, torch.arange(2 * len(rows)).roll(len(rows)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, tokenizer


def mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@torch.no_grad()
def plain_score(model: Any, tokenizer: Any) -> float:
    """Spearman's correlation on STS 2017, text by text."""
    folder = PACKAGE / "data" / "sts17"
    rows = [
        line.split("\t") for line in (folder / "STS.input.track5.en-en.txt").read_text(encoding="utf-8").split("\n")
    ]
    gold = [float(line) for line in (folder / "STS.gs.track5.en-en.txt").read_text(encoding="utf-8").split()]

    def vector(text: str) -> torch.Tensor:
        return model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)

    cosines = [torch.cosine_similarity(vector(row[0]), vector(row[1]), dim=0).item() for row in rows[: len(gold)]]
    return float(spearmanr(cosines, gold)[0])


@pytest.mark.slow
def test_scores_are_those_of_the_plain_procedure(tmp_path: Path) -> None:
    texts = (PACKAGE / "data" / "corpora" / "sentences.txt").read_text(encoding="utf-8").split("\n")[:200]
    corpus = tmp_path / "mine.txt"
    corpus.write_text("\n".join(texts), encoding="utf-8")
    options = "dropout=0,span_mask=0,pooling=mean,layers=-1,loss=ntxent,lr=1e-3,batch_size=50,epochs=1,temperature=0.04"
    spec = f"tiny+mirror:{options},corpus={corpus}"
    scores = {name: mirrorbench.evaluate(name, "quick-sts")["quick-sts"] for name in (spec, "tiny+base:pooling=mean")}
    model, tokenizer = plain_model(texts)
    assert scores[spec] == pytest.approx(plain_score(model, tokenizer), abs=5e-5)
    # It moved the scores, so that equal ones say something.
    assert abs(scores[spec] - scores["tiny+base:pooling=mean"]) > 0.001
