"""Tests see a GPU only where they are asked to; see the top folder's ``conftest.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

TOP = Path(__file__).resolve().parents[1] / "conftest.py"


@pytest.mark.parametrize(
    ("asked", "seen"),
    [("", ""), ("not real", ""), ("not gpu", ""), ("real and not gpu", ""), ("gpu", "3"), ("real or gpu", "3")],
)
def test_gpus_are_hidden_unless_asked_for(asked: str, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_from_file_location("top", TOP)
    assert spec is not None
    assert spec.loader is not None
    top = module_from_spec(spec)
    spec.loader.exec_module(top)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    top.pytest_configure(cast(Any, SimpleNamespace(option=SimpleNamespace(markexpr=asked))))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == seen


def test_processes_that_tests_start_see_none_either() -> None:
    command = (sys.executable, "-c", "import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "''\n"


@pytest.mark.gpu
def test_a_gpu_is_there_where_one_is_asked_for() -> None:
    import torch

    assert torch.zeros(1, device="cuda").is_cuda
