"""Collections of documents, queries and judgements in BEIR's layout: reading and checking them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from mirrorbench.core.errors import DataFormatError, UsageError, not_installed, unknown_name
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.columns import line_error
from mirrorbench.data.readers.json_rows import json_objects
from mirrorbench.data.readers.rows import PLAIN_TEXT
from mirrorbench.data.readers.text import stream_lines
from mirrorbench.data.readers.values import is_label, label_text
from mirrorbench.own_data.bm25 import LANGUAGES, bm25_candidate_rankings, bm25_rankings, is_unspaced
from mirrorbench.own_data.layouts import (
    COLLECTION_ALIASES,
    DOCUMENTS,
    JUDGEMENTS,
    QRELS,
    TEST,
    DataLayout,
)
from mirrorbench.own_data.rankings import DEPTH, Ranking

_TITLE = re.compile(r'"title"\s*:')
_FLOAT = re.compile(r"([0-9]+)\.0+")
_GRADE = re.compile(r"\s*(-?[0-9]{1,9})(\.0+)?\s*")


@dataclass(frozen=True)
class Collection:
    """Documents and queries by id, and the grades of each query's judged documents.

    All queries have a relevant document; those without one are left out.
    """

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    judged: Mapping[str, Mapping[str, int]]
    """Grades by query and document, in the order of ``queries``; documents with a grade above 0 are relevant."""
    notes: tuple[str, ...]
    """Remarks on documents, queries and judgements that were left out or are unusual."""
    language: str
    """Language of the stop words and the stemmer of BM25."""
    queries_in_corpus: frozenset[str] = frozenset()
    """Queries that are documents too, under the same id; such a document is not ranked for itself."""
    candidates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Documents to rank for each query, in the order that breaks ties; empty if all documents are ranked."""
    scored_as_pairs: bool = False
    """Whether an encoder scores pairs of a query and a candidate, instead of computing a vector of each."""

    @cached_property
    def bm25(self) -> list[Ranking]:
        """Rankings by BM25 for each query: of its candidates or, if there are none, of documents that share a word."""
        if self.candidates:
            return bm25_candidate_rankings(
                self.documents, self.queries, self.candidates, self.language
            )
        # One more than DEPTH, since the query itself may be among them.
        rankings = bm25_rankings(self.documents, self.queries, self.language, DEPTH + 1)
        return self.without_query_itself(rankings)

    @property
    def tie_orders(self) -> list[tuple[str, ...]] | None:
        """For each query its candidates in the order that breaks ties; ``None`` if all documents are ranked."""
        if not self.candidates:
            return None
        return [self.candidates[query] for query in self.queries]

    def without_query_itself(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """Drop each query from its own ranking if it is a document too, and cut rankings after ``DEPTH`` documents."""
        cut_rankings: list[Ranking] = []
        for query, ranking in zip(self.queries, rankings, strict=True):
            excluded = query if query in self.queries_in_corpus else None
            others = ((name, score) for name, score in ranking.items() if name != excluded)
            cut_rankings.append(dict(islice(others, DEPTH)))
        return cut_rankings


def check_ranking_requirements(path: Path, kind: str, language: str) -> None:
    """Raise a ``UsageError`` if a library for ranking is missing, or BM25 does not support a language.

    ``path`` and ``kind`` are those of the data, for the message.
    """
    for module, package in (
        ("pytrec_eval", "pytrec-eval-terrier"),
        ("bm25s", "bm25s"),
        ("Stemmer", "PyStemmer"),
    ):
        if find_spec(module) is None:
            raise not_installed(UsageError, f"{kind} ({path}) needs", package, "evaluate")
    if language not in LANGUAGES:
        raise unknown_name("language of BM25", language, list(LANGUAGES))


def read_collection(layout: DataLayout, language: str) -> Collection:
    """Read the queries that have a relevant document, all documents, and the judgements.

    Title and text of a document are joined by a space. ``language`` is that of BM25.

    Raises:
        DataFormatError: an id occurs twice, a query has no text, a grade is not a whole number, two judgements of a
            document contradict each other, or no query has a relevant document.
    """
    queries = _read_queries(layout)
    documents, queries_in_corpus = _read_documents(layout, queries)
    judgements = _read_judgements(layout, queries, documents, queries_in_corpus)
    qrels = layout.tables[QRELS]

    # Queries without a relevant document have no score.
    judged = {
        query: grades for query, grades in judgements.grades.items() if max(grades.values()) > 0
    }
    if not judged:
        problem = f"{qrels}: no query has a relevant document"
        if judgements.unknown_queries:
            unknown = next(iter(judgements.unknown_queries))
            problem += f"; {shown(unknown)} is judged but not among the queries"
        raise DataFormatError(f"{problem}.")
    scored_queries = {query: queries[query] for query in judged}
    scored_queries_in_corpus = queries_in_corpus & judged.keys()

    notes = [*_notes_on_documents(documents, judged), *judgements.notes(documents)]
    if scored_queries_in_corpus:
        n = len(scored_queries_in_corpus)
        notes.append(f"queries that are documents, not searched for themselves: {n:,}")
    n_left_out = len(queries) - len(scored_queries)
    if n_left_out:
        notes.append(f"queries without a relevant document, left out: {n_left_out:,}")
    if any(map(is_unspaced, scored_queries.values())):
        notes.append("BM25 reads scripts without spaces by pairs of characters")
    # The file is named unless it is ``test``, the usual one.
    if qrels.name != TEST:
        notes.append(f"judgements of {qrels.file.name}")
    return Collection(
        documents,
        scored_queries,
        judged,
        tuple(notes),
        language,
        frozenset(scored_queries_in_corpus),
    )


@dataclass
class _Judgements:
    """The grades of documents by query, and what was left out."""

    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    unknown_queries: dict[str, None] = field(default_factory=dict)
    """Judged ids that are not among the queries, as a set in the order of the file."""
    n_repeated: int = 0
    n_self_judged: int = 0
    """Number of judgements of a query as its own document."""
    n_with_float_ids: int = 0
    """Number of judgements with an id that is written as a float, 1.0 for 1."""

    def notes(self, documents: Mapping[str, str]) -> Iterator[str]:
        """Yield remarks on what was left out, and on judged documents that are missing."""
        counts = {
            "judged queries that are not among the queries": len(self.unknown_queries),
            "repeated judgements, counted once": self.n_repeated,
            "judgements of a query as its own document, left out": self.n_self_judged,
            "judgements with ids such as 1.0, read as 1": self.n_with_float_ids,
        }
        yield from remarks_with_counts(counts)
        judged = dict.fromkeys(chain.from_iterable(self.grades.values()))
        missing = [name for name in judged if name not in documents]
        if missing:
            yield f"judged documents that are not in the corpus: {len(missing):,}, the first {shown(missing[0])}"


def _read_judgements(
    layout: DataLayout,
    queries: Mapping[str, str],
    documents: Mapping[str, str],
    queries_in_corpus: Container[str],
) -> _Judgements:
    """Return the grades of each query's judged documents, and counts of what was unusual.

    Ids that are written as floats (``12.0``) and repeated judgements are accepted and counted. Judgements of unknown
    queries, and of a query as its own document, are left out and counted.

    Raises:
        DataFormatError: a grade is not a whole number, or two judgements of a document contradict each other.
    """
    source = str(layout.tables[QRELS])
    judgements = _Judgements()
    for line, (written_query, written_document, written_grade) in _rows_of_judgements(layout):
        query = matching_id(written_query, queries)
        document = matching_id(written_document, documents)
        if query != written_query or document != written_document:
            judgements.n_with_float_ids += 1
        match = _GRADE.fullmatch(written_grade)
        if match is None:
            problem = (
                f"the score {shown(written_grade)} is not a whole number of at most nine digits"
            )
            raise line_error(source, line, problem)
        # A zero fraction is left out: 2 for 2.0.
        grade = int(match[1])
        if query not in queries:
            judgements.unknown_queries[query] = None
            continue
        if query == document and query in queries_in_corpus:
            judgements.n_self_judged += 1
            continue
        # Documents that are not in the corpus are kept: relevant ones count as not found.
        grades = judgements.grades.setdefault(query, {})
        if document not in grades:
            grades[document] = grade
        elif grades[document] == grade:
            judgements.n_repeated += 1
        else:
            pair = f"{shown(document)} for the query {shown(query)}"
            problem = f"the score of {pair} is {grade}, and {grades[document]} in an earlier line"
            raise line_error(source, line, problem, "Remove one of the two judgements.")
    return judgements


def matching_id(written_id: str, texts: Mapping[str, str]) -> str:
    """Return the id among ``texts`` that is meant: ``1`` by ``1.0``, unless ``1.0`` is an id; unknown ids unchanged."""
    if written_id in texts:
        return written_id
    match = _FLOAT.fullmatch(written_id)
    if match is not None and match[1] in texts:
        return match[1]
    return written_id


def _rows_of_judgements(layout: DataLayout) -> Iterator[tuple[int, Sequence[str]]]:
    """Return the line number and the (query, document, grade) of each judgement, all as texts.

    A file without a header has TREC's four columns, of which the second is ignored, or only the other three; a note in
    the layout says so. In every other file, the header names the columns.

    Raises:
        DataFormatError: a file of plain text does not begin with a judgement.
    """
    table = layout.tables[QRELS]
    # In all other formats, columns have names.
    if table.format not in (PLAIN_TEXT, "tsv", "csv"):
        return _named_judgements(layout)
    rows = table.unnamed_rows()
    number, first = next(rows, (0, []))
    # A first row that ends in a grade is not a header.
    if len(first) in (3, 4) and _GRADE.fullmatch(first[-1]):
        form = "TREC's four columns" if len(first) == 4 else "query, document and grade"
        layout.notes.append(f"{table.file.name}: without a header, read as {form}")
        all_rows = chain([(number, first)], rows)
        return ((line, (fields[0], fields[-2], fields[-1])) for line, fields in all_rows)
    # Plain text must have begun with a judgement. A header is read in TSV and CSV alone.
    if table.format == PLAIN_TEXT:
        raise line_error(
            str(table),
            number,
            "not a query, a document and a whole grade",
            "Separate them by spaces or tabs. With a header (query-id, corpus-id, score), only tabs are read.",
        )
    return _named_judgements(layout)


def _named_judgements(layout: DataLayout) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield line number, and query, document and grade of each judgement, by the names of the columns."""
    names = [layout.file_column(column, QRELS) for column in JUDGEMENTS]
    source = str(layout.tables[QRELS])
    for line, values in layout.rows(QRELS, JUDGEMENTS):
        named_values = zip(values, names, strict=True)
        yield line, [id_text(value, name, source, line) for value, name in named_values]


def id_text(value: Any, column: str, source: str, line: int) -> str:
    """Return an id or grade as text; raise a ``DataFormatError`` if it is neither a text nor a number."""
    if isinstance(value, str) or is_label(value):
        return label_text(value)
    raise line_error(source, line, f"the column {column!r} holds neither a text nor a number")


def _notes_on_documents(
    documents: Mapping[str, str], judged: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """Yield remarks on documents without text, and on those with equal texts."""
    blank = {name for name, text in documents.items() if not text.strip()}
    relevant_blank: set[str] = set()
    for grades in judged.values():
        relevant_blank.update(name for name in blank if grades.get(name, 0) > 0)
    counts = {
        "documents without text": len(blank),
        "relevant documents without text, which no encoder can find": len(relevant_blank),
        "documents with the same text as another": len(documents) - len(set(documents.values())),
    }
    yield from remarks_with_counts(counts)


def remarks_with_counts(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield each remark with its count; those with a count of 0 are left out."""
    for remark, n in counts.items():
        if n:
            yield f"{remark}: {n:,}"


def _read_queries(layout: DataLayout) -> dict[str, str]:
    """Return the texts of the queries by id, in file order; raise a ``DataFormatError`` for an empty text."""
    source = str(layout.tables["queries"])
    queries: dict[str, str] = {}
    for entry in _entries(layout, "queries"):
        if not entry.text.strip():
            raise line_error(source, entry.line, f"the query {shown(entry.id)} has no text")
        queries[entry.id] = entry.text
    return queries


def _read_documents(
    layout: DataLayout, queries: Mapping[str, str]
) -> tuple[dict[str, str], set[str]]:
    """Return the titles and texts of the documents by id, in file order, and the ids of queries that are documents.

    A query is the document with its id if it equals the document's text, with or without the title, apart from white
    space. Equal ids are not enough: queries and documents may both be numbered.
    """
    documents: dict[str, str] = {}
    queries_in_corpus: set[str] = set()
    for _, document_id, text, title in _entries(layout, "corpus"):
        document = " ".join(filter(None, [title, text]))
        documents[document_id] = document
        if document_id in queries:
            query_words = queries[document_id].split()
            if query_words in (text.split(), document.split()):
                queries_in_corpus.add(document_id)
    return documents, queries_in_corpus


class _Entry(NamedTuple):
    """A query or document of a file."""

    line: int
    id: str
    text: str
    title: str
    """Empty if the file has no titles."""


def _entries(layout: DataLayout, part: str) -> Iterator[_Entry]:
    """Yield each query or document, by the part of the layout (``queries`` or ``corpus``).

    Raises:
        DataFormatError: a value is not a text, an id is missing or occurs twice, or there are no rows.
    """
    source = str(layout.tables[part])
    # Queries have the columns of documents, without a title.
    id_column, text_column = DOCUMENTS
    columns = [id_column, text_column]
    if part == "corpus" and _has_titles(layout):
        columns.append("title")
    ids: set[str] = set()
    for line, values in _rows_of_texts(layout, part, columns):
        texts = ["" if value is None else value for value in values]
        # The id comes first. It may be a number; judgements hold all ids as text.
        if type(texts[0]) is int:
            texts[0] = str(texts[0])
        for column, text in zip(columns, texts, strict=True):
            # A text or title may be empty.
            is_missing_id = column == id_column and not text
            if not isinstance(text, str) or is_missing_id:
                raise line_error(source, line, f"the {column} is not a text")
        entry_id, text, *titles = texts
        if entry_id in ids:
            raise line_error(source, line, f"the id {shown(entry_id)} occurs a second time")
        ids.add(entry_id)
        yield _Entry(line, entry_id, text, titles[0] if titles else "")
    if not ids:
        raise DataFormatError(f"{source} has no rows.")


def _rows_of_texts(
    layout: DataLayout, part: str, columns: Sequence[str]
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Return line number and values of each query or document.

    TSV of two columns without a header, as MS MARCO's, is read as id and text.
    """
    table = layout.tables[part]
    if table.format == "tsv":
        # The header or, in a file without one, the first query or document.
        first_row = table.columns()
        column_names = {layout.file_column(column, part) for column in DOCUMENTS}
        for aliases in COLLECTION_ALIASES[part].values():
            column_names.update(aliases)
        is_header = any(
            name in column_names or name.strip().lower() in column_names for name in first_row
        )
        if len(first_row) == 2 and not is_header:
            layout.notes.append(f"{table.file.name}: without a header, read as id and text")
            return table.rows(("0", "1"), lambda message: None, named=False)
    return layout.rows(part, columns)


def _has_titles(layout: DataLayout) -> bool:
    """Return whether the corpus has titles: a column or, in JSON lines, a key of any document."""
    table = layout.tables["corpus"]
    if table.format != "jsonl":
        return "title" in table.columns()
    for file in table.files:
        # Searching lines for the key is faster than parsing them, and often finds that there are no titles.
        may_have_titles = any(_TITLE.search(line) for line in stream_lines(file))
        if may_have_titles and any("title" in row for _, row in json_objects(str(file))):
            return True
    return False
