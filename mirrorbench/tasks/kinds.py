"""From cards to tasks: which class implements which kind of card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import PluginError
from mirrorbench.core.specs import LEVELS
from mirrorbench.data.cardfile import load_card
from mirrorbench.data.cards import Card
from mirrorbench.tasks import Task
from mirrorbench.tasks.disambiguation import CardSenseDisambiguation
from mirrorbench.tasks.entity_linking import CardEntityLinking
from mirrorbench.tasks.graded_context import CardSimilarityChange, CardUsageSimilarity
from mirrorbench.tasks.lexicon_induction import CardLexiconInduction
from mirrorbench.tasks.pair_classification import CardPairClassification
from mirrorbench.tasks.pair_similarity import CardPairSimilarity
from mirrorbench.tasks.word_in_context import CardWordInContext

TASK_KINDS: dict[str, Callable[[Card], Task]] = {
    "pair-similarity": CardPairSimilarity,
    "entity-linking": CardEntityLinking,
    "lexicon-induction": CardLexiconInduction,
    "pair-classification": CardPairClassification,
    "word-in-context": CardWordInContext,
    "sense-disambiguation": CardSenseDisambiguation,
    "usage-similarity": CardUsageSimilarity,
    "similarity-change": CardSimilarityChange,
}


def as_task(value: Any) -> Task:
    """A task as it is, or one built from a card (or the path of a card).

    Raises:
        PluginError: the value is none of these, or its card is of a kind that no class implements.
    """
    if isinstance(value, Task):
        if value.level not in LEVELS:
            raise PluginError(f"task {value.name!r} has the level {value.level!r}", f"Levels: {', '.join(LEVELS)}")
        return value
    if isinstance(value, str | Path):
        value = load_card(Path(value))
    if not isinstance(value, Card):
        raise PluginError(f"register_tasks got a {type(value).__name__}", "Register a Task, a Card, or a card's path.")
    if value.kind not in TASK_KINDS:
        raise PluginError(
            f"card {value.name!r} is of the unknown kind {value.kind!r}", f"Kinds: {', '.join(TASK_KINDS)}"
        )
    return TASK_KINDS[value.kind](value)
