"""A reimplementation of the loops of Mirror-BERT's released code, the baseline of the speed measurements.

Tuning: texts padded to the maximum length, a forward pass for each view, tokenising batch by batch, a plain AdamW,
the loss read after every step. Encoding: batches of 64 in the order of the texts, padded to the maximum length. On CUDA
both use automatic mixed precision, as the released code does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.training.augmentations import AugmentationContext
from mirrorbench.training.augmentations.text import span_mask
from mirrorbench.training.losses import ntxent

BATCH = 64
"""Texts in a batch of the evaluation."""


def mean(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The masked mean over the last layer."""
    states = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state.float()
    mask = batch["attention_mask"][..., None]
    return (states * mask).sum(1) / mask.sum(1)


def padded(tokenizer: Any, texts: Sequence[str], length: int, device: torch.device) -> dict[str, torch.Tensor]:
    """A batch of texts, each padded to ``length`` tokens."""
    batch = tokenizer(list(texts), padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    return {name: tensor.to(device) for name, tensor in batch.items()}


def tune(
    model: Any, tokenizer: Any, texts: Sequence[str], length: int, characters: int, batch_size: int, temperature: float
) -> int:
    """One epoch of tuning; the dropout is the model's own.

    Args:
        model: in float32; changed in place.
        tokenizer: its tokenizer.
        texts: the strings.
        length: tokens that each is padded to.
        characters: masked in the second view.
        batch_size: strings in a batch.
        temperature: of NT-Xent.

    Returns:
        The number of steps.
    """
    device = next(model.parameters()).device
    rng = np.random.default_rng(0)
    view = AugmentationContext(rng, characters, tokenizer.mask_token, "paper")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    model.train()
    order = rng.permutation(len(texts))
    starts = range(0, len(order) - batch_size + 1, batch_size)
    for start in starts:
        left = [texts[row] for row in order[start : start + batch_size]]
        right = [span_mask(text, view) for text in left] if characters else left
        with _mixed(device):
            first, second = (mean(model, padded(tokenizer, side, length, device)) for side in (left, right))
            loss = ntxent(first, second, temperature)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()
    return len(starts)


@torch.no_grad()
def encode(model: Any, tokenizer: Any, texts: Sequence[str], length: int) -> NDArray[np.float32]:
    """Masked means, shape (len(texts), dimensions)."""
    device = next(model.parameters()).device
    model.eval()
    parts = []
    for start in range(0, len(texts), BATCH):
        with _mixed(device):
            vectors = mean(model, padded(tokenizer, texts[start : start + BATCH], length, device))
        parts.append(vectors.cpu().numpy())
    return np.concatenate(parts)


def _mixed(device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast("cuda", dtype=torch.float16) if device.type == "cuda" else nullcontext()
