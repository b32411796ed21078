"""BM25: rankings of documents by the words that they share with queries (bm25s with its defaults, Snowball stemmer)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANGUAGES = ("da", "de", "en", "es", "fr", "it", "nl", "no", "pt", "ru", "sv", "tr")
"""Languages with stop words in bm25s and a stemmer in PyStemmer."""
Ranking = dict[str, float]
"""Scores of the documents that are retrieved for a query, by id, best first."""


def bm25_rankings(
    documents: Mapping[str, str], queries: Mapping[str, str], language: str, depth: int
) -> list[Ranking]:
    """Return the ranking of each query, of at most ``depth`` documents; those that share no word are left out.

    ``language`` is that of the stop words and of the stemmer.
    """
    import bm25s
    from Stemmer import Stemmer

    def words(texts: Mapping[str, str]) -> Any:
        return bm25s.tokenize(
            list(texts.values()),
            stopwords=language,
            stemmer=Stemmer(language),
            return_ids=False,
            show_progress=False,
        )

    index = bm25s.BM25()
    tokens = words(documents)
    if not any(tokens):
        return [{} for _ in queries]
    index.index(tokens, show_progress=False)
    n_best = min(depth, len(documents))
    rows, scores = index.retrieve(words(queries), k=n_best, show_progress=False)
    return rankings_of(list(documents), rows, scores, least=0)


def rankings_of(
    names: Sequence[str], rows: NDArray[Any], scores: NDArray[Any], least: float = -np.inf
) -> list[Ranking]:
    """Return the ranking of each query from rows of documents, best first, with scores above ``least``."""
    return [
        {names[row]: value for row, value in zip(query_rows, values, strict=True) if value > least}
        for query_rows, values in zip(
            rows.tolist(), scores.astype(np.float64).tolist(), strict=True
        )
    ]
