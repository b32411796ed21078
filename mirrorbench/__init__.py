"""mirrorbench: pretrained language models as text encoders, tuned in seconds, measured on the papers' tasks.

Nothing heavy is imported here; the names below are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirrorbench.core.hooks import hookimpl as hookimpl
    from mirrorbench.session import evaluate as evaluate
    from mirrorbench.session import leaderboard as leaderboard
    from mirrorbench.session import load as load
    from mirrorbench.session import run as run
    from mirrorbench.session import tune as tune

__version__ = "0.1.0"

_EXPORTS = {
    "evaluate": "mirrorbench.session",
    "leaderboard": "mirrorbench.session",
    "load": "mirrorbench.session",
    "run": "mirrorbench.session",
    "tune": "mirrorbench.session",
    "hookimpl": "mirrorbench.core.hooks",
}

__all__ = ["__version__", "evaluate", "hookimpl", "leaderboard", "load", "run", "tune"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'mirrorbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
