"""Measures of vectors of shape (n, dimensions), which are not normalised.

Isotropy: the score of Mu and Viswanath (2018), used in Mirror-BERT (section 4.4, Eq. 2; Tables 9 and 14) and as a
logarithm in MirrorWiC (section 5.3, Eq. 2); the mean-vector norm is Mirror-BERT's Eq. 3 (appendix E). Projections of a
word's senses: MirrorWiC's Figure 3 (section 5.3) shows *spring* and *summer* by t-SNE.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, UsageError, unknown_name
from mirrorbench.core.vectors import unit
from mirrorbench.data.readers.marks import unmark
from mirrorbench.data.readers.text import read_lines
from mirrorbench.training.held_out import directions, log_isotropy, log_sums


def measure_isotropy(vectors: NDArray[Any]) -> dict[str, Any]:
    """Return all measures of isotropy by column name, as the row of a table.

    ``isotropy`` is min Z(c) / max Z(c) over the eigenvectors c of V^T V and their negatives, from 0 to 1 (isotropic);
    Z(c) is the sum of exp(c . v) over the vectors v; ``log_isotropy`` is log(isotropy). ``mean_cosine`` is ``None`` for
    a single vector.

    ``row_isotropy`` is comparable with Table 9: the script of Mirror-BERT's authors (issue 3 of their repository) uses
    the rows of the eigenvector matrix instead of its columns. Rows are no principal directions, so ``row_isotropy`` is
    much higher. Evidence: if the first eigenvector is near the mean vector, ``isotropy`` is at most about exp(-norm of
    the mean), .001 for BERT's norm of 6.93 (Table 14), but Table 9 has .222. ``row_isotropy`` depends on the signs and
    order of the eigenvectors, which ``directions`` fixes.

    Raises:
        ValueError: the array is empty or not two-dimensional.
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ValueError(f"expected vectors of shape (n, dimensions), got {vectors.shape}")
    n_vectors, n_dimensions = vectors.shape
    log_score = log_isotropy(vectors)
    # The authors' score: log Z(c), without negatives, for each row c of the eigenvector matrix. ``log_sums`` takes the
    # vectors c as columns, so the matrix is transposed.
    log_z = log_sums(vectors, directions(vectors).T, signs=(1,))
    log_row_score = log_z.min() - log_z.max()
    mean_vector = vectors.mean(axis=0)
    return {
        "n": n_vectors,
        "dimensions": n_dimensions,
        "isotropy": float(np.exp(log_score)),
        "log_isotropy": log_score,
        "row_isotropy": float(np.exp(log_row_score)),
        "mean_vector_norm": float(np.linalg.norm(mean_vector)),
        "mean_cosine": mean_cosine(vectors) if n_vectors > 1 else None,
    }


def mean_cosine(vectors: NDArray[Any]) -> float:
    """Average the cosine over all pairs of two vectors (Ethayarajh 2019); the cosine with a zero vector is 0."""
    rows = unit(vectors)
    # The squared length of the sum is the sum of all dot products, those of each vector with itself included.
    all_products = float(np.square(rows.sum(axis=0)).sum())
    products_with_itself = float(np.square(rows).sum())
    n_pairs = len(rows) * (len(rows) - 1)
    return (all_products - products_with_itself) / n_pairs


METHODS = ("tsne", "pca", "umap")
EXAMPLES = files("mirrorbench.analysis") / "senses.tsv"
"""File of sentences with three senses each of *spring* and *summer*, the words of MirrorWiC's Figure 3."""
EXAMPLE_WORDS = ("spring", "summer")
_NEIGHBOURS = 15
"""Number of neighbours of UMAP, for more vectors than that."""


@dataclass(frozen=True, slots=True)
class SenseExamples:
    """A word in n contexts, its sense in each, and the name of their source."""

    inputs: tuple[TextInput, ...]
    senses: tuple[str, ...]
    source: str


