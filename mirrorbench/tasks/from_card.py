"""What all tasks that are declared by a card share: where their data is, and what identifies it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrorbench.data.cards import whole_number

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore


class FromCard:
    """Gives a task the data of its card; stands before the task's class in the list of bases.

    Attributes:
        card: names the files, their parser, the level and the metric.
    """

    card: Card

    @property
    def max_length(self) -> int:
        """The card's option of that name.

        Raises:
            DataFormatError: it is no whole number.
        """
        return whole_number(self.card.options, "max_length", 0)

    def fetch(self, data: DataStore) -> None:
        """Fetch the card's files."""
        data.resolve(self.card)

    def identity(self, data: DataStore) -> dict[str, str]:
        """The checksums of the card's files."""
        return data.checksums(self.card)


def arguments(card: Card) -> dict[str, Any]:
    """The arguments that every kind of task takes, from a card."""
    return {
        "name": card.name,
        "title": card.label or card.name,
        "level": card.level,
        "languages": card.languages,
        "corpus": str(card.options.get("corpus", "")),
        "main_metric": card.metric,
        "version": card.version,
    }
