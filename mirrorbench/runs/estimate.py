"""How long the rest of a plan may take, from the seconds in stored results of like cells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from mirrorbench.runs.cells import Cell
from mirrorbench.runs.results import Result


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of the time that cells take."""

    seconds: float
    """One after the other, on the machine that computed the like ones."""
    cells: int
    """How many cells that covers."""
    unknown: int
    """Cells without like ones, which are not in ``seconds``."""


def estimate(groups: Iterable[Sequence[Cell]], results: Iterable[Result]) -> Estimate:
    """The time of groups of cells that share their model, by stored results of any plan.

    Cells with the same backbone and method cost alike: tuning the same per string and epoch, encoding and scoring the
    same per task; of several like results the median counts.
    """
    tuning: dict[tuple[str, str], list[float]] = defaultdict(list)
    tasks: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    done = list(results)
    # Results of one encoding took its seconds together. (Not by the date: each is stored as soon as it is scored.)
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
    """A duration as a person would say it: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
