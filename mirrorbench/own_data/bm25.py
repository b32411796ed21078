"""BM25: rankings of documents by the words that they share with queries (bm25s with its defaults, Snowball stemmer).

Scripts without spaces between words are read by pairs of characters, as by Lucene's analysis of Chinese and Japanese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.own_data.rankings import (
    Ranking,
    best_columns,
    in_order_of_ties,
    ranking_by_scores,
    rankings_from_rows,
)

LANGUAGES = ("da", "de", "en", "es", "fr", "it", "nl", "no", "pt", "ru", "sv", "tr")
"""Languages with stop words in bm25s and a stemmer in PyStemmer."""
_UNSPACED = (
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ece\u0edc-\u0edf"  # Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
)
"""Letters and marks of scripts without spaces, as ranges of a character class."""
_RUN = re.compile(f"[{_UNSPACED}]+")
_WORDS = rf"(?u)[{_UNSPACED}]{{1,2}}|\b\w\w+\b"
"""Words of bm25s, and the pairs that ``with_spaces`` makes."""


def bm25_rankings(
    documents: Mapping[str, str], queries: Mapping[str, str], language: str, depth: int
) -> list[Ranking]:
    """Return the ranking of each query, of at most ``depth`` documents; those that share no word with it are left out.

    ``language`` is that of the stop words and of the stemmer.
    """
    names = in_order_of_ties(documents)
    rankings: list[Ranking] = []
    for document_scores in _scores([documents[name] for name in names], queries.values(), language):
        if document_scores is None:
            rankings.append({})
            continue
        # The functions for rankings take a row of scores for each query: here one.
        scores = document_scores[None]
        rows = best_columns(scores, depth)
        best_scores = np.take_along_axis(scores, rows, axis=1)
        order = np.argsort(-best_scores, axis=1, kind="stable")
        rows = np.take_along_axis(rows, order, axis=1)
        best_scores = np.take_along_axis(best_scores, order, axis=1)
        rankings += rankings_from_rows(names, rows, best_scores, least=0)
    return rankings


def bm25_candidate_rankings(
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    candidates: Mapping[str, Sequence[str]],
    language: str,
) -> list[Ranking]:
    """Return the ranking of each query's candidates; those that share no word with it have a score of 0.

    The weight of a word depends on all documents. ``language`` as for ``bm25_rankings``.
    """
    rows = {name: row for row, name in enumerate(documents)}
    scores_of_queries = _scores(documents.values(), queries.values(), language)
    rankings: list[Ranking] = []
    for query, document_scores in zip(queries, scores_of_queries, strict=True):
        names = candidates[query]
        if document_scores is None:
            scores = np.zeros(len(names))
        else:
            scores = document_scores[[rows[name] for name in names]]
        rankings.append(ranking_by_scores(names, scores))
    return rankings


def _scores(
    documents: Iterable[str], queries: Iterable[str], language: str
) -> Iterator[NDArray[Any] | None]:
    """Yield the scores of all documents for each query; ``None`` if the query or all documents have no words."""
    import bm25s

    words_of_documents = _words(documents, language)
    words_of_queries = _words(queries, language)
    if not any(words_of_documents):
        yield from [None] * len(words_of_queries)
        return
    index = bm25s.BM25()
    index.index(words_of_documents, show_progress=False)
    for words in words_of_queries:
        yield index.get_scores(words) if words else None


def _words(texts: Iterable[str], language: str) -> Any:
    """Return the stems of each text's words."""
    import bm25s
    from Stemmer import Stemmer

    return bm25s.tokenize(
        [with_spaces(text) for text in texts],
        token_pattern=_WORDS,
        stopwords=language,
        stemmer=Stemmer(language),
        return_ids=False,
        show_progress=False,
    )


def is_unspaced(text: str) -> bool:
    """Return whether a text has characters of a script without spaces."""
    return _RUN.search(text) is not None


def with_spaces(text: str) -> str:
    """Replace each run of a script without spaces with its pairs of neighbouring characters, separated by spaces.

    >>> with_spaces("在9点开门")
    ' 在 9 点开 开门 '
    """
    return _RUN.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", text)


def _pairs(run: str) -> list[str]:
    """Return the pairs of neighbouring characters; a single character as it is."""
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]
