"""What stands in for torch's flash attention where there is no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mirrorbench.core import devices
from mirrorbench.models import packing

FORWARD = torch.ops.aten._flash_attention_forward.default
BACKWARD = torch.ops.aten._flash_attention_backward.default


class Flash(TorchDispatchMode):
    """Computes the kernel's two operations, forward and backward, on a CPU, and refuses what the kernel refuses.

    Between the two stands torch's own rule of differentiation.

    What is checked stands in torch 2.13's ``mha_varlen_fwd`` and ``mha_varlen_bwd``, and is stricter where the kernel
    would read memory that is not there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, float]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is FORWARD:
            return self.forward(*args, **(kwargs or {}))
        if func is BACKWARD:
            return self.backward(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        starts: Tensor,
        ends: Tensor,
        width: int,
        other: int,
        dropout: float,
        causal: bool,
        debug: bool,
        scale: float | None = None,
    ) -> tuple[Tensor, ...]:
        check(starts, width, query, key, value)
        assert ends is starts
        assert other == width
        assert 0 <= dropout < 1
        assert (causal, debug) == (False, False)
        self.calls.append(("forward", dropout))
        # As on a GPU: the draws come from torch's own generator, and their state is kept for the way back.
        state = torch.randint(2**31, (2,)) if dropout else torch.zeros(2, dtype=torch.int64)
        parts = texts(starts, state, dropout, scale, query, key, value)
        found = torch.cat(
            [torch.einsum("hqk,khd->qhd", w * kept, v) for w, kept, _, _, v in parts]
        ).to(query.dtype)
        sums = torch.empty(query.shape[1], len(query))
        return (
            found,
            sums,
            state.to(torch.uint64),
            torch.empty((), dtype=torch.uint64),
            torch.empty(0),
        )

    def backward(
        self,
        gradient: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        found: Tensor,
        sums: Tensor,
        starts: Tensor,
        ends: Tensor,
        width: int,
        other: int,
        dropout: float,
        causal: bool,
        state: Tensor,
        unused: Tensor,
        scale: float | None = None,
        **_: Any,
    ) -> tuple[Tensor, ...]:
        check(starts, width, query, key, value, found)
        assert gradient.dtype == query.dtype
        assert gradient.shape == query.shape
        assert gradient.is_contiguous()  # else it would be copied
        self.calls.append(("backward", dropout))
        triples = []
        for weights, kept, q, k, v, g in texts(
            starts, state, dropout, scale, query, key, value, gradient
        ):
            by_weight = torch.einsum("qhd,khd->hqk", g, v) * kept
            by_score = weights * (by_weight - (by_weight * weights).sum(-1, keepdim=True))
            factor = q.shape[-1] ** -0.5 if scale is None else scale
            by_query = torch.einsum("hqk,khd->qhd", by_score, k) * factor
            by_key = torch.einsum("hqk,qhd->khd", by_score, q) * factor
            triples.append((by_query, by_key, torch.einsum("hqk,qhd->khd", weights * kept, g)))
        return tuple(torch.cat(parts).to(query.dtype) for parts in zip(*triples, strict=True))


def check(starts: Tensor, width: int, *states: Tensor) -> None:
    """Raise where the kernel would refuse the states of a row of texts, or the starts of the texts in it."""
    tokens, _, size = states[0].shape
    assert states[0].dtype in (torch.bfloat16, torch.float16)
    assert size % 8 == 0
    assert size <= 192
    for part in states:
        assert (part.dtype, part.shape, part.device) == (
            states[0].dtype,
            states[0].shape,
            states[0].device,
        )
        assert part.stride(-1) == 1
        assert (
            part.is_contiguous()
        )  # not asked for by the kernel; a copy somewhere would be lost time
    assert starts.dtype == torch.int32
    assert starts.is_contiguous()
    assert starts.device == states[0].device
    assert (starts[0].item(), starts[-1].item()) == (0, tokens)
    assert int(starts.diff().max()) == width
    assert int(starts.diff().min()) >= 1


def texts(
    starts: Tensor, state: Tensor, dropout: float, scale: float | None, *rows: Tensor
) -> Iterator[list[Tensor]]:
    """For each text its weights of attention, what dropout multiplies them with, and its part of the rows; float32."""
    generator = torch.Generator().manual_seed(int(state.to(torch.int64)[0]))
    for parts in zip(*(row.float().split(starts.diff().tolist()) for row in rows), strict=True):
        query, key, *_ = parts
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        weights = torch.einsum("qhd,khd->hqk", query, key).mul(factor).softmax(-1)
        kept = torch.rand(weights.shape, generator=generator) >= dropout
        yield [weights, kept / (1 - dropout), *parts]


@contextmanager
def as_if_on_ampere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Flash]:
    """On a CPU, attention in half precision takes the way that it takes on a GPU; ``Flash`` stands in."""
    monkeypatch.setattr(packing, "capability", lambda device: (8, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    with Flash() as flash:
        yield flash


def force_gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """``meta`` takes all branches of a GPU, an H200; returns that device."""
    monkeypatch.setattr(devices, "GPUS", (*devices.GPUS, "meta"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # it asks for a driver
    return torch.device("meta")
