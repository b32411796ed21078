"""Runs the examples in docstrings."""

from __future__ import annotations

import doctest
from collections.abc import Iterable


def run_examples(documented: Iterable[doctest.DocTest]) -> None:
    """Run the examples of some docstrings; check that there are some, and that each prints what it says."""
    report: list[str] = []
    n_attempted = 0
    n_failed = 0
    for docstring in documented:
        outcome = doctest.DocTestRunner().run(docstring, out=report.append)
        n_attempted += outcome.attempted
        n_failed += outcome.failed
    assert n_failed == 0, "".join(report)
    assert n_attempted > 0
