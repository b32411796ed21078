"""Reading of candidates for reranking, from a table of queries with positives and negatives, or beside a collection.

In a table, a row with a list is a query by itself. Rows of single texts are joined if they have the same query.
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
from mirrorbench.own_data.collection import (
    Collection,
    id_text,
    matching_id,
    read_collection,
    remarks_with_counts,
)
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
_FORMATS_WITHOUT_LISTS = ("csv", "tsv", "xlsx")
"""Formats in which lists are written as text."""
_UNNAMED = {2: ("query and document", 1), 6: ("a run of TREC", 2)}
"""Forms of candidates without a header, and the index of the document's column, by the number of columns."""


def read_candidates(layout: DataLayout, language: str) -> Collection:
    """Read the queries of a table or collection with their candidates; ``language`` is that of BM25.

    Raises:
        DataFormatError: a candidate is positive and negative, a text is empty, no query of a table has a positive
            candidate, no query of a collection has candidates, or the errors of ``read_collection``.
    """
    if TOP_RANKED in layout.tables:
        return _with_candidates(layout, read_collection(layout, language))
    return _read_table(layout, language)


@dataclass
class _Query:
    """A query of a table, with the line number of its first row.

    Attributes:
        grades: 1 or 0 of each candidate's text, for positive or negative.
    """

    text: str
    line: int
    grades: dict[str, int] = field(default_factory=dict)

    @property
    def candidates(self) -> list[str]:
        """The candidates in the order that breaks ties: negatives first."""
        return sorted(self.grades, key=self.grades.__getitem__)


def _read_table(layout: DataLayout, language: str) -> Collection:
    """Return the collection of the queries of a table, whose candidates are lists or single texts."""
    table = layout.tables[TEST]
    source = str(table)
    query_column, *candidate_columns = [layout.file_column(column) for column in _COLUMNS]
    rows = list(rows_of_split(layout, TEST, _COLUMNS))
    candidate_cells = [cells for _, (_, *cells) in rows]
    brackets_are_lists = _brackets_are_lists(table.format, candidate_cells)

    # The key of a row with a list, which is a query by itself, is its line number. Other rows are joined by the text of
    # the query, which is their key.
    queries: dict[int | str, _Query] = {}
    n_joined_rows = 0
    n_repeated_candidates = 0
    for line, (query_cell, *cells) in rows:
        query_text = _checked_text(query_cell, query_column, source, line)
        are_lists = []
        for cell, brackets_are_list in zip(cells, brackets_are_lists, strict=True):
            are_lists.append(is_list(cell) and (brackets_are_list or not isinstance(cell, str)))
        key = line if any(are_lists) else query_text
        if key in queries:
            n_joined_rows += 1
        query = queries.setdefault(key, _Query(query_text, line))
        # Positives have grade 1, negatives 0.
        for grade, cell, column, cell_is_list in zip(
            (1, 0), cells, candidate_columns, are_lists, strict=True
        ):
            for text in _candidates_in(cell, cell_is_list, column, source, line):
                earlier_grade = query.grades.get(text)
                if earlier_grade not in (None, grade):
                    problem = f"{shown(text)} is a positive and a negative of its query"
                    raise line_error(source, line, problem, "Leave one of the two.")
                # Rows of single texts repeat a positive for each negative, which is not worth a remark.
                if any(are_lists) and earlier_grade == grade:
                    n_repeated_candidates += 1
                query.grades[text] = grade

    # Each row with a list is a query, even if another row has the same.
    n_repeated_queries = len(queries) - len({query.text for query in queries.values()})
    counts = {
        "rows of a query that other rows have too, taken together": n_joined_rows,
        "candidates repeated within a row, counted once": n_repeated_candidates,
        "rows with the query of another row, ranked separately": n_repeated_queries,
    }
    return _collection_of_table(source, list(queries.values()), counts, language)


