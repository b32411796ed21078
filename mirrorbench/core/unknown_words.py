"""Counts of the items with words for which an encoder has no vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirrorbench.core.encoder_protocol import Encoder, TextInput


@dataclass(frozen=True, slots=True)
class UnknownWords:
    """Counts of the items of a task with words that have no vector.

    Attributes:
        items: number of items in which some word has no vector.
        of: number of all items.
        empty: number of items with a text in which no word has a vector, so that the text's vector is zero.
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
        """Return the sentence for the user; ``noun`` names the items, plural. Empty if all words have vectors."""
        if not self.items:
            return ""
        text = f"{self.items:,} of {self.of:,} {noun} have words without a vector"
        if self.empty:
            text += f"; in {self.empty:,} a text has no other words (cosine 0)"
        return text


def count_words(encoder: Encoder, inputs: Sequence[TextInput]) -> list[tuple[int, int]] | None:
    """Return for each input the number of its words, and the number of its words that have a vector.

    ``None`` for an encoder that reads all words. An encoder with a vocabulary of words has a method
    ``count_words(inputs)``.
    """
    count = getattr(encoder, "count_words", None)
    return None if count is None else count(inputs)


def unknown_words_of(
    encoder: Encoder, inputs: Iterable[TextInput], texts_by_item: Mapping[str, Sequence[str]]
) -> UnknownWords | None:
    """Return how many items of a task have words without a vector, and how many have a text of such words only.

    ``None`` for an encoder that reads all words, and for a task without texts.

    Args:
        encoder: the encoder.
        inputs: all inputs of the task.
        texts_by_item: the texts of each item, by the item's id; those that are not among the inputs are not counted.
    """
    # Items share texts: count the words of each distinct one once.
    texts: set[str] = set()
    for item_texts in texts_by_item.values():
        texts.update(item_texts)
    input_of_text = {input_.text: input_ for input_ in inputs if input_.text in texts}
    counts = count_words(encoder, list(input_of_text.values()))
    if counts is None or not texts_by_item:
        return None
    # The number of words of each text, and the number of those that have a vector.
    counts_of_text = dict(zip(input_of_text, counts, strict=True))
    n_incomplete = 0
    n_empty = 0
    for item_texts in texts_by_item.values():
        item_counts = [counts_of_text[text] for text in item_texts if text in counts_of_text]
        if any(n_vectors < n_words for n_words, n_vectors in item_counts):
            n_incomplete += 1
        # A text without any word is not counted as one whose words are unknown.
        if any(n_vectors == 0 and n_words > 0 for n_words, n_vectors in item_counts):
            n_empty += 1
    return UnknownWords(items=n_incomplete, of=len(texts_by_item), empty=n_empty)
