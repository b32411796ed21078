"""Measures of each layer of a model (MirrorWiC, section 5.3, Figure 2).

They are the score on a task, isotropy of sentences (averages over words), similarity of random words, and similarity of
words to their sentence; the last two are from Ethayarajh (2019).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.analysis.isotropy import log_isotropy, mean_cosine
from mirrorbench.core.inputs import TextInput
from mirrorbench.tasks.metrics import unit

SAMPLES, SAMPLE_SIZE = 5, 200
"""Random samples of words, and words in each (MirrorWiC, section 5.3)."""
_WORD = re.compile(r"\w+(?:[-'’]\w+)*")


@dataclass(frozen=True, slots=True)
class SentenceWords:
    """The n words of sentences, each in its context."""

    inputs: tuple[TextInput, ...]
    """Each word with its span."""
    sentence: NDArray[np.int64]
    """Index of each word's sentence, rising; shape (n,)."""
    form: NDArray[np.int64]
    """Index of each word's lower-case form; shape (n,)."""


def words_in(sentences: Sequence[str]) -> SentenceWords:
    """The words of sentences (letters, digits, inner hyphens and apostrophes); sentences of one word are left out."""
    inputs: list[TextInput] = []
    numbers: list[int] = []
    forms: dict[str, int] = {}
    ids: list[int] = []
    matches = ((text, list(_WORD.finditer(text))) for text in sentences)
    for number, (text, words) in enumerate((text, words) for text, words in matches if len(words) > 1):
        for word in words:
            inputs.append(TextInput(text, (word.span(),)))
            numbers.append(number)
            ids.append(forms.setdefault(word[0].lower(), len(forms)))
    return SentenceWords(tuple(inputs), np.array(numbers, dtype=np.int64), np.array(ids, dtype=np.int64))


def measure_layer(
    layer: int, vectors: NDArray[Any], words: SentenceWords, score: float | None = None, seed: int = 0
) -> dict[str, Any]:
    """The measures of a layer (0: the embeddings) from its vectors of the words, by column name.

    ``log_isotropy`` is that of sentences (Figures 2c, 2d), ``random_similarity`` the mean over random samples (2e, 2f),
    ``adjusted_intra_similarity`` the intra-sentence similarity minus that mean (2g, 2h).
    """
    random = random_word_similarity(group_means(vectors, words.form), seed)
    intra = float(intra_sentence_similarity(vectors, words.sentence).mean())
    return {
        "layer": layer,
        "score": score,
        "log_isotropy": log_isotropy(group_means(vectors, words.sentence)),
        "random_similarity": float(random.mean()),
        "random_sd": float(random.std(ddof=1)) if len(random) > 1 else None,
        "intra_similarity": intra,
        "adjusted_intra_similarity": intra - float(random.mean()),
    }


def group_means(vectors: NDArray[Any], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean vector of each group, shape (groups, dimensions); groups are numbered from 0, none is empty."""
    rows = np.asarray(vectors, dtype=np.float64)
    counts = np.bincount(group)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means: NDArray[np.float64] = np.add.reduceat(rows[np.argsort(group, kind="stable")], starts) / counts[:, None]
    return means


def intra_sentence_similarity(vectors: NDArray[Any], sentence: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average cosine of a sentence's words with their mean vector (Ethayarajh 2019), shape (sentences,)."""
    centres = unit(group_means(vectors, sentence))[sentence]
    cosines = np.einsum("nd,nd->n", unit(vectors), centres)
    result: NDArray[np.float64] = np.bincount(sentence, weights=cosines) / np.bincount(sentence)
    return result


def random_word_similarity(means: NDArray[Any], seed: int = 0) -> NDArray[np.float64]:
    """Average cosine of two random words in each of five samples of 200 words, or one sample of all if fewer.

    ``means`` has a vector for each of at least two distinct words.
    """
    if len(means) <= SAMPLE_SIZE:
        return np.array([mean_cosine(means)])
    rng = np.random.default_rng(seed)
    return np.array([mean_cosine(means[rng.choice(len(means), SAMPLE_SIZE, replace=False)]) for _ in range(SAMPLES)])