def _brackets_are_lists(table_format: str, rows: Sequence[Sequence[Any]]) -> list[bool]:
    """Return, for each column of candidates, whether a text in brackets is a list.

    In a format with lists of its own, it is one only if the whole column holds lists.

    Args:
        table_format: the format of the table.
        rows: the cells of the positives and of the negatives, for each row.
    """
    are_lists = []
    for column_cells in zip(*rows, strict=True):
        are_lists.append(table_format in _FORMATS_WITHOUT_LISTS or _are_lists(column_cells))
    return are_lists


def _candidates_in(
    cell: Any, cell_is_list: bool, column: str, source: str, line: int
) -> Iterator[str]:
    """Yield the candidates in a cell: the texts of a list, or a single text; none in an empty cell.

    Raises:
        DataFormatError: a candidate is blank or not a text.
    """
    candidates: Sequence[Any] = [cell]
    if cell_is_list:
        candidates = listed(cell, column, source, line)
    elif _is_empty(cell):
        candidates = []
    for candidate in candidates:
        yield _checked_text(candidate, column, source, line)


def _are_lists(cells: Iterable[Any]) -> bool:
    """Return whether all cells but the empty ones hold a list, which may be written as text."""
    return all(is_list(cell) for cell in cells if not _is_empty(cell))


def _is_empty(cell: Any) -> bool:
    """Return whether a cell is null, NaN or an empty text."""
    is_nan = isinstance(cell, float) and cell != cell  # only NaN differs from itself
    return cell is None or cell == "" or is_nan


def _collection_of_table(
    source: str, queries: Sequence[_Query], counts: Mapping[str, int], language: str
) -> Collection:
    """Return the collection of the queries of a table that have a positive candidate.

    Args:
        source: the file, for messages.
        queries: all queries of the table.
        counts: what was unusual in the rows, with the number of cases.
        language: the language of BM25.

    Raises:
        DataFormatError: no query has a positive candidate.
    """
    scored_queries = [query for query in queries if any(query.grades.values())]
    if not scored_queries:
        raise DataFormatError(f"{source}: no query has a positive candidate.")
    without_negative = [query for query in scored_queries if all(query.grades.values())]
    all_counts = {
        **counts,
        "queries without a positive candidate, left out": len(queries) - len(scored_queries),
        "queries without a negative candidate, whose scores are 1": len(without_negative),
    }

    # Equal texts are one document. Documents are numbered in the order of the file.
    texts = dict.fromkeys(chain.from_iterable(query.grades for query in scored_queries))
    document_ids = {text: str(number) for number, text in enumerate(texts, 1)}
    queries_by_id: dict[str, str] = {}
    judged: dict[str, dict[str, int]] = {}
    candidates: dict[str, tuple[str, ...]] = {}
    for query in scored_queries:
        query_id = str(query.line)
        queries_by_id[query_id] = query.text
        judged[query_id] = {document_ids[text]: grade for text, grade in query.grades.items()}
        candidates[query_id] = tuple(document_ids[text] for text in query.candidates)
    return Collection(
        documents={document_id: text for text, document_id in document_ids.items()},
        queries=queries_by_id,
        judged=judged,
        notes=tuple(remarks_with_counts(all_counts)),
        language=language,
        candidates=candidates,
    )


def _checked_text(value: Any, column: str, source: str, line: int) -> str:
    """Return a value unchanged; raise a ``DataFormatError`` unless it is a text that is not blank."""
    if value is not None and not isinstance(value, str):
        problem = f"the column {column!r} holds a value of type {type(value).__name__}, and no text"
    elif not value or not value.strip():
        problem = f"the column {column!r} holds an empty text"
    elif not is_text(value):
        problem = f"the column {column!r} holds half of a character (a lone surrogate)"
    else:
        return str(value)
    raise line_error(source, line, problem)


