"""``mirrorbench analyze`` as a function, and the tables that it prints and writes."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def analyze(mirrorbench: Callable) -> Callable:
    """A function that runs ``mirrorbench analyze`` with its arguments."""
    return lambda *arguments: mirrorbench("analyze", *arguments)


def table(done: Any) -> list[dict[str, str]]:
    """The rows of the printed table."""
    return list(
        csv.DictReader((line for line in done.out.splitlines() if "\t" in line), delimiter="\t")
    )


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a written table."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
