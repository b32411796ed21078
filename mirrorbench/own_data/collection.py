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
from mirrorbench.own_data.bm25 import LANGUAGES, bm25_order, bm25_rankings, is_unspaced
from mirrorbench.own_data.layouts import (
    DOCUMENTS,
    JUDGEMENTS,
    QRELS,
    TEST,
    USUAL_TEXTS,
    DataLayout,
)
from mirrorbench.own_data.rankings import DEPTH, Ranking

_TITLE = re.compile(r'"title"\s*:')
_FLOAT = re.compile(r"([0-9]+)\.0+")
_GRADE = re.compile(r"\s*(-?[0-9]{1,9})(\.0+)?\s*")


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
    documents_too: frozenset[str] = frozenset()
    """Queries that are documents themselves, under the same id, and are not searched for."""
    candidates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Documents that are ranked for each query, in the order of equal scores; empty where all are."""
    by_pairs: bool = False
    """Whether pairs of a query and a candidate are scored, not vectors of each."""

    @cached_property
    def bm25(self) -> list[Ranking]:
        """Rankings by BM25: of the documents that share a word with each query, or of all its candidates."""
        if self.candidates:
            return bm25_order(self.documents, self.queries, self.candidates, self.language)
        # One more than DEPTH, since the query itself may be among them.
        rankings = bm25_rankings(self.documents, self.queries, self.language, DEPTH + 1)
        return self.without_queries(rankings)

    @property
    def ties(self) -> list[tuple[str, ...]] | None:
        """The candidates of each query in the order of equal scores; ``None`` where all documents are ranked."""
        if not self.candidates:
            return None
        return [self.candidates[query] for query in self.queries]

    def without_queries(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """Return the rankings of the queries without the query itself, of at most ``DEPTH`` documents."""
        cut_rankings: list[Ranking] = []
        for query, ranking in zip(self.queries, rankings, strict=True):
            excluded = query if query in self.documents_too else None
            others = ((name, score) for name, score in ranking.items() if name != excluded)
            cut_rankings.append(dict(islice(others, DEPTH)))
        return cut_rankings


def check_ranking(path: Path, kind: str, language: str) -> None:
    """Raise ``UsageError`` if a library is missing, or has no stemmer and stop words of a language."""
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
    """Read a collection; title and text of a document are joined by a space.

    Raises:
        DataFormatError: an id occurs twice, a query has no text, a grade is not a whole number, two judgements of a
            document contradict each other, or no query has a relevant document.
    """
    queries = _queries(layout)
    documents, documents_too = _documents(layout, queries)
    judgements = _judgements(layout, queries, documents, documents_too)
    qrels = layout.tables[QRELS]

    # Queries without a relevant document have no score.
    judged = {
        query: grades for query, grades in judgements.grades.items() if max(grades.values()) > 0
    }
    if not judged:
        problem = f"{qrels}: no query has a relevant document"
        if judgements.unknown_queries:
            unknown = next(iter(judgements.unknown_queries))
            problem += f"; {shown(unknown)} is judged and not among the queries"
        raise DataFormatError(f"{problem}.")
    scored_queries = {query: queries[query] for query in judged}
    documents_too &= judged.keys()

    notes = [*_notes(documents, judged), *judgements.notes(documents)]
    if documents_too:
        notes.append(
            f"queries that are documents, not searched for themselves: {len(documents_too):,}"
        )
    n_left_out = len(queries) - len(scored_queries)
    if n_left_out:
        notes.append(f"queries without a relevant document, left out: {n_left_out:,}")
    if any(map(is_unspaced, scored_queries.values())):
        notes.append("BM25 reads scripts without spaces by pairs of characters")
    if qrels.name != TEST:
        notes.append(f"judgements of {qrels.file.name}")
    return Collection(
        documents, scored_queries, judged, tuple(notes), language, frozenset(documents_too)
    )


@dataclass
class _Judgements:
    """The grades of documents by query, and what was left out of them."""

    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    unknown_queries: dict[str, None] = field(default_factory=dict)
    n_repeated: int = 0
    n_of_queries: int = 0
    """Judgements of a query as its own document."""
    n_as_floats: int = 0
    """Judgements whose ids are written as floats, 1.0 for 1."""

    def notes(self, documents: Mapping[str, str]) -> Iterator[str]:
        """Yield remarks on what was left out, and on documents that are missing."""
        counts = {
            "judged queries that are not among the queries": len(self.unknown_queries),
            "judgements that stand twice, counted once": self.n_repeated,
            "judgements of a query as its own document, left out": self.n_of_queries,
            "judgements with ids such as 1.0, read as 1": self.n_as_floats,
        }
        yield from _counted(counts)
        judged = dict.fromkeys(chain.from_iterable(self.grades.values()))
        missing = [name for name in judged if name not in documents]
        if missing:
            yield f"judged documents that are not in the corpus: {len(missing):,}, the first {shown(missing[0])}"


def _judgements(
    layout: DataLayout,
    queries: Mapping[str, str],
    documents: Mapping[str, str],
    documents_too: Container[str],
) -> _Judgements:
    """Read the judgements of the queries."""
    source = str(layout.tables[QRELS])
    judgements = _Judgements()
    for line, (written_query, written_document, written_grade) in _rows_of_judgements(layout):
        query = known_id(written_query, queries)
        document = known_id(written_document, documents)
        if query != written_query or document != written_document:
            judgements.n_as_floats += 1
        match = _GRADE.fullmatch(written_grade)
        if match is None:
            problem = f"the score {shown(written_grade)} is no whole number of at most nine digits"
            raise line_error(source, line, problem)
        grade = int(match[1])
        if query not in queries:
            judgements.unknown_queries[query] = None
            continue
        if query == document and query in documents_too:
            judgements.n_of_queries += 1
            continue
        grades = judgements.grades.setdefault(query, {})
        if document not in grades:
            grades[document] = grade
        elif grades[document] == grade:
            judgements.n_repeated += 1
        else:
            pair = f"{shown(document)} for the query {shown(query)}"
            problem = f"the score of {pair} is {grade}, and {grades[document]} before"
            raise line_error(source, line, problem, "Leave one of the two judgements.")
    return judgements


def known_id(identity: str, texts: Mapping[str, str]) -> str:
    """Return an id of a query or document; ``1`` for ``1.0``, a written float, if only ``1`` is among the texts."""
    if identity in texts:
        return identity
    match = _FLOAT.fullmatch(identity)
    if match is not None and match[1] in texts:
        return match[1]
    return identity


def _rows_of_judgements(layout: DataLayout) -> Iterator[tuple[int, Sequence[str]]]:
    """Return line, and query, document and grade of each judgement, by column names or in TREC's order.

    Files without a header are in TREC's order. TREC has a column between query and document that says nothing; some
    files leave it out.
    """
    table = layout.tables[QRELS]
    if table.format not in (PLAIN_TEXT, "tsv", "csv"):
        return _named_judgements(layout)
    rows = table.unnamed_rows()
    number, first = next(rows, (0, [""]))
    if len(first) in (3, 4) and _GRADE.fullmatch(first[-1]):
        form = "TREC's four columns" if len(first) == 4 else "query, document and grade"
        layout.notes.append(f"{table.file.name}: without a header, read as {form}")
        all_rows = chain([(number, first)], rows)
        return ((line, (fields[0], fields[-2], fields[-1])) for line, fields in all_rows)
    if table.format == PLAIN_TEXT:
        raise line_error(
            str(table),
            number,
            "not a query, a document and a whole grade",
            "Without a header these are separated by spaces or tabs, with one by tabs: query-id, corpus-id, score.",
        )
    return _named_judgements(layout)


def _named_judgements(layout: DataLayout) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield line, and query, document and grade of each judgement, by the names of columns."""
    names = [layout.file_column(column, QRELS) for column in JUDGEMENTS]
    source = str(layout.tables[QRELS])
    for line, values in layout.rows(QRELS, JUDGEMENTS):
        named_values = zip(values, names, strict=True)
        yield line, [id_text(value, name, source, line) for value, name in named_values]


