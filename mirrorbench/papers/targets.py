"""Targets of the cells of the papers' tables: encoder, tasks or analysis, and the number that is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from mirrorbench.core.specs import EncoderSpec

CellStatistic = Literal["score", "deviation", "seconds", "seconds an epoch"]
"""A statistic of the results of a cell: the score, its standard deviation over seeds, or the seconds of the tuning."""
Text = Annotated[str, msgspec.Meta(pattern=r"\S")]


class AskedAnalysis(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """An analysis of one encoder, and which of its numbers a table shows.

    ``name`` is the key ``kind`` of the file; ``value`` names the number; the other keys are options of
    ``mirrorbench analyze``.
    """

    name: Text = msgspec.field(name="kind")
    value: Text
    task: Text
    texts: str = ""
    corpus: str = ""
    word: str = ""

    @property
    def options(self) -> dict[str, str]:
        """Options that are set, by name."""
        options = {
            "task": self.task,
            "corpus": self.corpus,
            "texts": self.texts,
            "word": self.word,
        }
        return {name: value for name, value in options.items() if value}

    @property
    def task_name(self) -> str:
        """Name and options as one text, which stands for the task in results of the analysis."""
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}:{options}"


@dataclass(frozen=True, slots=True)
class Target:
    """What a cell shows: the mean of a metric over tasks, or another ``statistic`` of the same results.

    With an ``analysis``, ``tasks`` is its ``task_name`` alone, and ``metric`` the name of its number.
    """

    spec: EncoderSpec
    tasks: tuple[str, ...]
    metric: str
    statistic: CellStatistic = "score"
    analysis: AskedAnalysis | None = None
