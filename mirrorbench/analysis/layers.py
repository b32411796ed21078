"""Layer by layer: what each layer of a model knows, and how its space is shaped (MirrorWiC, section 5.3, Figure 2).

Figure 2 has four measures: performance on a task, isotropy of sentences as averages over their words, similarity of
random words, and similarity of words to their sentence. The last two are those of Ethayarajh (2019).
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
Vectors = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Words:
    """All words of some sentences, each in its context.

    Attributes:
        inputs: n words, each with its span.
        sentence: of each word, as an index, shape (n,); rising.
        form: which word it is (without regard to case), as an index, shape (n,).
    """

    inputs: tuple[TextInput, ...]
    sentence: NDArray[np.int64]
    form: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's measures.

    Attributes:
        layer: 0 for the embeddings.
        score: on the task, by its main metric; ``None`` where it is undefined or no task was asked for.
        log_isotropy: of the sentences, each the mean of its words (Figures 2c, 2d).
        random_similarity: cosine of two random words, a word being the mean over its contexts (Figures 2e, 2f).
        random_sd: sample standard deviation of that over the samples; ``None`` for one sample.
        intra_similarity: cosine of a word and the mean of its sentence's words, averaged within a sentence, then over
            sentences.
        adjusted_intra_similarity: the same less ``random_similarity`` (Figures 2g, 2h).
    """

    layer: int
    score: float | None
    log_isotropy: float
    random_similarity: float
    random_sd: float | None
    intra_similarity: float
    adjusted_intra_similarity: float


def words_in(sentences: Sequence[str]) -> Words:
    """The words of sentences: runs of letters and digits, hyphens and apostrophes inside them included.

    Sentences with fewer than two words are left out: their word would be its own context.
    """
    inputs: list[TextInput] = []
    numbers: list[int] = []
    forms: dict[str, int] = {}
    ids: list[int] = []
    kept = 0
    for text in sentences:
        found = list(_WORD.finditer(text))
        if len(found) < 2:
            continue
        for match in found:
            inputs.append(TextInput(text, (match.span(),)))
            numbers.append(kept)
            ids.append(forms.setdefault(match[0].lower(), len(forms)))
        kept += 1
    return Words(tuple(inputs), np.array(numbers, dtype=np.int64), np.array(ids, dtype=np.int64))


def measure(layer: int, vectors: Vectors, words: Words, score: float | None = None, seed: int = 0) -> Layer:
    """The measures of one layer.

    Args:
        layer: its number.
        vectors: of the words, shape (n, dimensions).
        words: what they stand for.
        score: on a task.
        seed: of the samples of random words.
    """
    random = random_word_similarity(group_means(vectors, words.form), seed)
    intra = float(intra_sentence_similarity(vectors, words.sentence).mean())
    baseline = float(random.mean())
    return Layer(
        layer=layer,
        score=score,
        log_isotropy=log_isotropy(group_means(vectors, words.sentence)),
        random_similarity=baseline,
        random_sd=float(random.std(ddof=1)) if len(random) > 1 else None,
        intra_similarity=intra,
        adjusted_intra_similarity=intra - baseline,
    )


def group_means(vectors: Vectors, group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean vector of each group.

    Args:
        vectors: shape (n, dimensions).
        group: of each vector, from 0 to g - 1, each with a member, shape (n,).

    Returns:
        Shape (g, dimensions).
    """
    rows = np.asarray(vectors, dtype=np.float64)
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means: NDArray[np.float64] = np.add.reduceat(rows[order], starts, axis=0) / counts[:, None]
    return means


def intra_sentence_similarity(vectors: Vectors, sentence: NDArray[np.int64]) -> NDArray[np.float64]:
    """Average cosine of a sentence's words with their mean vector (Ethayarajh 2019), shape (sentences,).

    Args:
        vectors: of the words, shape (n, dimensions).
        sentence: of each word, from 0, each with a word, shape (n,).
    """
    centres = unit(group_means(vectors, sentence))[sentence]
    cosines = np.einsum("nd,nd->n", unit(vectors), centres)
    result: NDArray[np.float64] = np.bincount(sentence, weights=cosines) / np.bincount(sentence)
    return result


def random_word_similarity(means: Vectors, seed: int = 0) -> NDArray[np.float64]:
    """Average cosine of two random words, in each of five samples of 200 words; all words where there are fewer.

    Args:
        means: a vector for each distinct word, shape (words, dimensions), words at least 2.
        seed: of the samples.

    Returns:
        Shape (samples,): one sample alone where it holds all words.
    """
    if len(means) <= SAMPLE_SIZE:
        return np.array([mean_cosine(means)])
    rng = np.random.default_rng(seed)
    samples = [rng.choice(len(means), SAMPLE_SIZE, replace=False) for _ in range(SAMPLES)]
    return np.array([mean_cosine(means[sample]) for sample in samples])
