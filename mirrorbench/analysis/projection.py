"""Two-dimensional projections of a word's senses; MirrorWiC's Figure 3 (section 5.3) shows *spring* by t-SNE."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.registry import unknown_name
from mirrorbench.data.items import Disambiguation
from mirrorbench.data.textfiles import read_lines, unmark
from mirrorbench.tasks.metrics import unit

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
        text, spans = unmark(marked, "t")
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
