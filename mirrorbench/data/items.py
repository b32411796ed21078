"""Items of tasks, as parsers return them."""

from __future__ import annotations

from dataclasses import dataclass

from mirrorbench.core.inputs import TextInput


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts and a human judgement of their similarity.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``MSRpar/17``.
        left: first text, exactly as in the original file.
        right: second text.
        gold: similarity, on the data set's own scale.
        subset: part of the data set (``MSRpar``); empty if there are no parts.
    """

    id: str
    left: str
    right: str
    gold: float
    subset: str = ""


@dataclass(frozen=True, slots=True)
class ContextPair:
    """Two words in context, and whether they have the same meaning.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``dev/17``.
        left: a word in its context.
        right: another word in context, or in a statement about a meaning of the first.
        label: 1 for the same meaning, 0 for different ones, ``None`` if the label is not public.
        split: ``train``, ``dev`` or ``test``.
    """

    id: str
    left: TextInput
    right: TextInput
    label: int | None
    split: str


@dataclass(frozen=True, slots=True)
class RatedContexts:
    """Two words in context, and the mean of human ratings of their similarity (``id``: e.g. ``bright.a/1-2``)."""

    id: str
    left: TextInput
    right: TextInput
    rating: float


@dataclass(frozen=True, slots=True)
class ContextChange:
    """Two words in two contexts, each with a rating: does the context change their similarity?"""

    id: str
    first: RatedContexts
    second: RatedContexts
