"""Leaderboards: tables of values (``table``), apart from the text they are rendered to (``renderers``)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """This package carries the name of a function of ``mirrorbench``, so whoever calls it gets that function.

    Python sets a package's attribute to each subpackage that it imports: ``mirrorbench.leaderboard`` is the function
    until this package is first imported, and this package from then on.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from mirrorbench.api import leaderboard

        return leaderboard(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
