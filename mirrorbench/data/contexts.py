"""What the parsers of word-in-context data sets return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput


@dataclass(frozen=True, slots=True)
class ContextPair:
    """Two words in context, and whether they mean the same.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``dev/17``.
        left: a word in its context.
        right: another word in another context, or in a statement about what the first may mean.
        label: 1 where they mean the same, 0 where they do not, ``None`` where the data set keeps it secret.
        split: ``train``, ``dev`` or ``test``.
    """

    id: str
    left: TextInput
    right: TextInput
    label: int | None
    split: str


@dataclass(frozen=True, slots=True)
class RatedContexts:
    """Two words in context, and how similar people find them.

    Attributes:
        id: unique within the data set and stable between runs, e.g. ``bright.a/1``.
        left: a word in its context.
        right: another word, or another context.
        rating: the mean of the annotators' ratings, on the data set's own scale.
    """

    id: str
    left: TextInput
    right: TextInput
    rating: float


@dataclass(frozen=True, slots=True)
class ContextChange:
    """The same two words in two contexts: how does the context change their similarity?

    Attributes:
        id: unique within the data set and stable between runs.
        first: both words in the first context.
        second: both words in the second.
    """

    id: str
    first: RatedContexts
    second: RatedContexts


def check_targets(task: str, pairs: Iterable[ContextPair | RatedContexts]) -> None:
    """Whether the target words of a task's items are in their texts.

    Raises:
        DataFormatError: one of them is not.
    """
    for pair in pairs:
        for side in (pair.left, pair.right):
            if not all(0 <= start < end <= len(side.text) for start, end in side.spans):
                raise DataFormatError(f"task {task}: a target of item {pair.id} is not in its text")
