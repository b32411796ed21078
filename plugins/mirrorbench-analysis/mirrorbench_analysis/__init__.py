"""Analyses of what tuning changes in an embedding space, and where it helps.

Measures are pure functions of arrays, ``figures`` draws them, and only ``kinds`` and ``study`` know encoders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mirrorbench.plugin import Register, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorbench.plugin import EncoderSpec, Outcome, Workspace
    from mirrorbench_analysis.study import Analysis

OF_STUDIES: dict[str, Any] = {"encoders": ("tiny",), "task": "", "corpus": "", "seed": 0, "protocol": "paper"}
"""Options that most kinds have, with their defaults."""
BEFORE_AND_AFTER = ("tiny+base:pooling=target,layers=-4:", "tiny+mirrorwic")
"""The built-in model on words in context, before and after tuning."""

ANALYSES: dict[str, dict[str, Any]] = {
    "errors": {**OF_STUDIES, "encoders": BEFORE_AND_AFTER, "task": "quick-wic", "show": 5},
    "curves": {"results": (), "x": "corpus_size", "tasks": (), "log": False},
    "frequency": {"results": (), "task": "quick-simlex"},
    "isotropy": {**OF_STUDIES, "task": "quick-sts", "texts": "", "limit": 10_000},
    "similarity": {**OF_STUDIES, "task": "quick-sts"},
    "layers": {**OF_STUDIES, "task": "quick-wic", "texts": "", "limit": 10_000, "samples": 5},
    "projection": {**OF_STUDIES, "task": "quick-wic", "word": "", "texts": "", "method": "tsne"},
    "roc": {**OF_STUDIES, "task": "quick-wic"},
}
"""The options of each kind of analysis, with their defaults."""


@dataclass(frozen=True)
class Kind:
    """A kind of analysis by its name."""

    name: str

    def __call__(self, workspace: Workspace, **options: Any) -> Analysis:
        """Analyse with some of the options in ``ANALYSES``."""
        from mirrorbench_analysis.kinds import analyze

        return analyze(workspace, self.name, **options)

    def measure(
        self, workspace: Workspace, asked: Any, specs: Sequence[EncoderSpec], seeds: int, protocol: str
    ) -> Outcome:
        """Analyse encoders one by one, and store a result of each."""
        from mirrorbench_analysis.stored import measure

        return measure(workspace, asked, specs, seeds, protocol)


@hookimpl
def register_analyses(register: Register) -> None:
    """All kinds."""
    for name in ANALYSES:
        register(name, Kind(name))
