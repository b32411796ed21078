"""Analyses of what tuning changes in an embedding space, and where it helps.

Measures are pure functions of arrays, ``figures`` draws them, and only ``kinds`` and ``study`` know encoders.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirrorbench.analysis.study import Analysis, Study
    from mirrorbench.runs.workspace import Workspace

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


def analyze(workspace: Workspace, kind: str, **options: Any) -> Analysis:
    """Run one of ``ANALYSES``; ``UnknownNameError`` for an unknown kind or option.

    Of the options, ``encoders`` are specs (a bare backbone stands for the ladder of the task's level), ``task`` decides
    level, language and tuning corpus, ``texts`` names a corpus or a file, ``results`` are folders.
    """
    from mirrorbench.analysis.study import Study
    from mirrorbench.core.errors import unknown_name

    if kind not in ANALYSES:
        raise unknown_name("analysis", kind, list(ANALYSES))
    for name in options:
        if name not in ANALYSES[kind]:
            raise unknown_name(f"option of the analysis {kind}", name, list(ANALYSES[kind]))
    given = ANALYSES[kind] | options
    return analysed(Study(workspace, **{name: given.pop(name) for name in OF_STUDIES if name in given}), kind, given)


def analysed(study: Study, kind: str, given: dict[str, Any]) -> Analysis:
    """The analysis of a study's encoders; ``given`` are the options that only this kind has, all of them."""
    from mirrorbench.analysis import kinds
    from mirrorbench.analysis.study import Analysis, NothingAnalysedError

    try:
        found: Analysis = getattr(kinds, kind)(study, **given)
    except NothingAnalysedError:
        found = Analysis(kind, [], {}, None)
    document = study.describe() if study.encoders else {}
    return replace(found, document={**document, **found.document}, failures=study.failures)
