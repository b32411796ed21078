"""Tables of the papers joined with made-up results."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from helpers.stored_results import stored
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.papers.measured_tables import MeasuredTable, measured_table
from mirrorbench.papers.table_files import PaperTable, find_table
from mirrorbench.storage.results import Result

STS = builtin_suites()["sts"]
SEEDS = {0: 0.80, 1: 0.70, 2: 0.72}


def table(name: str) -> PaperTable:
    paper = find_table(name)
    assert isinstance(paper, PaperTable)
    return paper


def joined(
    name: str, results: Iterable[Result], backbone: str = "", protocol: str = "paper"
) -> MeasuredTable:
    return measured_table(
        table(name), results, protocol, parse_spec(backbone) if backbone else None
    )


def sts(spec: str, shift: float = 0.0) -> list[Result]:
    """Results with scores that differ by task and seed."""
    return [
        stored(spec, t, v + i / 100 + shift, s) for i, t in enumerate(STS) for s, v in SEEDS.items()
    ]


def filled(paper: PaperTable, backbone: str = "") -> MeasuredTable:
    """A table with three seeds in every measurable cell, a tenth above the published values."""
    spec = parse_spec(backbone) if backbone else None
    results: dict[tuple[str, str, int], Result] = {}
    for (row, column), target in paper.targets(spec).items():
        value = paper.printed[row][column].value or 0.5
        for task, seed in product(target.tasks, range(3)):
            key = str(target.spec), task, seed
            result = results.setdefault(key, stored(*key[:2], None, seed, metrics={}))
            result.metrics.setdefault(target.metric, value + 0.1 + seed / 1000)
    return measured_table(paper, results.values(), backbone=spec)