def id_text(value: Any, column: str, source: str, line: int) -> str:
    """Return an id or grade as text; a ``DataFormatError`` if it is neither a text nor a number."""
    if isinstance(value, str) or is_label(value):
        return label_text(value)
    raise line_error(source, line, f"the column {column!r} holds neither a text nor a number")


def _notes(documents: Mapping[str, str], judged: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield remarks with the number of each unusual thing among documents."""
    blank = {name for name, text in documents.items() if not text.strip()}
    relevant_blank: set[str] = set()
    for grades in judged.values():
        relevant_blank.update(name for name in blank if grades.get(name, 0) > 0)
    counts = {
        "documents without text": len(blank),
        "relevant documents without text, which no encoder can find": len(relevant_blank),
        "documents with the same text as another": len(documents) - len(set(documents.values())),
    }
    yield from _counted(counts)


def _counted(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a remark with its number for each count above 0."""
    for remark, n in counts.items():
        if n:
            yield f"{remark}: {n:,}"


def _queries(layout: DataLayout) -> dict[str, str]:
    """Return the texts of the queries by id, in file order."""
    source = str(layout.tables["queries"])
    queries: dict[str, str] = {}
    for entry in _entries(layout, "queries"):
        if not entry.text.strip():
            raise line_error(source, entry.line, f"the query {shown(entry.name)} has no text")
        queries[entry.name] = entry.text
    return queries


def _documents(layout: DataLayout, queries: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """Return the texts of the documents by id, in file order, and the ids of queries that are documents.

    A query is the document with its id if its text is the document's, or title and text, but for white space. Ids alone
    may coincide by chance, as where both are numbered.
    """
    documents: dict[str, str] = {}
    documents_too: set[str] = set()
    for _, name, text, title in _entries(layout, "corpus"):
        document = " ".join(filter(None, [title, text]))
        documents[name] = document
        if name in queries and queries[name].split() in (text.split(), document.split()):
            documents_too.add(name)
    return documents, documents_too


class _Entry(NamedTuple):
    """A query or document of a file."""

    line: int
    name: str
    """Its id."""
    text: str
    title: str
    """Empty if the file has none."""


def _entries(layout: DataLayout, part: str) -> Iterator[_Entry]:
    """Yield each query or document."""
    source = str(layout.tables[part])
    columns = [*DOCUMENTS]
    if part == "corpus" and _has_titles(layout):
        columns.append("title")
    names: set[str] = set()
    for line, values in _rows_of_texts(layout, part, columns):
        texts = ["" if value is None else value for value in values]
        # Judgements hold all ids as text.
        if type(texts[0]) is int:
            texts[0] = str(texts[0])
        for column, text in zip(columns, texts, strict=True):
            is_missing_id = column == columns[0] and not text
            if not isinstance(text, str) or is_missing_id:
                raise line_error(source, line, f"the {column} is no text")
        name, text, *titles = texts
        if name in names:
            raise line_error(source, line, f"a second {shown(name)}")
        names.add(name)
        yield _Entry(line, name, text, titles[0] if titles else "")
    if not names:
        raise DataFormatError(f"{source} has no rows.")


def _rows_of_texts(
    layout: DataLayout, part: str, columns: Sequence[str]
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Return line and values of queries or documents.

    TSV of two columns without a header, as MS MARCO's, is read as id and text.
    """
    table = layout.tables[part]
    if table.format == "tsv":
        header = table.columns()
        usual_names = {layout.file_column(column, part) for column in DOCUMENTS}
        for names in USUAL_TEXTS[part].values():
            usual_names.update(names)
        is_header = any(
            name in usual_names or name.strip().lower() in usual_names for name in header
        )
        if len(header) == 2 and not is_header:
            layout.notes.append(f"{table.file.name}: without a header, read as id and text")
            return table.rows(("0", "1"), lambda message: None, named=False)
    return layout.rows(part, columns)


def _has_titles(layout: DataLayout) -> bool:
    """Return whether any document has a title."""
    table = layout.tables["corpus"]
    if table.format != "jsonl":
        return "title" in table.columns()
    for file in table.files:
        # Searching lines for the word is faster than parsing them, and often says that there are no titles.
        has_word = any(_TITLE.search(line) for line in stream_lines(file))
        if has_word and any("title" in row for _, row in json_objects(str(file))):
            return True
    return False
