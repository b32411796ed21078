"""Tests run on the CPU on every machine; those marked ``gpu`` run, and see the GPUs, only under ``pytest -m gpu``."""

from __future__ import annotations

import os
import re

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Random trials draw a few cases in the suite, and thousands under ``nox -s soak``."""
    parser.addoption("--soak", action="store_true", help="draw many random inputs and kills")


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPUs before torch looks for them, from processes that tests start too."""
    if not re.search(r"(?<!not )\bgpu\b", config.option.markexpr):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that at the end no process waits long for another's last one."""
    items.sort(key=lambda item: item.get_closest_marker("real") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where none is seen."""
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a GPU, and pytest -m gpu")
