"""Tasks: a data set with a question and a metric. A task names the inputs to encode and scores their vectors.

Tasks call no model, so that the runner can encode each text once for all of them.
"""

from __future__ import annotations

from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import Pair
from mirrorbench.tasks.base import Scores, Task, TaskKind, Vectors
from mirrorbench.tasks.pairs import PairClassification, PairSimilarity, SimilarityChange, UsageSimilarity, WordInContext

__all__ = [
    "Pair", "PairClassification", "PairSimilarity", "Scores", "SimilarityChange", "Task", "TaskKind", "TextInput",
    "UsageSimilarity", "Vectors", "WordInContext",
]  # fmt: skip
