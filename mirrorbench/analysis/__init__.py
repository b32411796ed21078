"""Analyses of what tuning changes in an embedding space, and where it helps.

Measures are pure functions of arrays, ``figures`` draws them, and only ``analyses`` and ``study`` know encoders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mirrorbench.core.hooks import Register, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorbench.analysis.study import Analysis
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.runs.outcomes import Outcome
    from mirrorbench.runs.workspace import Workspace

STUDY_OPTIONS: dict[str, Any] = {
    "encoders": ("tiny",),
    "task": "",
    "corpus": "",
    "seed": 0,
    "protocol": "paper",
}
"""Options that most analyses have, with their defaults: the fields of a ``Study``."""
BEFORE_AND_AFTER = ("tiny+base:pooling=target,layers=-4:", "tiny+mirrorwic")
"""Specs of the built-in model on words in context, before and after tuning."""

ANALYSES: dict[str, dict[str, Any]] = {
    "errors": {**STUDY_OPTIONS, "encoders": BEFORE_AND_AFTER, "task": "quick-wic", "show": 5},
    "curves": {"results": (), "x": "corpus_size", "tasks": (), "log": False},
    "frequency": {"results": (), "task": "quick-simlex"},
    "isotropy": {**STUDY_OPTIONS, "task": "quick-sts", "texts": "", "limit": 10_000},
    "similarity": {**STUDY_OPTIONS, "task": "quick-sts"},
    "layers": {**STUDY_OPTIONS, "task": "quick-wic", "texts": "", "limit": 10_000, "samples": 5},
    "projection": {**STUDY_OPTIONS, "task": "quick-wic", "word": "", "texts": "", "method": "tsne"},
    "roc": {**STUDY_OPTIONS, "task": "quick-wic"},
}
"""Options of each analysis by its name, with their defaults."""


@dataclass(frozen=True)
class Analyzer:
    """An analysis by its name, as the hook ``register_analyses`` takes it."""

    name: str

    def __call__(self, workspace: Workspace, **options: Any) -> Analysis:
        """Run the analysis with some of its options in ``ANALYSES``."""
        from mirrorbench.analysis.analyses import analyze

        return analyze(
            self.name,
            options,
            workspace.plugins,
            workspace.folders,
            workspace.compute,
            workspace.reporter,
        )

    def measure(
        self,
        workspace: Workspace,
        asked: Any,
        specs: Sequence[EncoderSpec],
        seeds: int,
        protocol: str,
    ) -> Outcome:
        """Analyse encoders one by one for a table of the papers, and store a result of each."""
        from mirrorbench.analysis.paper_analyses import measure

        return measure(
            asked,
            specs,
            seeds,
            protocol,
            workspace.plugins,
            workspace.folders,
            workspace.compute,
            workspace.reporter,
        )


@hookimpl
def register_analyses(register: Register) -> None:
    """Register all analyses."""
    for name in ANALYSES:
        register(name, Analyzer(name))
