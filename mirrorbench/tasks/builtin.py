"""The built-in tasks and corpora: every card that ships with the package."""

from __future__ import annotations

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.data.catalogue import builtin_cards


@hookimpl
def register_tasks(register: Register) -> None:
    """One task for each card that is not a corpus."""
    for card in builtin_cards().values():
        if card.kind != "corpus":
            register(card)


@hookimpl
def register_corpora(register: Register) -> None:
    """One corpus for each corpus card."""
    for card in builtin_cards().values():
        if card.kind == "corpus":
            register(card)
