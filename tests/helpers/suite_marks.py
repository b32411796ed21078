"""Which cases of a test run in which suite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

full = pytest.mark.full
slow = pytest.mark.slow


def few(
    cases: Iterable[Any], *kept: int | str, suite: pytest.MarkDecorator | None = None
) -> list[Any]:
    """Cases of which only those ``kept``, by place or name (else the first), run outside of the full suite.

    ``suite``: the mark of those; without one they run in the first suite.
    """
    return [
        _marked(case, suite if place in (kept or (0,)) or case in kept else full)
        for place, case in enumerate(cases)
    ]


def _marked(case: Any, mark: pytest.MarkDecorator | None) -> Any:
    return pytest.param(
        *(case if isinstance(case, tuple) else (case,)), marks=[mark] if mark else []
    )