def project(vectors: NDArray[Any], method: str = "tsne", seed: int = 0) -> NDArray[np.float64]:
    """Project vectors to two dimensions, shape (n, 2), by ``tsne``, ``pca`` or ``umap``.

    Vectors are scaled to unit length, as for cosines; t-SNE starts from two principal components, with a perplexity of
    30, or (n - 1) / 3 if that is less.
    """
    if method not in METHODS:
        raise unknown_name("projection", method, list(METHODS))
    rows = unit(vectors)
    if len(rows) < 4:
        raise UsageError(f"a projection needs 4 contexts or more, but got {len(rows)}")
    if method == "umap":
        try:
            umap = import_module("umap").UMAP
        except ImportError as error:
            hint = "Install it (pip install umap-learn), or take --method tsne or pca."
            raise UsageError("UMAP is not installed", hint) from error
        reducer = umap(
            n_neighbors=min(_NEIGHBOURS, len(rows) - 1),
            metric="cosine",
            random_state=seed,
            n_jobs=1,
        )
    elif method == "tsne":
        from sklearn.manifold import TSNE

        reducer = TSNE(perplexity=min(30.0, (len(rows) - 1) / 3), init="pca", random_state=seed)
    else:
        from sklearn.decomposition import PCA

        reducer = PCA(n_components=2, svd_solver="full")
    points: NDArray[np.float64] = np.asarray(reducer.fit_transform(rows), dtype=np.float64)
    return points


def silhouette(vectors: NDArray[Any], senses: Sequence[str]) -> float | None:
    """Return the mean silhouette of the senses by cosine in the original space, from -1 to 1.

    ``None`` if it is undefined: a single sense, or no two contexts with the same sense.
    """
    from sklearn.metrics import silhouette_score

    if not 2 <= len(set(senses)) < len(senses):
        return None
    return float(silhouette_score(unit(vectors), list(senses), metric="cosine"))


def bundled_examples(word: str) -> SenseExamples:
    """Return the contexts of one of ``EXAMPLE_WORDS`` that come with the package; ``UsageError`` for other words."""
    if word not in EXAMPLE_WORDS:
        raise UsageError(
            f"there are no contexts of {word!r} inside the package, only of {' and '.join(EXAMPLE_WORDS)}",
            f"Take --task wsd --word {word}, or bring contexts of your own: --texts FILE",
        )
    examples = read_examples()
    inputs = []
    senses = []
    for item, sense in zip(examples.inputs, examples.senses, strict=True):
        start, end = item.spans[0]
        if item.text[start:end].lower() == word:
            inputs.append(item)
            senses.append(sense)
    return SenseExamples(tuple(inputs), tuple(senses), examples.source)


def read_examples(file: str = "") -> SenseExamples:
    """Read contexts from a file with lines ``SENSE<TAB>TEXT``, by default ``EXAMPLES``.

    The word stands between ``<t>`` and ``</t>``; blank lines are skipped.

    Raises:
        UsageError: there is no such file.
        DataFormatError: a line has another form.
    """
    # Unlike Path.is_file, os.path.isfile does not raise for a name that is too long.
    if file and not os.path.isfile(file):
        raise UsageError(
            f"there is no file {file}", "Each line holds a sense, a tab, and a <t>marked</t> text."
        )
    name = file or "examples inside the package"
    inputs = []
    senses = []
    lines = read_lines(Path(file or str(EXAMPLES)))
    for number, line in enumerate(lines, start=1):
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


def task_examples(word: str, senses: Mapping[TextInput, str] | None, task: str) -> SenseExamples:
    """Return the contexts of a word in a task, with the sense of each; ``UsageError`` unless there are two senses.

    If the task has no senses (``None``), return the contexts that come with the package.
    """
    if senses is None:
        return bundled_examples(word)
    n_senses = len(set(senses.values()))
    if n_senses < 2:
        raise UsageError(
            f"{task} has {n_senses} senses of {word!r} with contexts; two are needed",
            "Write the lemma in small letters, or bring contexts of your own: --texts FILE",
        )
    return SenseExamples(tuple(senses), tuple(senses.values()), task)
