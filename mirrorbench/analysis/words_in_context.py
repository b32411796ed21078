"""Vectors of several words of a text from one pass over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.devices import fetched
from mirrorbench.core.encoder_protocol import Array, TextInput
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.transformer_encoder import TEXTS_PER_CHUNK, TransformerEncoder, one_behind


@dataclass(frozen=True, slots=True)
class WordTargets:
    """Positions of the tokens of several words in each text: one ``Ragged`` per text."""

    words: tuple[Ragged, ...]

    def take(self, rows: ArrayLike) -> WordTargets:
        """Return some of the texts, in the order of ``rows``."""
        return WordTargets(tuple(self.words[row] for row in np.asarray(rows)))

    def weights(self, width: int) -> NDArray[np.float32]:
        """Return weights that average over each word's tokens, shape (texts, words, width), padded with 0."""
        most_words = max(map(len, self.words))
        matrix = np.zeros((len(self.words), most_words, width), dtype=np.float32)
        for row, words in enumerate(self.words):
            matrix[row, : len(words)] = words.weights(width)
        return matrix


@torch.inference_mode()
def encode_words(
    encoder: TransformerEncoder,
    texts: Sequence[Sequence[TextInput]],
    poolings: Sequence[Pooling],
    advance: Callable[[int], None] = lambda n: None,
) -> Iterator[tuple[int, Array]]:
    """Encode several words of each text in one pass over the text; yield the texts in no particular order.

    Args:
        encoder: the encoder.
        texts: the words of each text, at least one for each.
        poolings: poolings of mode ``target`` with the same maximum length; longer texts are left out.
        advance: called with the number of texts done since the last call.

    Yields:
        The index of a text, and the vectors of its words: float32 of shape (poolings, words, dimensions).
    """
    for start in range(0, len(texts), TEXTS_PER_CHUNK):
        chunk = texts[start : start + TEXTS_PER_CHUNK]
        # Tokenise each word as an input of its own: the text, with the word as its target.
        words_of_chunk = [word for words in chunk for word in words]
        located = encoder.transformer.read(words_of_chunk, poolings[0])
        assert located.targets is not None
        # In words_of_chunk, the words of text n are those from first_words[n] up to first_words[n + 1].
        first_words = np.cumsum([0, *map(len, chunk)])
        # A word in ``windowed`` had its text cut, since it is too long: leave out the text that the word belongs to.
        too_long = np.searchsorted(first_words, located.windowed, side="right") - 1
        encoded_texts = np.setdiff1d(np.arange(len(chunk)), too_long)
        words_by_text = []
        for text in encoded_texts:
            rows_of_words = np.arange(first_words[text], first_words[text + 1])
            words_by_text.append(located.targets.take(rows_of_words))
        # The token ids of a text are the same for all its words.
        ids = located.ids.take(first_words[encoded_texts])
        batches = encoder.batches(ids, WordTargets(tuple(words_by_text)), poolings, pad_to=0)
        started = ((rows, fetched(torch.stack(pooled))) for rows, pooled in batches)
        # The next batch is computed while the vectors of this one are copied from the device.
        for rows, wait_for_vectors in one_behind(started):
            vectors = wait_for_vectors()
            for row, text in enumerate(encoded_texts[rows].tolist()):
                # Texts with fewer words than others of the batch are padded.
                n_words = len(chunk[text])
                yield start + text, vectors[:, row, :n_words]
        advance(len(chunk))
