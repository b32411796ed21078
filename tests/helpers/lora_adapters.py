"""LoRA adapters that have learnt something, and backbones in half precision to put them on."""

from __future__ import annotations

from pathlib import Path

import torch

from mirrorbench.models.adapters import add_adapter
from mirrorbench.models.transformer import Transformer, load_transformer

CPU = torch.device("cpu")


def learnt(model: torch.nn.Module) -> None:
    """Change the weights that are tuned, as a tuning would."""
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data += 0.1 * torch.randn(weight.shape, generator=generator)


def adapted(path: Path) -> Transformer:
    """A model with an adapter that has learnt something."""
    transformer = load_transformer(path, CPU)
    add_adapter(transformer.adaptable_model, path, 4, 0)
    learnt(transformer.adaptable_model)
    return transformer


def half(path: Path, to: Path, dtype: torch.dtype = torch.bfloat16) -> Path:
    """Store a model as a checkpoint in half precision."""
    transformer = load_transformer(path, CPU)
    transformer.adaptable_model.to(dtype)
    transformer.save(to)
    return to
