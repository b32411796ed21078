"""Retrieval collections in BEIR's layout: reading and checking them, and search by vectors and by BM25."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.errors import DataFormatError, UsageError, not_installed, unknown_name
from mirrorbench.core.quoting import shown
from mirrorbench.core.vectors import unit
from mirrorbench.data.readers.columns import line_error
from mirrorbench.data.readers.json_lines import parse_json
from mirrorbench.data.readers.rows import format_of
from mirrorbench.data.readers.text import stream_lines
from mirrorbench.own_data.bm25 import LANGUAGES, Ranking, bm25_rankings
from mirrorbench.own_data.layouts import DOCUMENTS, JUDGEMENTS, DataLayout

DEPTH = 1000
"""Number of documents that are ranked for each query, as in MTEB."""
BLOCK = 8192
"""Number of documents whose similarities are computed together."""
RANK_CONSTANT = 60
"""Constant of reciprocal rank fusion, added to each rank (Cormack, Clarke and Büttcher, SIGIR 2009)."""
_GRADE = re.compile(r"\s*(-?[0-9]{1,9})(\.0+)?\s*")
_TITLE = re.compile(r'"title"\s*:')


@dataclass(frozen=True)
class Collection:
    """Texts of documents and queries by id, and the judged documents of each query with their grades."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    judged: Mapping[str, Mapping[str, int]]
    notes: tuple[str, ...]
    """Remarks on left-out and on unusual documents, queries and judgements."""
    language: str
    """Language of the stop words and the stemmer of BM25."""

    @cached_property
    def bm25(self) -> list[Ranking]:
        """Rankings by BM25 of the documents that share a word with each query."""
        return bm25_rankings(self.documents, self.queries, self.language, DEPTH)


def check_retrieval(path: Path, language: str) -> None:
    """Raise ``UsageError`` if a library is missing, or has no stemmer and stop words of a language."""
    for module, package in (
        ("pytrec_eval", "pytrec-eval-terrier"),
        ("bm25s", "bm25s"),
        ("Stemmer", "PyStemmer"),
    ):
        if find_spec(module) is None:
            raise not_installed(UsageError, f"retrieval ({path}) needs", package, "evaluate")
    if language not in LANGUAGES:
        raise unknown_name("language of BM25", language, list(LANGUAGES))


def read_collection(layout: DataLayout, language: str) -> Collection:
    """Read a collection; title and text of a document are joined by a space.

    Raises:
        DataFormatError: an id occurs twice, a query has no text, a grade is no whole number, no query has a relevant
            document, or a relevant document is not in the corpus.
    """
    documents, queries = _texts(layout, "corpus"), _texts(layout, "queries")
    source, judged = str(layout.files["qrels"]), dict[str, dict[str, int]]()
    unknown_queries, unknown_documents = dict[str, None](), list[tuple[int, str]]()
    for line, (query, document, grade) in layout.rows("qrels", JUDGEMENTS):
        if not (whole := _GRADE.fullmatch(grade)):
            raise line_error(
                source, line, f"the score {shown(grade)} is no whole number of at most nine digits"
            )
        if query not in queries:
            unknown_queries[query] = None
            continue
        if document not in documents and int(whole[1]) > 0:
            unknown_documents.append((line, document))
        if document in judged.setdefault(query, {}):
            raise line_error(
                source, line, f"a second judgement of {document} for the query {query}"
            )
        judged[query][document] = int(whole[1])
    if unknown_documents:
        line, first = unknown_documents[0]
        problem = f"{len(unknown_documents)} relevant documents are not in the corpus, the first is {first!r}"
        raise line_error(
            source, line, problem, "No encoder can find them: add them, or remove their judgements."
        )
    relevant = {query: grades for query, grades in judged.items() if max(grades.values()) > 0}
    unknown = (
        f"; {next(iter(unknown_queries))!r} is judged and not among the queries"
        if unknown_queries
        else ""
    )
    if not relevant:
        raise DataFormatError(f"{source}: no query has a relevant document{unknown}.")
    notes = _notes(documents, relevant, len(unknown_queries), len(queries) - len(relevant))
    if layout.files["qrels"].name != "test.tsv":
        notes.append(f"judgements of {layout.files['qrels'].name}")
    return Collection(
        documents, {query: queries[query] for query in relevant}, relevant, tuple(notes), language
    )


