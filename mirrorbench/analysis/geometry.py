"""Measures of vectors of shape (n, dimensions), which are not normalised.

Isotropy: the score of Mu and Viswanath (2018), used in Mirror-BERT (section 4.4, Eq. 2; Tables 9 and 14) and as a
logarithm in MirrorWiC (section 5.3, Eq. 2); the mean-vector norm is Mirror-BERT's Eq. 3 (appendix E). Layers of a
model: MirrorWiC, section 5.3, Figure 2; two of their measures are from Ethayarajh (2019). Projections of a word's
senses: MirrorWiC's Figure 3 (section 5.3) shows *spring* by t-SNE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError, UsageError, unknown_name
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import Disambiguation
from mirrorbench.data.textfiles import read_lines, unmark
from mirrorbench.tasks.metrics import unit

_BLOCK = 256
"""Directions at a time: bounds memory at n x 256 numbers."""


def measure_isotropy(vectors: NDArray[Any]) -> dict[str, Any]:
    """All measures by column name; ``isotropy`` ranges from 0 to 1 (isotropic). ``ValueError`` without vectors.

    ``row_isotropy`` is what the script of Mirror-BERT's authors computes (issue 3 of their repository), and what to
    compare with Table 9: it uses the rows of the eigenvector matrix instead of its columns. These are no principal
    directions, so the score is much higher: where the first eigenvector is near the mean vector, the score over columns
    is at most about exp(-norm of the mean), .001 for BERT's 6.93 (Table 14), but Table 9 has .222. It depends on the
    signs and order of the eigenvectors, which ``directions`` fixes.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"expected vectors of shape (n, dimensions), got {rows.shape}")
    log_score = log_isotropy(rows)
    by_row = _log_sums(rows, directions(rows).T, signs=(1,))
    return {
        "n": len(rows),
        "dimensions": rows.shape[1],
        "isotropy": float(np.exp(log_score)),
        "log_isotropy": log_score,
        "row_isotropy": float(np.exp(by_row.min() - by_row.max())),
        "mean_vector_norm": float(np.linalg.norm(rows.mean(axis=0))),
        "mean_cosine": mean_cosine(rows) if len(rows) > 1 else None,
    }


def log_isotropy(vectors: NDArray[Any]) -> float:
    """log(min Z(c) / max Z(c)) over the eigenvectors c of V^T V, where Z(c) is the sum of exp(c . v) over the vectors.

    Both signs of each eigenvector count, since the sign depends on the linear-algebra library.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    sums = _log_sums(rows, directions(rows), signs=(1, -1))
    return float(sums.min() - sums.max())


def directions(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The eigenvectors of V^T V, V the rows, by falling eigenvalue; each is a column with its largest part positive."""
    found: NDArray[np.float64] = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    largest = found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])]
    oriented: NDArray[np.float64] = found * np.where(largest < 0, -1.0, 1.0)
    return oriented


def mean_cosine(vectors: NDArray[Any]) -> float:
    """Average cosine over all pairs of different vectors (Ethayarajh 2019); 0 for pairs with a zero vector."""
    rows = unit(vectors)
    total = float(np.square(rows.sum(axis=0)).sum()) - float(np.square(rows).sum())
    return total / (len(rows) * (len(rows) - 1))


def _log_sums(rows: NDArray[np.float64], columns: NDArray[np.float64], signs: tuple[int, ...]) -> NDArray[np.float64]:
    """Logarithms of Z(c) for each column c and each sign."""
    from scipy.special import logsumexp

    blocks = (rows @ columns[:, start : start + _BLOCK] for start in range(0, columns.shape[1], _BLOCK))
    return np.concatenate([logsumexp(sign * products, axis=0) for products in blocks for sign in signs])


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


METHODS = ("tsne", "pca", "umap")
EXAMPLES = files("mirrorbench") / "analysis" / "senses.tsv"
"""Our own sentences with three senses of *spring*."""
_NEIGHBOURS = 15


