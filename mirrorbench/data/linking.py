"""What the parsers of entity linking data sets return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mention:
    """A name as it occurs in a text.

    Attributes:
        id: unique within its dictionary's part of the data set and stable between runs, e.g. ``9288106/3``.
        parts: the names to look up: one, or several for a composite mention ("breast and ovarian cancer").
        gold: the ids of the concepts that it stands for.
    """

    id: str
    parts: tuple[str, ...]
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Linking:
    """Mentions and the dictionary in which they are looked up.

    Attributes:
        mentions: what is looked up.
        names: the m names of the dictionary.
        ids: the concepts that each name stands for, m sets.
        fold: the name of this part of the data set, empty where there is one only.
    """

    mentions: tuple[Mention, ...]
    names: tuple[str, ...]
    ids: tuple[frozenset[str], ...]
    fold: str = ""
