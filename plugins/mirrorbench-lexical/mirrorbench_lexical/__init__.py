"""Lexical tasks: entity linking, bilingual lexicon induction, word sense disambiguation; and lists of words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrorbench.plugin import builtin_cards, hookimpl
from mirrorbench_lexical.entity_linking import (
    parse_askapatient,
    parse_biosyn,
    parse_cometa,
    parse_rescnn,
)
from mirrorbench_lexical.lexicon_induction import LexiconInduction
from mirrorbench_lexical.lexicons import parse_xling_eval
from mirrorbench_lexical.nearest import EntityLinking, SenseDisambiguation
from mirrorbench_lexical.word_lists import generated_corpora
from mirrorbench_lexical.wsd import parse_wsd

if TYPE_CHECKING:
    from mirrorbench.plugin import Register, TaskKind

__all__ = ["EntityLinking", "LexiconInduction", "SenseDisambiguation"]

KINDS: dict[str, type[TaskKind[Any]]] = {
    "entity-linking": EntityLinking,
    "lexicon-induction": LexiconInduction,
    "sense-disambiguation": SenseDisambiguation,
}
"""Task classes by the kind of card."""
PARSERS = {
    "biosyn": parse_biosyn,
    "askapatient": parse_askapatient,
    "cometa": parse_cometa,
    "rescnn": parse_rescnn,
    "xling-eval": parse_xling_eval,
    "wsd": parse_wsd,
}
"""Parsers of the data sets, by their name in cards."""


@hookimpl
def register_task_kinds(register: Register) -> None:
    """Register the kinds of lexical tasks."""
    for kind, task_class in KINDS.items():
        register(kind, task_class)


@hookimpl
def register_parsers(register: Register) -> None:
    """Register the parsers of the data sets."""
    for name, parser in PARSERS.items():
        register(name, parser)


@hookimpl
def register_tasks(register: Register) -> None:
    """Register a task for each built-in card of these kinds."""
    for card in builtin_cards().values():
        if card.kind in KINDS:
            register(card)


@hookimpl
def register_corpora(register: Register) -> None:
    """Register the generated lists."""
    for corpus in generated_corpora():
        register(corpus)
