"""Lexical tasks: entity linking, bilingual lexicon induction, word sense disambiguation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.generated_corpora import generated_corpora
from mirrorbench.tasks.lexical.entity_linking import EntityLinking
from mirrorbench.tasks.lexical.lexicon_induction import LexiconInduction
from mirrorbench.tasks.lexical.sense_disambiguation import SenseDisambiguation

if TYPE_CHECKING:
    from mirrorbench.tasks.base import TaskKind

__all__ = ["EntityLinking", "LexiconInduction", "SenseDisambiguation"]

KINDS: dict[str, type[TaskKind[Any]]] = {
    "entity-linking": EntityLinking,
    "lexicon-induction": LexiconInduction,
    "sense-disambiguation": SenseDisambiguation,
}
"""Task classes by the kind of card."""


@hookimpl
def register_task_kinds(register: Register) -> None:
    """Register the kinds of lexical tasks."""
    for kind, task_class in KINDS.items():
        register(kind, task_class)


@hookimpl
def register_tasks(register: Register) -> None:
    """Register a task for each built-in card of these kinds."""
    for card in builtin_cards().values():
        if card.kind in KINDS:
            register(card)


@hookimpl
def register_corpora(register: Register) -> None:
    """Register the generated lists of words and strings."""
    for corpus in generated_corpora():
        register(corpus)
