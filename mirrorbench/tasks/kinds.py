"""Which class implements which kind of card."""

from __future__ import annotations

from collections.abc import Callable

from mirrorbench.data.cards import Card
from mirrorbench.tasks import Task
from mirrorbench.tasks.pair_similarity import CardPairSimilarity

TASK_KINDS: dict[str, Callable[[Card], Task]] = {
    "pair-similarity": CardPairSimilarity,
}
