"""A reimplementation of the loops of Mirror-BERT's released code, the baseline of the speed measurements.

Tuning: texts padded to the maximum length, a forward pass for each view, batches tokenised by torch's loader, a plain
AdamW, the loss read after every step. Encoding: batches of 64 in the order of the texts, padded to the maximum length.
On CUDA both use automatic mixed precision, as the released code does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.training.augmentations import AugmentationContext, span_mask
from mirrorbench.training.losses import ntxent

BATCH = 64
"""Texts in a batch of the evaluation."""


def mean(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the masked mean over the last layer."""
    states = model(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
    ).last_hidden_state.float()
    mask = batch["attention_mask"][..., None]
    return (states * mask).sum(1) / mask.sum(1)


def padded(tokenizer: Any, texts: Sequence[str], length: int) -> dict[str, torch.Tensor]:
    """Tokenise a batch of texts, each padded to ``length`` tokens."""
    return dict(
        tokenizer(
            list(texts),
            padding="max_length",
            truncation=True,
            max_length=length,
            return_tensors="pt",
        )
    )


@dataclass(frozen=True)
class Views:
    """Maker and tokeniser of both views of a batch, in a worker of the loader if it has any."""

    tokenizer: Any
    length: int
    characters: int

    def __call__(self, texts: Sequence[str]) -> list[dict[str, torch.Tensor]]:
        """Return the views, each padded."""
        rng = np.random.default_rng(torch.initial_seed())
        view = AugmentationContext(rng, self.characters, self.tokenizer.mask_token, "paper")
        right = [span_mask(text, view) for text in texts] if self.characters else texts
        return [padded(self.tokenizer, side, self.length) for side in (texts, right)]


def tune(
    model: Any,
    texts: Sequence[str],
    views: Views,
    batch_size: int,
    temperature: float,
    workers: int = 0,
) -> int:
    """Tune for one epoch; the dropout is the model's own.

    Args:
        model: in float32; changed in place.
        texts: the strings.
        views: makes the batches.
        batch_size: strings in a batch.
        temperature: of NT-Xent.
        workers: processes that tokenise; the released code has 16. 0: this one.

    Returns:
        The number of steps.
    """
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    model.train()
    batches = torch.utils.data.DataLoader(
        list(texts),  # type: ignore[arg-type]
        batch_size,
        shuffle=True,
        num_workers=workers,
        collate_fn=views,
        drop_last=True,
    )
    for sides in batches:
        moved = [{name: tensor.to(device) for name, tensor in side.items()} for side in sides]
        with _mixed(device):
            first, second = (mean(model, side) for side in moved)
            loss = ntxent(first, second, temperature)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()
    return len(batches)


@torch.no_grad()
def encode(model: Any, tokenizer: Any, texts: Sequence[str], length: int) -> NDArray[np.float32]:
    """Return masked means, shape (len(texts), dimensions)."""
    device = next(model.parameters()).device
    model.eval()
    parts = []
    for start in range(0, len(texts), BATCH):
        batch = padded(tokenizer, texts[start : start + BATCH], length)
        with _mixed(device):
            vectors = mean(model, {name: tensor.to(device) for name, tensor in batch.items()})
        parts.append(vectors.cpu().numpy())
    return np.concatenate(parts)


def _mixed(device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast("cuda", dtype=torch.float16) if device.type == "cuda" else nullcontext()
