"""Which class implements which kind of card."""

from __future__ import annotations

from collections.abc import Callable

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
