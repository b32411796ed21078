"""The papers' tables: where their specs are, what their cells are measured by, what they say, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.specs import EncoderSpec

PAPERS = ("mirror-bert", "mirrorwic", "poster")
"""The folders of the built-in specs, in the order of lists."""


def specs_folder() -> Path:
    """The folder of the built-in specs: ``mirrorbench/reports/papers/specs`` in a wheel, ``leaderboards`` elsewhere."""
    here = Path(__file__).resolve().parent
    candidates = (here / "specs", here.parents[2] / "leaderboards")
    for folder in candidates:
        if (folder / PAPERS[0]).is_dir():
            return folder
    raise DataFormatError(
        f"The papers' tables are in neither {candidates[0]} nor {candidates[1]}.", "Install mirrorbench again."
    )


@hookimpl
def register_papers(register: Register) -> None:
    """The papers of the methods that are built in."""
    for paper in PAPERS:
        register(paper, specs_folder() / paper)


CellStatistic = Literal["score", "deviation", "seconds", "seconds an epoch"]
"""Of the results of a cell: the score, its standard deviation over seeds, or the seconds of the tuning."""
Text = Annotated[str, msgspec.Meta(pattern=r"\S")]


class AskedAnalysis(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """An analysis of one encoder, under ``kind``, and which of its numbers is shown, under ``value``.

    The other keys are options of ``mirrorbench analyze``.
    """

    kind: Text
    value: Text
    task: Text
    texts: str = ""
    corpus: str = ""
    word: str = ""

    @property
    def options(self) -> dict[str, str]:
        """The options that are set."""
        return {key: value for key in ("task", "corpus", "texts", "word") if (value := getattr(self, key))}

    @property
    def name(self) -> str:
        """Kind and options as one text: what results of the analysis have in the place of a task."""
        return f"{self.kind}:{','.join(f'{key}={value}' for key, value in self.options.items())}"


@dataclass(frozen=True, slots=True)
class Target:
    """What a cell is measured by: the mean of a metric over tasks, or another ``statistic`` of the same results.

    An ``analysis`` stands in the place of the tasks, and one of its numbers in that of the metric.
    """

    spec: EncoderSpec
    tasks: tuple[str, ...]
    metric: str
    statistic: CellStatistic = "score"
    analysis: AskedAnalysis | None = None
