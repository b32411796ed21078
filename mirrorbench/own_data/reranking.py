"""Reading of candidates for reranking: rows of a query with positives and negatives, or a file beside a collection.

A row with a list is a query. Rows of single texts that have the same query are taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import is_text, shown
from mirrorbench.data.readers.columns import line_error
from mirrorbench.data.readers.rows import PLAIN_TEXT
from mirrorbench.data.readers.values import is_list, listed
from mirrorbench.own_data.checked_rows import rows_of_split
from mirrorbench.own_data.collection import Collection, id_text, known_id, read_collection
from mirrorbench.own_data.layouts import (
    CANDIDATES,
    LISTED_CANDIDATES,
    TABLES,
    TEST,
    TOP_RANKED,
    DataLayout,
)
from mirrorbench.own_data.rankings import in_order_of_ties

_COLUMNS = TABLES["reranking"]


def read_candidates(layout: DataLayout, language: str) -> Collection:
    """Read the queries of a table or collection with their candidates.

    Raises:
        DataFormatError: a candidate is positive and negative, a text is empty, or no query has a positive candidate.
    """
    if TOP_RANKED in layout.tables:
        return _of_collection(layout, read_collection(layout, language))
    return _of_table(layout, language)


@dataclass
class _Query:
    """A query of a table, with the line of its first row and its candidates: text to 1 (positive) or 0."""

    text: str
    line: int
    grades: dict[str, int] = field(default_factory=dict)

    @property
    def in_order_of_ties(self) -> list[str]:
        """The candidates in the order of equal scores: negatives first."""
        return sorted(self.grades, key=self.grades.__getitem__)


def _of_table(layout: DataLayout, language: str) -> Collection:
    """Read the queries of a table, whose candidates are lists or single texts."""
    table = layout.tables[TEST]
    source = str(table)
    query_column, *candidate_columns = [layout.file_column(column) for column in _COLUMNS]
    rows = list(rows_of_split(layout, TEST, _COLUMNS))

    # In a format that has lists, text in brackets is a list only if its column holds nothing but lists.
    has_written_lists = []
    for column_cells in zip(*(values[1:] for _, values in rows), strict=True):
        has_written_lists.append(table.format in _WITHOUT_LISTS or _are_lists(column_cells))

    queries: dict[int | str, _Query] = {}
    n_joined_rows = 0
    n_repeated_candidates = 0
    for line, (query_cell, *cells) in rows:
        text = _checked(query_cell, query_column, source, line)
        lists = []
        for cell, written in zip(cells, has_written_lists, strict=True):
            lists.append(is_list(cell) and (written or not isinstance(cell, str)))
        # A row with a list is a query by itself; rows of single texts are joined by their query.
        key = line if any(lists) else text
        if key in queries:
            n_joined_rows += 1
        query = queries.setdefault(key, _Query(text, line))
        for grade, cell, column, has_list in zip(
            (1, 0), cells, candidate_columns, lists, strict=True
        ):
            if has_list:
                candidates = listed(cell, column, source, line)
            else:
                candidates = [] if _is_empty(cell) else [cell]
            for candidate in candidates:
                candidate = _checked(candidate, column, source, line)
                earlier_grade = query.grades.get(candidate)
                if earlier_grade not in (None, grade):
                    problem = f"{shown(candidate)} is a positive and a negative of its query"
                    raise line_error(source, line, problem, "Leave one of the two.")
                if any(lists) and earlier_grade == grade:
                    n_repeated_candidates += 1
                query.grades[candidate] = grade

    n_repeated_queries = len(queries) - len({query.text for query in queries.values()})
    counts = {
        "rows of a query that other rows have too, taken together": n_joined_rows,
        "candidates that stand twice in a row, counted once": n_repeated_candidates,
        "rows with the query of another row, ranked for themselves": n_repeated_queries,
    }
    return _collection(source, list(queries.values()), counts, language)


_WITHOUT_LISTS = ("csv", "tsv", "xlsx")
"""Formats in which lists are written as text."""


def _are_lists(cells: Iterable[Any]) -> bool:
    """Return whether all cells that hold something hold a list, which may be written as text."""
    return all(is_list(cell) for cell in cells if not _is_empty(cell))


def _is_empty(cell: Any) -> bool:
    """Return whether a cell holds nothing: null, NaN or an empty text."""
    return cell is None or cell == "" or (isinstance(cell, float) and cell != cell)


def _collection(
    source: str, queries: Sequence[_Query], counts: Mapping[str, int], language: str
) -> Collection:
    """Return the collection of the queries of a table that have a positive candidate.

    Args:
        source: the file, for messages.
        queries: all queries of the table.
        counts: number of each unusual thing that was found in the rows, by its description.
        language: of BM25.
    """
    scored_queries = [query for query in queries if any(query.grades.values())]
    if not scored_queries:
        raise DataFormatError(f"{source}: no query has a positive candidate.")
    without_negative = [query for query in scored_queries if all(query.grades.values())]
    counts = {
        **counts,
        "queries without a positive candidate, left out": len(queries) - len(scored_queries),
        "queries without a negative candidate, whose scores are 1": len(without_negative),
    }

    # A text is one document for all queries that have it; documents are numbered in the order of the file.
    texts = dict.fromkeys(chain.from_iterable(query.grades for query in scored_queries))
    names = {text: str(number) for number, text in enumerate(texts, 1)}
    queries_by_id: dict[str, str] = {}
    judged: dict[str, dict[str, int]] = {}
    candidates: dict[str, tuple[str, ...]] = {}
    for query in scored_queries:
        query_id = str(query.line)
        queries_by_id[query_id] = query.text
        judged[query_id] = {names[text]: grade for text, grade in query.grades.items()}
        candidates[query_id] = tuple(names[text] for text in query.in_order_of_ties)
    notes = [f"{description}: {n:,}" for description, n in counts.items() if n]
    return Collection(
        documents={name: text for text, name in names.items()},
        queries=queries_by_id,
        judged=judged,
        notes=tuple(notes),
        language=language,
        candidates=candidates,
    )


def _checked(value: Any, column: str, source: str, line: int) -> str:
    """Return a value as it is; raise a ``DataFormatError`` unless it is a text that is not blank."""
    problem = f"the column {column!r} holds an empty text"
    if value is not None and not isinstance(value, str):
        problem = f"the column {column!r} holds a value of type {type(value).__name__}, and no text"
    elif value and not is_text(value):
        problem = f"the column {column!r} holds half of a character (a lone surrogate)"
    elif value and value.strip():
        return str(value)
    raise line_error(source, line, problem)


def _of_collection(layout: DataLayout, collection: Collection) -> Collection:
    """Return the queries of a collection that have candidates, with these documents alone."""
    # Dictionaries without values are sets that keep the order of the file.
    candidates: dict[str, dict[str, None]] = {}
    unknown_documents: dict[str, None] = {}
    unknown_queries: dict[str, None] = {}
    for written_query, written_document in _ranked_documents(layout):
        query = known_id(written_query, collection.queries)
        document = known_id(written_document, collection.documents)
        is_query_itself = query == document and query in collection.documents_too
        if query not in collection.queries:
            unknown_queries[query] = None
        elif document not in collection.documents:
            unknown_documents[document] = None
        elif not is_query_itself:
            candidates.setdefault(query, {})[document] = None
    if not candidates:
        example = shown(next(iter(collection.queries)))
        problem = f"{layout.tables[TOP_RANKED]}: no judged query, such as {example}, has a document of the corpus"
        for noun, unknown_ids in (("query", unknown_queries), ("document", unknown_documents)):
            if unknown_ids:
                problem += f"; the first unknown {noun} is {shown(next(iter(unknown_ids)))}"
        raise DataFormatError(f"{problem}.")

    queries = {query: text for query, text in collection.queries.items() if query in candidates}
    judged = {query: collection.judged[query] for query in queries}
    ranked_names = dict.fromkeys(chain.from_iterable(candidates.values()))
    documents = {name: collection.documents[name] for name in ranked_names}
    notes = _notes_on_candidates(
        judged, candidates, len(collection.queries), list(unknown_documents)
    )
    return replace(
        collection,
        documents=documents,
        queries=queries,
        judged=judged,
        documents_too=collection.documents_too & queries.keys(),
        candidates={query: tuple(in_order_of_ties(candidates[query])) for query in queries},
        notes=(*collection.notes, *notes),
    )


def _notes_on_candidates(
    judged: Mapping[str, Mapping[str, int]],
    candidates: Mapping[str, Mapping[str, None]],
    n_queries: int,
    unknown_documents: Sequence[str],
) -> Iterator[str]:
    """Yield remarks on what candidates lack.

    Args:
        judged: grades of judged documents, by each query with candidates.
        candidates: the candidates of each query.
        n_queries: number of queries before those without candidates were left out.
        unknown_documents: ids of candidates that are not in the corpus.
    """
    n_missing = 0
    n_without_relevant = 0
    for query, grades in judged.items():
        relevant = [name for name, grade in grades.items() if grade > 0]
        missing = [name for name in relevant if name not in candidates[query]]
        n_missing += len(missing)
        if len(missing) == len(relevant):
            n_without_relevant += 1
    counts = {
        "queries without candidates, left out": n_queries - len(judged),
        "relevant documents that are no candidates, which no encoder can find": n_missing,
        "queries without a relevant candidate, whose scores are 0": n_without_relevant,
    }
    for description, n in counts.items():
        if n:
            yield f"{description}: {n:,}"
    if unknown_documents:
        description = "candidates that are not in the corpus, left out"
        yield f"{description}: {len(unknown_documents):,}, the first {shown(unknown_documents[0])}"


def _ranked_documents(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Return query and document of each candidate: of named columns, of a run of TREC, or of two columns."""
    table = layout.tables[TOP_RANKED]
    names = {layout.file_column(column, TOP_RANKED) for column in (*CANDIDATES, *LISTED_CANDIDATES)}
    if table.format not in (PLAIN_TEXT, "tsv", "csv"):
        return _named(layout)
    if table.format != PLAIN_TEXT and names & {*table.columns()}:
        return _named(layout)
    return _unnamed(layout)


