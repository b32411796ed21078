"""How long the rest of a plan may take, from the seconds in stored results of like cells."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirrorbench.runs.cells import Cell
from mirrorbench.runs.results import Result

_Like = tuple[str, str]
"""A backbone's fingerprint and what is done to it: cells that agree in both cost alike."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate.

    Attributes:
        seconds: for the groups that have like ones, one after the other on the machine that computed those.
        cells: how many cells that covers.
        unknown: cells without like ones, which are not in ``seconds``.
    """

    seconds: float
    cells: int
    unknown: int


def estimate(groups: Iterable[Sequence[Cell]], results: Iterable[Result]) -> Estimate:
    """Estimate the time of groups of cells that share their weights.

    Tuning is taken to cost the same per string and epoch, encoding and scoring the same per task; of several like
    results the median counts.

    Args:
        groups: the cells to do.
        results: those that are done, of any plan.
    """
    tuning: dict[_Like, list[float]] = defaultdict(list)
    tasks: dict[tuple[_Like, str], list[float]] = defaultdict(list)
    done = list(results)
    sharing: dict[str, int] = defaultdict(int)  # results of one encoding, which took its seconds together
    for result in done:
        sharing[_encoding(result)] += 1
    for result in done:
        like = (str(result.encoder.get("weights")), str(result.cell.get("method")))
        share = result.seconds.get("encode", 0.0) / sharing[_encoding(result)]
        tasks[like, result.task].append(share + result.seconds.get("score", 0.0))
        recipe, corpus = result.cell.get("recipe"), result.cell.get("corpus")
        if recipe and corpus:
            tuning[like].append(result.seconds.get("train", 0.0) / (recipe["epochs"] * corpus["n"]))
    seconds, cells, unknown = 0.0, 0, 0
    for group in groups:
        weights = group[0].model
        like = (weights.fingerprint, weights.method)
        known = [cell for cell in group if (like, cell.task) in tasks]
        if weights.recipe and weights.corpus:
            known = known if like in tuning else []
            if known:
                seconds += statistics.median(tuning[like]) * weights.recipe.epochs * weights.corpus.n
        seconds += sum(statistics.median(tasks[like, cell.task]) for cell in known)
        cells += len(known)
        unknown += len(group) - len(known)
    return Estimate(seconds, cells, unknown)


def _encoding(result: Result) -> str:
    # Not by the date: each is stored as soon as it is scored, the last perhaps minutes after the first.
    return f"{result.encoder.get('fingerprint')} {result.seconds.get('encode')}"


def in_words(seconds: float) -> str:
    """A duration as a person would say it: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
