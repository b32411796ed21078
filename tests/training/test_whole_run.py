"""Complete runs, tuning and scores, against the plain procedure: padded, unsorted, text by text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, AutoTokenizer

import mirrorbench

PACKAGE = Path(mirrorbench.__file__).parent / "embedded"
BATCH = 50
TEMPERATURE = 0.04
pytestmark = pytest.mark.real


def plain_model(texts: list[str]) -> tuple[Any, Any]:
    """One epoch over texts without augmentation: padded, NT-Xent by cross-entropy."""
    tokenizer = AutoTokenizer.from_pretrained(PACKAGE / "tiny")
    model = AutoModel.from_pretrained(PACKAGE / "tiny", dtype=torch.float32).eval()  # no dropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    order = np.random.default_rng(0).permutation(len(texts))
    for rows in np.array_split(order, len(texts) // BATCH):
        batch = tokenizer([texts[row] for row in rows] * 2, padding=True, return_tensors="pt")
        mask = batch["attention_mask"][..., None]
        vectors = (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
        cosines = normalize(vectors) @ normalize(vectors).T / TEMPERATURE
        cosines.fill_diagonal_(float("-inf"))
        loss = cross_entropy(cosines, torch.arange(2 * len(rows)).roll(len(rows)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, tokenizer


@pytest.mark.slow
def test_tuned_scores_equal_the_plain_procedure(tmp_path: Path) -> None:
    texts = (
        (PACKAGE / "data" / "corpora" / "sentences.txt")
        .read_text(encoding="utf-8")
        .split("\n")[:200]
    )
    corpus = tmp_path / "mine.txt"
    corpus.write_text("\n".join(texts), encoding="utf-8")
    options = "dropout=0,span_mask=0,pooling=mean,layers=-1,loss=ntxent,lr=1e-3,batch_size=50,epochs=1,temperature=0.04"
    spec = f"tiny+mirror:{options},corpus={corpus}"
    scores = {
        name: mirrorbench.evaluate(name, "quick-sts")["quick-sts"]
        for name in (spec, "tiny+base:pooling=mean")
    }
    for part in plain_model(texts):
        part.save_pretrained(tmp_path / "plain")
    expected = mirrorbench.evaluate(f"{tmp_path / 'plain'}+base:pooling=mean", "quick-sts")[
        "quick-sts"
    ]
    assert scores[spec] == pytest.approx(expected, abs=5e-5)
    # It moved the scores, so that equal ones say something.
    assert abs(scores[spec] - scores["tiny+base:pooling=mean"]) > 0.001