_UNNAMED = {2: ("query and document", 1), 6: ("a run of TREC", 2)}
"""Forms of candidates without a header, by their number of columns, with the column of the document."""


def _unnamed(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Yield query and document of each row of a file without a header, by its number of columns."""
    table = layout.tables[TOP_RANKED]
    rows = table.unnamed_rows()
    number, first = next(rows, (0, []))
    if len(first) not in _UNNAMED:
        raise line_error(
            str(table),
            number,
            "not a query and a document, nor the six columns of a run of TREC",
            "With a header the columns are query-id and corpus-ids, a list, or corpus-id, one.",
        )
    form, document_column = _UNNAMED[len(first)]
    layout.notes.append(f"{table.file.name}: without a header, read as {form}")
    for _, fields in chain([(number, first)], rows):
        yield fields[0], fields[document_column]


def _named(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Yield query and document by the names of columns; documents may be in lists."""
    table = layout.tables[TOP_RANKED]
    source = str(table)
    has_lists = layout.file_column(LISTED_CANDIDATES[-1], TOP_RANKED) in table.columns()
    columns = LISTED_CANDIDATES if has_lists else CANDIDATES
    query_column, document_column = (layout.file_column(column, TOP_RANKED) for column in columns)
    for line, (query, cell) in layout.rows(TOP_RANKED, columns):
        documents = listed(cell, document_column, source, line) if is_list(cell) else [cell]
        for document in documents:
            yield (
                id_text(query, query_column, source, line),
                id_text(document, document_column, source, line),
            )
