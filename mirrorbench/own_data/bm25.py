"""BM25: rankings of documents by the words that they share with queries (bm25s with its defaults, Snowball stemmer).

Scripts without spaces between words are read by pairs of characters, as by Lucene's analysis of Chinese and Japanese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mirrorbench.own_data.rankings import Ranking, best_columns, in_order_of_ties, rankings_of

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
    """Return the ranking of each query, of at most ``depth`` documents; those that share no word are left out.

    ``language`` is that of the stop words and of the stemmer.
    """
    import bm25s

    names = in_order_of_ties(documents)
    words = _words([documents[name] for name in names], language)
    if not any(words):
        return [{} for _ in queries]
    index = bm25s.BM25()
    index.index(words, show_progress=False)
    rankings: list[Ranking] = []
    for query in _words(queries.values(), language):
        if not query:
            rankings.append({})
            continue
        scores = index.get_scores(query)[None]
        rows = best_columns(scores, depth)
        best = np.take_along_axis(scores, rows, axis=1)
        order = np.argsort(-best, axis=1, kind="stable")
        rows, best = (
            np.take_along_axis(rows, order, axis=1),
            np.take_along_axis(best, order, axis=1),
        )
        rankings += rankings_of(names, rows, best, least=0)
    return rankings


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
    """Put the pairs of neighbouring characters of a script without spaces in their place, with spaces around them.

    >>> with_spaces("在9点开门")
    ' 在 9 点开 开门 '
    """
    return _RUN.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", text)


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]
