"""Reading of candidates for reranking: rows of a query with positives and negatives, or a file beside a collection.

A row is a query where a cell is a list. In a table of single texts the rows of one query are taken together.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.columns import line_error
from mirrorbench.data.readers.csv_tables import separator_of
from mirrorbench.data.readers.rows import PLAIN_TEXT
from mirrorbench.data.readers.text import stream_lines
from mirrorbench.data.readers.values import is_label, is_list, label_text
from mirrorbench.own_data.checked_rows import rows_of_split
from mirrorbench.own_data.collection import Collection, known_id, read_collection
from mirrorbench.own_data.layouts import (
    CANDIDATES,
    LISTED_CANDIDATES,
    TABLES,
    TEST,
    TOP_RANKED,
    DataLayout,
)

_COLUMNS = TABLES["reranking"]
_TREC_RUN = 6
"""Columns of a run of TREC: query, Q0, document, rank, score, name of the system."""


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


def _of_table(layout: DataLayout, language: str) -> Collection:
    source = str(layout.tables[TEST])
    rows = [
        (line, _text(query, _name(layout, "query"), source, line), positives, negatives)
        for line, (query, positives, negatives) in rows_of_split(layout, TEST, _COLUMNS)
    ]
    has_lists = any(is_list(cell) for _, _, *cells in rows for cell in cells)
    queries: dict[str, _Query] = {}
    counts: Counter[str] = Counter()
    for line, text, *cells in rows:
        key = str(line) if has_lists else text
        counts["rows of a query that other rows have too, taken together"] += key in queries
        query = queries.setdefault(key, _Query(text, line))
        for column, grade, cell in zip(_COLUMNS[1:], (1, 0), cells, strict=True):
            for candidate in _texts(cell, _name(layout, column), source, line):
                before = query.grades.setdefault(candidate, grade)
                if before != grade:
                    problem = f"{shown(candidate)} is a positive and a negative of its query"
                    raise line_error(source, line, problem, "Leave one of the two.")
    return _collection(source, queries.values(), counts, language)


def _collection(
    source: str, queries: Sequence[_Query] | Any, counts: Counter[str], language: str
) -> Collection:
    """The collection of the queries of a table that have a positive candidate."""
    kept = [query for query in queries if any(query.grades.values())]
    if not kept:
        raise DataFormatError(f"{source}: no query has a positive candidate.")
    counts["queries without a positive candidate, left out"] += len(queries) - len(kept)
    counts["queries without a negative candidate, whose scores are 1"] += sum(
        all(query.grades.values()) for query in kept
    )
    texts = dict.fromkeys(chain.from_iterable(query.grades for query in kept))
    # Ids in their order as numbers: of equal scores the last text comes first, which mostly is a negative.
    names = {text: f"{number:0{len(str(len(texts)))}}" for number, text in enumerate(texts, 1)}
    judged = {
        str(query.line): {names[text]: grade for text, grade in query.grades.items()}
        for query in kept
    }
    return Collection(
        {name: text for text, name in names.items()},
        {str(query.line): query.text for query in kept},
        judged,
        tuple(f"{what}: {n:,}" for what, n in counts.items() if n),
        language,
        candidates={query: tuple(grades) for query, grades in judged.items()},
    )


def _name(layout: DataLayout, column: str) -> str:
    return layout.file_column(column)


def _texts(cell: Any, column: str, source: str, line: int) -> list[str]:
    """The texts of a cell: several in a list, one in a text, none where it is empty."""
    if cell is None or cell != cell or cell == "":
        return []
    if isinstance(cell, str) and is_list(cell):
        try:
            cell = json.loads(cell)
        except ValueError:
            problem = f"the column {column!r} holds a list that is not written as JSON"
            hint = 'In CSV a list is written ["one", "two"]; JSON lines and Parquet have lists of their own.'
            raise line_error(source, line, problem, hint) from None
    cells = cell if isinstance(cell, list | tuple) else [cell]
    return [_text(text, column, source, line) for text in cells]


def _text(value: Any, column: str, source: str, line: int) -> str:
    """A value as it is if it is a text that is not blank."""
    if isinstance(value, str) and value.strip():
        return value
    problem = f"the column {column!r} holds an empty text"
    if value is not None and not isinstance(value, str):
        problem = f"the column {column!r} holds a value of type {type(value).__name__}, and no text"
    raise line_error(source, line, problem)


def _of_collection(layout: DataLayout, collection: Collection) -> Collection:
    """The queries of a collection that have candidates, and these documents."""
    table = layout.tables[TOP_RANKED]
    candidates: dict[str, dict[str, None]] = {}
    unknown: dict[str, None] = {}
    for written_query, written_document in _ranked_documents(layout):
        query = known_id(written_query, collection.queries)
        document = known_id(written_document, collection.documents)
        if query not in collection.queries:
            continue
        if document not in collection.documents:
            unknown[document] = None
        elif not (query == document and query in collection.documents_too):
            candidates.setdefault(query, {})[document] = None
    if not candidates:
        known = next(iter(collection.queries))
        why = f"; the first unknown document is {shown(next(iter(unknown)))}" if unknown else ""
        problem = (
            f"{table}: no judged query, such as {shown(known)}, has a document of the corpus{why}."
        )
        raise DataFormatError(problem)
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
        candidates={query: tuple(candidates[query]) for query in queries},
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
    if table.format not in (PLAIN_TEXT, "tsv", "csv"):
        yield from _named(layout)
        return
    lines = (line.strip() for file in table.files for line in stream_lines(file))
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line)
    number, first = next(numbered, (0, ""))
    has_tabs = "\t" in first
    mark = separator_of(table.file) if table.format == "csv" else "\t" if has_tabs else None
    fields = first.split(mark)
    names = {layout.file_column(column, TOP_RANKED) for column in (*CANDIDATES, *LISTED_CANDIDATES)}
    if table.format != PLAIN_TEXT and names & {*table.columns()}:
        yield from _named(layout)
        return
    width = len(fields)
    if width not in (2, _TREC_RUN):
        raise line_error(
            str(table),
            number,
            "not a query and a document, nor the six columns of a run of TREC",
            "With a header the columns are query-id and corpus-ids, a list, or corpus-id, one.",
        )
    form = "a run of TREC" if width == _TREC_RUN else "query and document"
    layout.notes.append(f"{table.file.name}: without a header, read as {form}")
    for line, text in chain([(number, first)], numbered):
        fields = text.split(mark)
        if len(fields) != width:
            problem = f"{len(fields)} columns, where the first line has {width}"
            raise line_error(str(table), line, problem)
        yield fields[0], fields[2 if width == _TREC_RUN else 1]


def _named(layout: DataLayout) -> Iterator[tuple[str, str]]:
    """Yield query and document by the names of columns; documents may be in lists."""
    table = layout.tables[TOP_RANKED]
    has = table.columns()
    listed = layout.file_column(LISTED_CANDIDATES[-1], TOP_RANKED) in has
    columns = LISTED_CANDIDATES if listed else CANDIDATES
    for line, (query, documents) in layout.rows(TOP_RANKED, columns):
        if isinstance(documents, str) and is_list(documents):
            documents = json.loads(documents)
        for document in documents if isinstance(documents, list | tuple) else [documents]:
            for value, column in zip((query, document), columns, strict=True):
                if not isinstance(value, str) and not is_label(value):
                    name = layout.file_column(column, TOP_RANKED)
                    problem = f"the column {name!r} holds neither a text nor a number"
                    raise line_error(str(table), line, problem)
            yield label_text(query), label_text(document)