def _with_candidates(layout: DataLayout, collection: Collection) -> Collection:
    """Return a collection with the candidates of each query, which are listed in the table ``TOP_RANKED``.

    Queries without a candidate, and documents that are nobody's candidate, are left out.

    Raises:
        DataFormatError: no query has a candidate that is a document of the collection.
    """
    # Dictionaries with None as every value are sets that keep the order of the file.
    candidates: dict[str, dict[str, None]] = {}
    unknown_documents: dict[str, None] = {}
    unknown_queries: dict[str, None] = {}
    for written_query, written_document in _read_rows_of_candidates(layout):
        query = matching_id(written_query, collection.queries)
        document = matching_id(written_document, collection.documents)
        is_query_itself = query == document and query in collection.queries_in_corpus
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
    candidate_ids = dict.fromkeys(chain.from_iterable(candidates.values()))
    documents = {document: collection.documents[document] for document in candidate_ids}
    notes = _notes_on_candidates(
        judged, candidates, len(collection.queries), list(unknown_documents)
    )
    return replace(
        collection,
        documents=documents,
        queries=queries,
        judged=judged,
        queries_in_corpus=collection.queries_in_corpus & queries.keys(),
        candidates={query: tuple(in_order_of_ties(candidates[query])) for query in queries},
        notes=(*collection.notes, *notes),
    )


def _notes_on_candidates(
    judged: Mapping[str, Mapping[str, int]],
    candidates: Mapping[str, Mapping[str, None]],
    n_queries: int,
    unknown_documents: Sequence[str],
) -> Iterator[str]:
    """Yield remarks on queries without candidates, relevant documents that are not candidates, and unknown candidates.

    Args:
        judged: grades of judged documents, for each query with candidates.
        candidates: the candidates of each query.
        n_queries: number of queries before those without candidates were left out.
        unknown_documents: ids of candidates that are not in the corpus.
    """
    n_missing = 0
    n_without_relevant = 0
    for query, grades in judged.items():
        relevant = [document for document, grade in grades.items() if grade > 0]
        missing = [document for document in relevant if document not in candidates[query]]
        n_missing += len(missing)
        if len(missing) == len(relevant):
            n_without_relevant += 1
    counts = {
        "queries without candidates, left out": n_queries - len(judged),
        "relevant documents that are not candidates, which no encoder can find": n_missing,
        "queries without a relevant candidate, whose scores are 0": n_without_relevant,
    }
    yield from remarks_with_counts(counts)
    if unknown_documents:
        description = "candidates that are not in the corpus, left out"
        yield f"{description}: {len(unknown_documents):,}, the first {shown(unknown_documents[0])}"


def _read_rows_of_candidates(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Return the ids of query and document of each candidate, from named columns or a file without a header."""
    table = layout.tables[TOP_RANKED]
    if table.format == PLAIN_TEXT:
        return _unnamed_candidates(layout)
    names = {layout.file_column(column, TOP_RANKED) for column in (*CANDIDATES, *LISTED_CANDIDATES)}
    if table.format in ("tsv", "csv") and not names & {*table.columns()}:
        return _unnamed_candidates(layout)
    return _named_candidates(layout)


def _unnamed_candidates(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Yield the ids of query and document of each row of a file without a header.

    Raises:
        DataFormatError: the file has neither two nor, as a run of TREC, six columns.
    """
    table = layout.tables[TOP_RANKED]
    rows = table.unnamed_rows()
    number, first = next(rows, (0, []))
    if len(first) not in _UNNAMED:
        raise line_error(
            str(table),
            number,
            "not a query and a document, nor the six columns of a run of TREC",
            "With a header, the columns are query-id and either corpus-ids, a list, or corpus-id.",
        )
    form, document_column = _UNNAMED[len(first)]
    layout.notes.append(f"{table.file.name}: without a header, read as {form}")
    for _, fields in chain([(number, first)], rows):
        yield fields[0], fields[document_column]


def _named_candidates(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Yield the ids of query and document of each candidate, by the names of the columns; documents may be in lists."""
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
