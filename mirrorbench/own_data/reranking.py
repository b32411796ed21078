"""Reading of candidates for reranking: rows of a query with positives and negatives, or a file beside a collection.

A row with a list is a query. Rows of single texts that have the same query are taken together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    table = layout.tables[TEST]
    source, names = str(table), [layout.file_column(column) for column in _COLUMNS]
    rows = list(rows_of_split(layout, TEST, _COLUMNS))
    # In a file that has lists of its own, a text is a text, unless a column holds nothing but written lists.
    is_written = [
        table.format in _WITHOUT_LISTS
        or all(is_list(cell) for cell in cells if not _is_empty(cell))
        for cells in zip(*(values[1:] for _, values in rows), strict=True)
    ]
    queries: dict[str, _Query] = {}
    counts: Counter[str] = Counter()
    for line, (value, *cells) in rows:
        text = _checked(value, names[0], source, line)
        lists = [
            is_list(cell) and (written or not isinstance(cell, str))
            for cell, written in zip(cells, is_written, strict=True)
        ]
        key = f"line {line}" if any(lists) else text
        counts["rows of a query that other rows have too, taken together"] += key in queries
        query = queries.setdefault(key, _Query(text, line))
        for grade, cell, name, has_list in zip((1, 0), cells, names[1:], lists, strict=True):
            found = listed(cell, name, source, line) if has_list else [cell]
            for candidate in [] if _is_empty(cell) else found:
                candidate = _checked(candidate, name, source, line)
                before = query.grades.get(candidate)
                if before not in (None, grade):
                    problem = f"{shown(candidate)} is a positive and a negative of its query"
                    raise line_error(source, line, problem, "Leave one of the two.")
                if any(lists):
                    counts["candidates that stand twice in a row, counted once"] += before == grade
                query.grades[candidate] = grade
    several = len(queries) - len({query.text for query in queries.values()})
    counts["rows with the query of another row, ranked for themselves"] += several
    return _collection(source, list(queries.values()), counts, language)


_WITHOUT_LISTS = ("csv", "tsv", "xlsx")
"""Formats in which lists are written as text."""


def _is_empty(cell: Any) -> bool:
    """Whether a cell holds nothing: null, NaN or an empty text."""
    return cell is None or cell == "" or (isinstance(cell, float) and cell != cell)


def _collection(
    source: str, queries: Sequence[_Query], counts: Counter[str], language: str
) -> Collection:
    """The collection of the queries of a table that have a positive candidate."""
    kept = [query for query in queries if any(query.grades.values())]
    if not kept:
        raise DataFormatError(f"{source}: no query has a positive candidate.")
    counts["queries without a positive candidate, left out"] += len(queries) - len(kept)
    without_negative = [query for query in kept if all(query.grades.values())]
    counts["queries without a negative candidate, whose scores are 1"] += len(without_negative)
    texts = dict.fromkeys(chain.from_iterable(query.grades for query in kept))
    names = {text: str(number) for number, text in enumerate(texts, 1)}
    queries_by_id: dict[str, str] = {}
    judged: dict[str, dict[str, int]] = {}
    candidates: dict[str, tuple[str, ...]] = {}
    for query in kept:
        identity = str(query.line)
        queries_by_id[identity] = query.text
        judged[identity] = {names[text]: grade for text, grade in query.grades.items()}
        candidates[identity] = tuple(names[text] for text in query.in_order_of_ties)
    return Collection(
        documents={name: text for text, name in names.items()},
        queries=queries_by_id,
        judged=judged,
        notes=tuple(f"{what}: {n:,}" for what, n in counts.items() if n),
        language=language,
        candidates=candidates,
    )


def _checked(value: Any, column: str, source: str, line: int) -> str:
    """A value as it is if it is a text that is not blank."""
    problem = f"the column {column!r} holds an empty text"
    if value is not None and not isinstance(value, str):
        problem = f"the column {column!r} holds a value of type {type(value).__name__}, and no text"
    elif value and not is_text(value):
        problem = f"the column {column!r} holds half of a character (a lone surrogate)"
    elif value and value.strip():
        return str(value)
    raise line_error(source, line, problem)


def _of_collection(layout: DataLayout, collection: Collection) -> Collection:
    """The queries of a collection that have candidates, and these documents."""
    table = layout.tables[TOP_RANKED]
    candidates: dict[str, dict[str, None]] = {}
    unknown: dict[str, None] = {}
    unknown_queries: dict[str, None] = {}
    for written_query, written_document in _ranked_documents(layout):
        query = known_id(written_query, collection.queries)
        document = known_id(written_document, collection.documents)
        if query not in collection.queries:
            unknown_queries[query] = None
        elif document not in collection.documents:
            unknown[document] = None
        elif not (query == document and query in collection.documents_too):
            candidates.setdefault(query, {})[document] = None
    if not candidates:
        known = next(iter(collection.queries))
        problem = f"{table}: no judged query, such as {shown(known)}, has a document of the corpus"
        for what, found in (("query", unknown_queries), ("document", unknown)):
            if found:
                problem += f"; the first unknown {what} is {shown(next(iter(found)))}"
        raise DataFormatError(f"{problem}.")
    queries = {query: text for query, text in collection.queries.items() if query in candidates}
    judged = {query: collection.judged[query] for query in queries}
    names = dict.fromkeys(chain.from_iterable(candidates.values()))
    notes = _notes_on_candidates(judged, candidates, len(collection.queries), list(unknown))
    return replace(
        collection,
        documents={name: collection.documents[name] for name in names},
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
    unknown: Sequence[str],
) -> Iterator[str]:
    """Yield remarks on what candidates lack."""
    relevant = {
        query: [name for name, grade in grades.items() if grade > 0]
        for query, grades in judged.items()
    }
    lost = {
        query: sum(name not in candidates[query] for name in names)
        for query, names in relevant.items()
    }
    counts = {
        "queries without candidates, left out": n_queries - len(judged),
        "relevant documents that are no candidates, which no encoder can find": sum(lost.values()),
        "queries without a relevant candidate, whose scores are 0": sum(
            lost[query] == len(names) for query, names in relevant.items()
        ),
    }
    yield from (f"{what}: {n:,}" for what, n in counts.items() if n)
    if unknown:
        what = "candidates that are not in the corpus, left out"
        yield f"{what}: {len(unknown):,}, the first {shown(unknown[0])}"


def _ranked_documents(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Yield query and document of each candidate: of named columns, of a run of TREC, or of two columns."""
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
    """Yield query and document by the number of columns."""
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
    form, column = _UNNAMED[len(first)]
    layout.notes.append(f"{table.file.name}: without a header, read as {form}")
    for _, fields in chain([(number, first)], rows):
        yield fields[0], fields[column]


def _named(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Yield query and document by the names of columns; documents may be in lists."""
    table = layout.tables[TOP_RANKED]
    source = str(table)
    has_lists = layout.file_column(LISTED_CANDIDATES[-1], TOP_RANKED) in table.columns()
    columns = LISTED_CANDIDATES if has_lists else CANDIDATES
    query_name, document_name = (layout.file_column(column, TOP_RANKED) for column in columns)
    for line, (query, cell) in layout.rows(TOP_RANKED, columns):
        documents = listed(cell, document_name, source, line) if is_list(cell) else [cell]
        for document in documents:
            yield (
                id_text(query, query_name, source, line),
                id_text(document, document_name, source, line),
            )
