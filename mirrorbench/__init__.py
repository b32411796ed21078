"""mirrorbench: pretrained language models as text encoders, tuned in seconds, measured on the papers' tasks.

Nothing heavy is imported here; the names below are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mirrorbench.core.identity import __version__
from mirrorbench.core.moved_modules import forward_moved_modules

if TYPE_CHECKING:
    from mirrorbench.api import FailureWarning as FailureWarning
    from mirrorbench.api import compare as compare
    from mirrorbench.api import evaluate as evaluate
    from mirrorbench.api import leaderboard as leaderboard
    from mirrorbench.api import load as load
    from mirrorbench.api import run as run
    from mirrorbench.api import tune as tune
    from mirrorbench.core.hooks import hookimpl as hookimpl
    from mirrorbench.session import Session as Session

forward_moved_modules()

__all__ = [
    "FailureWarning",
    "Session",
    "__version__",
    "compare",
    "evaluate",
    "hookimpl",
    "leaderboard",
    "load",
    "run",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = {"Session": "session", "hookimpl": "core.hooks"}.get(name, "api")
        return getattr(import_module(f"mirrorbench.{module}"), name)
    raise AttributeError(f"module 'mirrorbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
