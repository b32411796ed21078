"""What a CPU computes in place of torch's own functions while it tunes: the same, in less time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn import functional as F  # noqa: N812  (torch's own convention)
from torch.overrides import TorchFunctionMode

from mirrorbench.training.dropout import dropout
from mirrorbench.training.embedding import embedding

_SUBSTITUTES: dict[Callable[..., Any], Callable[..., Any]] = {F.dropout: dropout, F.embedding: embedding}


class Substitutes(TorchFunctionMode):
    """Under it the layers of this thread, and what calls their functions, use the substitutes."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the substitute where there is one."""
        return _SUBSTITUTES.get(func, func)(*args, **(kwargs or {}))
