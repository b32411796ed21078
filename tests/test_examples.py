"""The examples in the docstrings of what users call."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest
from helpers.docstring_examples import run_examples

import mirrorbench
from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.models.encoder_systems import TextEncoder
from mirrorbench.reports.encoder_comparison import EncoderComparison
from mirrorbench.reports.leaderboard import Leaderboard
from mirrorbench.tasks import Task

FUNCTIONS = ("compare", "evaluate", "leaderboard", "load", "run", "tune")
CLASSES = (mirrorbench.Session, Task, TextEncoder, EncoderComparison, Leaderboard, Encoder)
CALLED = [*(getattr(mirrorbench, name) for name in FUNCTIONS), *CLASSES]


@pytest.mark.slow
@pytest.mark.parametrize("called", CALLED, ids=lambda called: called.__name__)
def test_docstring_example_runs(
    called: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(doctest.DocTestFinder(recurse=False).find(called, called.__name__))
