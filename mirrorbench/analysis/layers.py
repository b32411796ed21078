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

WORD_SAMPLES = 5
"""Number of random samples of words (MirrorWiC, section 5.3)."""
SAMPLE_SIZE = 200
"""Number of words in each sample."""
TOP_LAYERS = 4
"""Number of last layers that represent a model: those that MirrorWiC tunes and its Figure 2 marks."""
_WORD = re.compile(r"\w+(?:[-'’]\w+)*")

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence, each in its context, and the index of each word's lower-case form."""

    words: tuple[TextInput, ...]
    forms: Rows


def words_in(texts: Iterable[str]) -> list[Sentence]:
    """Split sentences into words (letters, digits, inner hyphens, apostrophes); leave out those with fewer than two."""
    form_indices: dict[str, int] = {}
    sentences = []
    for text in texts:
        matches = list(_WORD.finditer(text))
        if len(matches) < 2:
            continue
        words = tuple(TextInput(text, (match.span(),)) for match in matches)
        forms = [form_indices.setdefault(match[0].lower(), len(form_indices)) for match in matches]
        sentences.append(Sentence(words, np.array(forms)))
    return sentences


def draw_samples(n: int, size: int, samples: int, seed: int) -> list[Rows]:
    """Draw ``samples`` random samples of n indices, each of ``size`` indices without repeats, in rising order.

    If n <= size, or for size 0, return a single sample of all n indices.
    """
    if not 0 < size < n:
        return [np.arange(n)]
    rng = np.random.default_rng(seed)
    return [np.sort(rng.choice(n, size, replace=False)) for _ in range(samples)]


class LayerSums:
    """Sums over the words of sentences in every layer.

    Args:
        sentences: the sentences; each may be added once.
        seed: seed of the random words whose similarity is measured.
    """

    def __init__(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.sentences = sentences
        n_forms = 1 + max(chain.from_iterable(sentence.forms.tolist() for sentence in sentences))
        self.word_samples = draw_samples(n_forms, SAMPLE_SIZE, WORD_SAMPLES, seed)
        sampled_forms = np.unique(np.concatenate(self.word_samples))
        # Index in ``_word_sums`` of each word form; -1 for a form in no sample.
        self._sum_indices = np.full(n_forms, -1)
        self._sum_indices[sampled_forms] = np.arange(len(sampled_forms))
        # Number of vectors in each of ``_word_sums``.
        self._n_contexts = np.zeros(len(sampled_forms), dtype=np.int64)
        self._added = np.zeros(len(sentences), dtype=bool)
        # Arrays by layer; their shapes are known when the first sentence is added.
        self._word_sums: NDArray[Any] = np.empty(0)
        self._sentence_means: NDArray[Any] = np.empty(0)
        self._intra_similarities: NDArray[Any] = np.empty(0)

    def add(self, sentence: int, vectors: NDArray[Any]) -> None:
        """Add the vectors of the words of a sentence, named by its index.

        ``vectors`` has the shape (layers, words, dimensions).
        """
        word_vectors = vectors.astype(np.float64)
        layers, _, dimensions = word_vectors.shape
        # The first sentence: the numbers of layers and dimensions are known now.
        if not self._sentence_means.size:
            n_sentences = len(self.sentences)
            # This is the largest array, so it has float32.
            self._sentence_means = np.zeros((layers, n_sentences, dimensions), dtype=np.float32)
            self._intra_similarities = np.zeros((layers, n_sentences))
            self._word_sums = np.zeros((layers, len(self._n_contexts), dimensions))
        means = word_vectors.mean(axis=1)
        self._sentence_means[:, sentence] = means
        # The mean cosine of the words with the mean of the sentence, in each layer.
        cosines = np.einsum("lwd,ld->lw", unit(word_vectors), unit(means))
        self._intra_similarities[:, sentence] = cosines.mean(axis=1)
        # Sum up the words that are in a random sample. A loop, since a word may occur twice.
        sum_indices = self._sum_indices[self.sentences[sentence].forms]
        for word in np.flatnonzero(sum_indices >= 0):
            index = sum_indices[word]
            self._word_sums[:, index] += word_vectors[:, word]
            self._n_contexts[index] += 1
        self._added[sentence] = True

    def measure(
        self, samples: Sequence[Rows], scores: Sequence[float | None]
    ) -> list[dict[str, Any]]:
        """Return a row of measures for each layer (0: the embeddings), with the layer's score on a task.

        - ``log_isotropy``: of sentence means, averaged over ``samples`` of sentences (Figures 2c, 2d; footnote 8).
        - ``random_similarity``: the average cosine of two words, each the mean of its contexts, averaged over random
          samples of words (2e, 2f).
        - ``intra_similarity``: the average cosine of a sentence's words with their mean vector.
        - ``adjusted_intra_similarity``: ``intra_similarity`` minus ``random_similarity`` (2g, 2h).

        ``log_isotropy_sd`` and ``random_sd`` are deviations over the samples; ``None`` for a single one.
        """
        # Sentences and words that were never added are left out of the samples.
        sentence_samples = [sample[self._added[sample]] for sample in samples]
        word_samples = []
        for forms in self.word_samples:
            sum_indices = self._sum_indices[forms]
            word_samples.append(sum_indices[self._n_contexts[sum_indices] > 0])
        # Words that were never added become NaN (0 / 0); no sample has them.
        with np.errstate(invalid="ignore"):
            word_means = self._word_sums / self._n_contexts[:, None]
        rows = []
        for layer, score in enumerate(scores):
            sentence_means = self._sentence_means[layer]
            isotropies = [log_isotropy(sentence_means[sample]) for sample in sentence_samples]
            similarities = [mean_cosine(word_means[layer, sample]) for sample in word_samples]
            random_similarity = float(np.mean(similarities))
            intra_similarity = float(self._intra_similarities[layer, self._added].mean())
            rows.append(
                {
                    "layer": layer,
                    "score": score,
                    "log_isotropy": float(np.mean(isotropies)),
                    "log_isotropy_sd": _deviation(isotropies),
                    "random_similarity": random_similarity,
                    "random_sd": _deviation(similarities),
                    "intra_similarity": intra_similarity,
                    "adjusted_intra_similarity": intra_similarity - random_similarity,
                }
            )
        return rows

    @property
    def n_words(self) -> int:
        """Number of words of the added sentences."""
        return sum(
            len(sentence.words)
            for sentence, added in zip(self.sentences, self._added, strict=True)
            if added
        )


def _deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; ``None`` for a single value."""
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
        values = [row[name] for row in rows[-TOP_LAYERS:]]
        means[name] = None if None in values else float(np.mean(values))
    return means
