"""Tasks: a data set with a question and a metric. They call no model, so that each text is encoded once for all."""

from __future__ import annotations

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.data.items import Pair
from mirrorbench.tasks.base import Scores, Task, TaskKind, Vectors
from mirrorbench.tasks.pairs import PairClassification, PairSimilarity
from mirrorbench.tasks.words_in_context import SimilarityChange, UsageSimilarity, WordInContext

__all__ = [
    "Pair",
    "PairClassification",
    "PairSimilarity",
    "Scores",
    "SimilarityChange",
    "Task",
    "TaskKind",
    "TextInput",
    "UsageSimilarity",
    "Vectors",
    "WordInContext",
]
