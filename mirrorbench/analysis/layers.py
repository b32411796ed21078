"""Layers of a model over the words of sentences (MirrorWiC, section 5.3, Figure 2).

Two of the measures are from Ethayarajh (2019). Vectors are summed up as they are encoded: those of all words of ten
thousand sentences in all layers would not fit in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.analysis.geometry import mean_cosine
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.vectors import unit
from mirrorbench.training.held_out import log_isotropy

WORD_SAMPLES, SAMPLE_SIZE = 5, 200
"""Random samples of words, and words in each (MirrorWiC, section 5.3)."""
TOP = 4
"""Number of last layers that represent a model: those that MirrorWiC tunes, and that its Figure 2 marks."""
_WORD = re.compile(r"\w+(?:[-'’]\w+)*")

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence, each in its context, and the index of each word's lower-case form."""

    words: tuple[TextInput, ...]
    forms: Rows


def words_in(texts: Iterable[str]) -> list[Sentence]:
    """Split sentences into words (letters, digits, inner hyphens, apostrophes); those of one word are left out."""
    numbers: dict[str, int] = {}
    sentences = []
    for text in texts:
        words = list(_WORD.finditer(text))
        if len(words) > 1:
            forms = [numbers.setdefault(word[0].lower(), len(numbers)) for word in words]
            sentences.append(
                Sentence(tuple(TextInput(text, (word.span(),)) for word in words), np.array(forms))
            )
    return sentences


def draw_samples(n: int, size: int, samples: int, seed: int) -> list[Rows]:
    """Draw random samples of ``size`` of n indices, without repeats, in rising order; one of all n if n <= size."""
    if not 0 < size < n:
        return [np.arange(n)]
    rng = np.random.default_rng(seed)
    return [np.sort(rng.choice(n, size, replace=False)) for _ in range(samples)]


class LayerSums:
    """Sums over the words of sentences in every layer.

    Args:
        sentences: the sentences; each may be added once.
        seed: draws the words for the similarity of random words.
    """

    def __init__(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.sentences = sentences
        n_forms = 1 + max(chain.from_iterable(sentence.forms.tolist() for sentence in sentences))
        self.word_samples = draw_samples(n_forms, SAMPLE_SIZE, WORD_SAMPLES, seed)
        drawn = np.unique(np.concatenate(self.word_samples))
        self._slots = np.full(n_forms, -1)
        self._slots[drawn] = np.arange(len(drawn))
        self._contexts = np.zeros(len(drawn), dtype=np.int64)
        self._read = np.zeros(len(sentences), dtype=bool)
        self._words: NDArray[Any]
        self._means: NDArray[Any]
        self._intra: NDArray[Any]
        self._words = self._means = self._intra = np.empty(0)

    def add(self, sentence: int, vectors: NDArray[Any]) -> None:
        """Add the vectors of a sentence's words, shape (layers, words, dimensions)."""
        rows = vectors.astype(np.float64)
        layers, _, dimensions = rows.shape
        if not self._means.size:
            self._means = np.zeros(
                (layers, len(self.sentences), dimensions), dtype=np.float32
            )  # the largest of all
            self._intra = np.zeros((layers, len(self.sentences)))
            self._words = np.zeros((layers, len(self._contexts), dimensions))
        centres = rows.mean(axis=1)
        self._means[:, sentence] = centres
        self._intra[:, sentence] = np.einsum("lwd,ld->lw", unit(rows), unit(centres)).mean(axis=1)
        slots = self._slots[self.sentences[sentence].forms]
        for word in np.flatnonzero(slots >= 0):
            self._words[:, slots[word]] += rows[:, word]
            self._contexts[slots[word]] += 1
        self._read[sentence] = True

    def measure(
        self, samples: Sequence[Rows], scores: Sequence[float | None]
    ) -> list[dict[str, Any]]:
        """Return the measures of each layer (0: the embeddings) by column name, with the layer's score on a task.

        ``log_isotropy`` is that of sentence means, averaged over ``samples`` of sentences (Figures 2c, 2d; footnote 8);
        ``random_similarity`` is the average cosine of two words, each the mean of its contexts, averaged over random
        samples of words (2e, 2f); ``intra_similarity`` is the average cosine of a sentence's words with their mean
        vector, and ``adjusted_intra_similarity`` the same minus ``random_similarity`` (2g, 2h).
        """
        kept = [sample[self._read[sample]] for sample in samples]
        known = self._contexts > 0
        drawn = [
            slots[known[slots]] for slots in (self._slots[forms] for forms in self.word_samples)
        ]
        with np.errstate(invalid="ignore"):
            words = self._words / self._contexts[:, None]
        rows = []
        for layer, score in enumerate(scores):
            isotropy = [log_isotropy(self._means[layer, sample]) for sample in kept]
            random = [mean_cosine(words[layer, slots]) for slots in drawn]
            intra = float(self._intra[layer, self._read].mean())
            rows.append(
                {
                    "layer": layer,
                    "score": score,
                    "log_isotropy": float(np.mean(isotropy)),
                    "log_isotropy_sd": _deviation(isotropy),
                    "random_similarity": float(np.mean(random)),
                    "random_sd": _deviation(random),
                    "intra_similarity": intra,
                    "adjusted_intra_similarity": intra - float(np.mean(random)),
                }
            )
        return rows

    @property
    def n_words(self) -> int:
        """Number of words of the added sentences."""
        return sum(
            len(sentence.words)
            for sentence, read in zip(self.sentences, self._read, strict=True)
            if read
        )


def _deviation(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def top_layer_means(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Average each measure of ``LayerSums.measure`` over the last layers; ``None`` if a layer has no value."""
    means: dict[str, float | None] = {}
    for name in (
        "score",
        "log_isotropy",
        "random_similarity",
        "intra_similarity",
        "adjusted_intra_similarity",
    ):
        values = [row[name] for row in rows[-TOP:]]
        means[name] = None if None in values else float(np.mean(values))
    return means
