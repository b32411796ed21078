"""The examples in the docstrings of mirrorbench.training."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

MODULES = ("augmentations", "drophead", "held_out", "losses", "methods", "recipes")
TUNING = {"Method", "ModelAugmentation", "Objective"}
"""Names whose examples tune a model."""


def run_examples(module_name: str, tuning: bool) -> None:
    module = import_module(f"mirrorbench.training.{module_name}")
    report: list[str] = []
    failed = 0
    for example in doctest.DocTestFinder().find(module):
        name = example.name.rpartition(".")[2]
        if (name in TUNING) == tuning:
            failed += doctest.DocTestRunner().run(example, out=report.append).failed
    assert failed == 0, "".join(report)


@pytest.mark.parametrize("module_name", MODULES)
def test_docstring_examples_run(module_name: str) -> None:
    run_examples(module_name, tuning=False)


@pytest.mark.slow
@pytest.mark.parametrize("module_name", ["augmentations", "losses", "methods"])
def test_docstring_examples_that_tune_run(
    module_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(module_name, tuning=True)
