"""Plans of encoders on the toy tasks, with a corpus of three strings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.requests import Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.workspace_functions import make_plan

Make = Callable[..., Plan]


@pytest.fixture
def make(registered: Plugins, tmp_path: Path) -> Make:
    """A function that plans encoders: ``make("tiny+mirror", "toy", tasks=("cats",), seeds=(0, 1))``."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one\ntwo\nthree\ntwo\n")

    def plan(*encoders: str, tasks: tuple[str, ...] = ("cats",), **options: Any) -> Plan:
        request = Request(
            tuple(map(parse_spec, encoders)), tasks, **({"corpus": str(corpus)} | options)
        )
        return make_plan(
            Workspace(Settings(data_dir=tmp_path / "data", device="cpu", offline=True), registered),
            request,
        )

    return plan


@pytest.fixture
def bert(random_model: Callable[[str], Path]) -> str:
    """The spec of a small backbone."""
    return str(random_model("bert"))