@dataclass(frozen=True, slots=True)
class SenseExamples:
    """A word in n contexts, the sense of each, and their source."""

    inputs: tuple[TextInput, ...]
    senses: tuple[str, ...]
    source: str


def project(vectors: NDArray[Any], method: str = "tsne", seed: int = 0) -> NDArray[np.float64]:
    """Vectors in two dimensions, shape (n, 2), by ``tsne``, ``pca`` or ``umap``.

    Vectors are scaled to unit length, as for cosines; t-SNE starts from two principal components, with a perplexity of
    30, or (n - 1) / 3 if that is less.
    """
    if method not in METHODS:
        raise unknown_name("projection", method, list(METHODS))
    rows = unit(vectors)
    if len(rows) < 4:
        raise UsageError(f"a projection needs 4 contexts or more; here are {len(rows)}")
    if method == "umap":
        try:
            umap = import_module("umap").UMAP
        except ImportError as error:
            hint = "Install it (pip install umap-learn), or take --method tsne or pca."
            raise UsageError("UMAP is not installed", hint) from error
        reducer = umap(n_neighbors=min(_NEIGHBOURS, len(rows) - 1), metric="cosine", random_state=seed, n_jobs=1)
    elif method == "tsne":
        from sklearn.manifold import TSNE

        reducer = TSNE(perplexity=min(30.0, (len(rows) - 1) / 3), init="pca", random_state=seed)
    else:
        from sklearn.decomposition import PCA

        reducer = PCA(n_components=2, svd_solver="full")
    points: NDArray[np.float64] = np.asarray(reducer.fit_transform(rows), dtype=np.float64)
    return points


def silhouette(vectors: NDArray[Any], senses: Sequence[str]) -> float | None:
    """Mean silhouette of the senses by cosine in the original space, from -1 to 1.

    ``None`` where it is undefined: a single sense, or no two contexts with the same sense.
    """
    from sklearn.metrics import silhouette_score

    if not 2 <= len(set(senses)) < len(senses):
        return None
    return float(silhouette_score(unit(vectors), list(senses), metric="cosine"))


def read_examples(file: str = "") -> SenseExamples:
    """Contexts from a file of lines ``SENSE<TAB>TEXT`` with the word in ``<t>`` and ``</t>``; by default our own."""
    if file and not os.path.isfile(file):  # unlike Path.is_file, does not raise for a name that is too long
        raise UsageError(f"there is no file {file}", "Each line holds a sense, a tab, and a <t>marked</t> text.")
    name = file or "examples inside the package"
    inputs, senses = [], []
    for number, line in enumerate(read_lines(Path(file or str(EXAMPLES))), start=1):
        if not line.strip():
            continue
        sense, tab, marked = line.partition("\t")
        text, spans = unmark(marked, "<t>", "</t>")
        if not (sense.strip() and tab and spans):
            raise DataFormatError(
                f"{name}, line {number}: not a sense, a tab, and a text with a <t>marked</t> word",
                "Like this: season<TAB>The <t>spring</t> was wet.",
            )
        inputs.append(TextInput(text, spans))
        senses.append(sense.strip())
    return SenseExamples(tuple(inputs), tuple(senses), name)


def examples_of(word: str, items: object, task: str) -> SenseExamples:
    """Contexts of a lemma from a disambiguation task: its occurrences, and the examples of its senses."""
    if not isinstance(items, Disambiguation):
        raise UsageError(f"the task {task} has no senses of {word!r}", "Take --task wsd.")
    found: dict[TextInput, str] = {}
    for occurrence in items.occurrences:
        sense = min(occurrence.gold)
        if sense.partition("%")[0] == word:
            found.setdefault(occurrence.target, sense)
    for sense, contexts in items.senses.items():
        if sense.partition("%")[0] == word:
            found.update((example, sense) for example in contexts.examples if example not in found)
    if len(set(found.values())) < 2:
        raise UsageError(
            f"{task} has {len(set(found.values()))} senses of {word!r} with contexts; two are needed",
            "Write the lemma in small letters, or bring contexts of your own: --texts FILE",
        )
    return SenseExamples(tuple(found), tuple(found.values()), task)
