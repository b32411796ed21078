"""The examples in the docstrings of mirrorbench.training."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest
from helpers.docstring_examples import run_examples

MODULES = ("augmentations", "drophead", "held_out", "losses", "methods", "recipes")
TUNING = {"Method", "ModelAugmentation", "Objective"}
"""Names whose examples tune a model."""


def docstrings_of(module_name: str, tuning: bool) -> list[doctest.DocTest]:
    """Return the docstrings of a module whose examples tune a model, or all others."""
    module = import_module(f"mirrorbench.training.{module_name}")
    docstrings = doctest.DocTestFinder().find(module)
    return [doc for doc in docstrings if (doc.name.rpartition(".")[2] in TUNING) == tuning]


@pytest.mark.parametrize("module_name", MODULES)
def test_docstring_examples_run(module_name: str) -> None:
    run_examples(docstrings_of(module_name, tuning=False))


@pytest.mark.slow
@pytest.mark.parametrize("module_name", ["augmentations", "losses", "methods"])
def test_docstring_examples_that_tune_run(
    module_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(docstrings_of(module_name, tuning=True))