def _notes(
    documents: Mapping[str, str],
    judged: Mapping[str, Mapping[str, int]],
    unknown_queries: int,
    left_out: int,
) -> list[str]:
    """Remarks with the number of each unusual thing in a collection."""
    blank = {name for name, text in documents.items() if not text.strip()}
    unfindable = {name for grades in judged.values() for name in blank if grades.get(name, 0) > 0}
    counts = {
        "documents without text": len(blank),
        "relevant documents without text, which no encoder can find": len(unfindable),
        "documents with the same text as another": len(documents) - len(set(documents.values())),
        "judged queries that are not among the queries": unknown_queries,
        "queries without a relevant document, left out": left_out,
    }
    return [f"{remark}: {n:,}" for remark, n in counts.items() if n]


def _texts(layout: DataLayout, part: str) -> dict[str, str]:
    """Texts by id, in file order."""
    source, texts, columns = str(layout.files[part]), dict[str, str](), [*DOCUMENTS]
    if part == "corpus" and _titled(layout):
        columns.append("title")
    for line, values in layout.rows(part, columns):
        name, text, *title = ("" if value is None else value for value in values)
        name = str(name) if type(name) is int else name  # judgements hold ids as text anyway
        for column, value in zip(columns, (name, text, *title), strict=True):
            if not isinstance(value, str) or (column == columns[0] and not value):
                raise line_error(source, line, f"the {column} is no text")
        if name in texts:
            raise line_error(source, line, f"a second {name!r}")
        texts[name] = " ".join(filter(None, [*title, text]))
        if part == "queries" and not text.strip():
            raise line_error(source, line, f"the query {name!r} has no text")
    if not texts:
        raise DataFormatError(f"{source} has no rows.")
    return texts


def _titled(layout: DataLayout) -> bool:
    """Whether any document has a title."""
    file = layout.files["corpus"]
    if format_of(file.name) != "jsonl":
        return "title" in layout.columns("corpus")
    lines = enumerate(stream_lines(file), start=1)
    return any(
        _TITLE.search(line) and "title" in parse_json(line, f"{file}, line {n}")
        for n, line in lines
    )


def search(
    queries: Array, documents: Array, depth: int = DEPTH
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows and cosines of the nearest documents of each query, best first, both of shape (queries, depth).

    Cosines are computed for ``BLOCK`` documents at a time, and only the best are kept, so that memory is bounded.
    """
    depth, units = min(depth, len(documents)), unit(queries).astype(np.float32)
    rows: NDArray[Any] = np.zeros((len(queries), 0), dtype=np.int64)
    cosines: NDArray[Any] = np.zeros((len(queries), 0), dtype=np.float32)
    for start in range(0, len(documents), BLOCK):
        block = units @ unit(documents[start : start + BLOCK]).astype(np.float32).T
        cosines = np.concatenate([cosines, block], axis=1)
        rows = np.concatenate(
            [rows, np.broadcast_to(np.arange(start, start + block.shape[1]), block.shape)], axis=1
        )
        if rows.shape[1] > depth:
            kept = np.argpartition(-cosines, depth - 1, axis=1)[:, :depth]
            rows, cosines = (np.take_along_axis(values, kept, axis=1) for values in (rows, cosines))
    order = np.lexsort((rows, -cosines), axis=1)
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)


def fuse(*rankings: Sequence[Ranking]) -> list[Ranking]:
    """Fuse several rankings of each query: documents by the sum of their reciprocal ranks, best first."""
    combined: list[Ranking] = []
    for of_query in zip(*rankings, strict=True):
        sums: Ranking = {}
        for ranking in of_query:
            for rank, name in enumerate(ranking, start=1):
                sums[name] = sums.get(name, 0) + 1 / (RANK_CONSTANT + rank)
        combined.append(dict(sorted(sums.items(), key=lambda item: -item[1])[:DEPTH]))
    return combined


def measure(collection: Collection, rankings: Sequence[Ranking]) -> dict[str, NDArray[np.float64]]:
    """Compute each measure by pytrec_eval, of each query in the order of ``collection.judged``; names as in MTEB."""
    import pytrec_eval

    names = {
        "ndcg_cut_10": "ndcg_at_10",
        "map": "map",
        "recall_10": "recall_at_10",
        "recall_100": "recall_at_100",
    }
    judged = {query: dict(grades) for query, grades in collection.judged.items()}
    run = dict(zip(judged, rankings, strict=True))
    whole = pytrec_eval.RelevanceEvaluator(
        judged, {"ndcg_cut.10", "map", "recall.10,100"}
    ).evaluate(run)
    top = {query: dict(list(ranking.items())[:10]) for query, ranking in run.items()}
    first = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(top)
    metrics = {
        name: np.array([whole[query][key] for query in judged]) for key, name in names.items()
    }
    return {**metrics, "mrr_at_10": np.array([first[query]["recip_rank"] for query in judged])}
