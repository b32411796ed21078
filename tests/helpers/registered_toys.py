"""The toy encoder and tasks in the plugins of this process, for tests of the functions of ``import mirrorbench``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from helpers.toy_plugin import CATS, ToyEncoder, ToyPlugin, toy_tasks
from mirrorbench.runs import registry as plugin_manager


@pytest.fixture(autouse=True)
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toy tasks and encoder, registered in this process."""
    monkeypatch.chdir(tmp_path)
    plugin_manager.plugins.cache_clear()
    plugin_manager.plugins().add(ToyPlugin({"letters": ToyEncoder}, toy_tasks()), "toys")
    yield
    plugin_manager.plugins.cache_clear()


def cats_score(encode: Callable[[list[str]], np.ndarray]) -> float:
    """Spearman's correlation of cosines with the gold scores, from scratch."""
    left, right = (
        np.asarray(encode([getattr(p, side) for p in CATS]), dtype=float)
        for side in ("left", "right")
    )
    cosine = (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    return float(spearmanr(cosine, [pair.gold for pair in CATS])[0])
