"""Counts of the items that hold words for which an encoder has no vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirrorbench.core.encoder_protocol import Encoder, TextInput


@dataclass(frozen=True, slots=True)
class UnknownWords:
    """The items of a task with words without a vector.

    Attributes:
        items: number of such items.
        of: number of all items.
        empty: number of items with a text that has no other words, whose vector is zero.
    """

    items: int
    of: int
    empty: int

    @classmethod
    def of_json(cls, counts: Mapping[str, int]) -> UnknownWords:
        """Return the counts that a result stores."""
        return cls(counts["items"], counts["of"], counts["empty"])

    def to_json(self) -> dict[str, int]:
        """Return the counts as results store them."""
        return {"items": self.items, "of": self.of, "empty": self.empty}

    def sentence(self, noun: str) -> str:
        """Return the sentence for the user; ``noun`` is that of the items, plural. Empty if all words are known."""
        if not self.items:
            return ""
        without = f"; in {self.empty:,} a text has no other words (cosine 0)" if self.empty else ""
        return f"{self.items:,} of {self.of:,} {noun} have words without a vector{without}"


def count_words(encoder: Encoder, inputs: Sequence[TextInput]) -> list[tuple[int, int]] | None:
    """Return for each input the number of its words, and of those with a vector.

    ``None`` for an encoder that reads all words; one with a vocabulary of words has a method ``count_words(inputs)``.
    """
    count = getattr(encoder, "count_words", None)
    return None if count is None else count(inputs)


def unknown_words_of(
    encoder: Encoder, inputs: Iterable[TextInput], texts: Mapping[str, Sequence[str]]
) -> UnknownWords | None:
    """Count the items with words without a vector; ``None`` for an encoder that reads all words.

    Args:
        encoder: the encoder.
        inputs: all inputs of the task.
        texts: the texts of each item, by its id.
    """
    wanted = {text for own in texts.values() for text in own}
    by_text = {item.text: item for item in inputs if item.text in wanted}
    counted = count_words(encoder, list(by_text.values()))
    if counted is None or not texts:
        return None
    words = dict(zip(by_text, counted, strict=True))
    unknown = empty = 0
    for own in texts.values():
        counts = [words[text] for text in own if text in words]
        unknown += any(known < n for n, known in counts)
        empty += any(known == 0 < n for n, known in counts)
    return UnknownWords(unknown, len(texts), empty)
