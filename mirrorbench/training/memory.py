"""How much of a batch may be held for back-propagation at once."""

from __future__ import annotations

import torch

from mirrorbench.models.transformer import Transformer

HELD_BYTES = {"cpu": 8 << 30, "mps": 4 << 30}
"""Memory for activations by device type; on CUDA half of what the device has."""

_BYTES = 105
"""Activations kept in float32 for each token, layer and dimension of the hidden states: 79 to 104 in BERT of several
sizes (dropout on, 20 to 64 tokens a text, a feed-forward width of four times the hidden one), up to 129 at 128 tokens.
In bf16 they are fewer."""


def held_tokens(transformer: Transformer) -> int:
    """Tokens whose activations fit into the device's share, at least 2.

    Args:
        transformer: its configuration says how many layers and dimensions there are.
    """
    device, config = transformer.device, transformer.model.config
    if device.type == "cuda":
        limit = torch.cuda.get_device_properties(device).total_memory // 2
    else:
        limit = HELD_BYTES[device.type]
    return max(2, int(limit // (_BYTES * config.num_hidden_layers * config.hidden_size)))
