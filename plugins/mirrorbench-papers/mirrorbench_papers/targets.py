"""Targets: the measures of the cells of the papers' tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from mirrorbench.plugin import EncoderSpec

CellStatistic = Literal["score", "deviation", "seconds", "seconds an epoch"]
"""A statistic of the results of a cell: the score, its standard deviation over seeds, or the seconds of the tuning."""
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
    """The measure of a cell: the mean of a metric over tasks, or another ``statistic`` of the same results.

    An ``analysis`` stands in the place of the tasks, and one of its numbers in that of the metric.
    """

    spec: EncoderSpec
    tasks: tuple[str, ...]
    metric: str
    statistic: CellStatistic = "score"
    analysis: AskedAnalysis | None = None
