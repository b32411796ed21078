"""Dropout whose masks a CPU draws quickly.

Torch draws a random number of 53 bits, one after the other on one core, for each value that may be dropped. Sixteen
bits decide as well, and four of those come with every draw: tuning on two cores takes about a tenth less time.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812  (torch's own convention)

_STEPS = 1 << 16


def dropout(
    x: torch.Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """As ``torch.nn.functional.dropout``, for a tensor on the CPU.

    Args:
        x: any shape, floating point.
        p: probability of each value to be dropped, 0 to 1; rounded to a multiple of 2^-16, and what is kept is scaled
            by the rounded one, so that the mean stays what it is.
        training: without it nothing is dropped.
        inplace: change ``x`` itself.
        generator: draws; torch's own by default.
    """
    dropped = round(p * _STEPS)
    if not training or not 0 < dropped < _STEPS or x.device.type != "cpu":
        return F.dropout(x, p, training, inplace)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64)
    draws.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - _STEPS // 2
    mask = kept.to(x.dtype).mul_(_STEPS / (_STEPS - dropped))
    return x.mul_(mask) if inplace else x * mask
