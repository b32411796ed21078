"""Estimates of the time that cells take, from the seconds of stored results of like cells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from mirrorbench.runs.cells import Cell
from mirrorbench.runs.results import Result


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated time of cells."""

    seconds: float
    """For one cell after the other, on the machine of the stored results."""
    cells: int
    """How many cells the estimate covers."""
    unknown: int
    """How many cells it does not cover, for want of similar ones."""


def estimate(groups: Iterable[Sequence[Cell]], results: Iterable[Result]) -> Estimate:
    """The time of groups of cells that share their model.

    Cells are similar if they share backbone and method: tuning costs the same per string and epoch, encoding and
    scoring the same per task. Of several results the median counts.
    """
    tuning: dict[tuple[str, str], list[float]] = defaultdict(list)
    tasks: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    done = list(results)
    # Results of one encoding share its seconds. (Dates do not tell: each result is stored once it is scored.)
    encodings = [(result.encoder.get("fingerprint"), result.seconds.get("encode")) for result in done]
    sharing = Counter(encodings)
    for result, encoding in zip(done, encodings, strict=True):
        like = (str(result.encoder.get("weights")), str(result.cell.get("method")))
        encode = result.seconds.get("encode", 0.0) / sharing[encoding]
        tasks[*like, result.task].append(encode + result.seconds.get("score", 0.0))
        recipe, corpus = result.cell.get("recipe"), result.cell.get("corpus")
        if recipe and corpus:
            tuning[like].append(result.seconds.get("train", 0.0) / (recipe["epochs"] * corpus["n"]))
    seconds, cells, unknown = 0.0, 0, 0
    for group in groups:
        model = group[0].model
        like = (model.fingerprint, model.method)
        known = [cell for cell in group if (*like, cell.task) in tasks]
        if model.recipe and model.corpus:
            known = known if like in tuning else []
            seconds += median(tuning[like]) * model.recipe.epochs * model.corpus.n if known else 0.0
        seconds += sum(median(tasks[*like, cell.task]) for cell in known)
        cells += len(known)
        unknown += len(group) - len(known)
    return Estimate(seconds, cells, unknown)


def in_words(seconds: float) -> str:
    """A duration for people: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
