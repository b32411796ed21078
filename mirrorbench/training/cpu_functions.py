"""What a CPU computes in place of torch's own functions while it tunes: the same, in less time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812  (torch's own convention)
from torch.overrides import TorchFunctionMode

from mirrorbench.training.attention import attention
from mirrorbench.training.embedding import embedding
from mirrorbench.training.quick_dropout import dropout


class FastCpuFunctions(TorchFunctionMode):
    """Under it the layers of this thread, and what calls their functions, use the substitutes.

    Args:
        generator: draws for dropout; torch's own by default.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self._substitutes: dict[Callable[..., Any], Callable[..., Any]] = {
            F.dropout: partial(dropout, generator=generator),
            F.embedding: embedding,
            F.scaled_dot_product_attention: partial(attention, generator=generator),
        }

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the substitute where there is one."""
        return self._substitutes.get(func, func)(*args, **(kwargs or {}))
