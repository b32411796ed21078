"""Broken data of each kind and format: refused with file and line, or scored as a careful reader would score them.

Each mutation says which of the two is right, and gives the rows that a careful reader finds in the file; their score is
computed anew, with scipy and scikit-learn.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reader import Shell
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, ndcg_score
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.preprocessing import normalize
from toys import vectors_of

from mirrorbench.core.errors import MirrorbenchError, PluginError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins
from mirrorbench.tasks.base import score_task

Row = dict[str, Any]
DRAWN = 300
FORMATS = ("csv", "tsv", "jsonl", "jsonl.gz", "parquet")
LINES = ("csv", "tsv", "jsonl")
TEXTS = ("sentence1", "sentence2", "anchor", "positive", "negative", "text", "name", "mention", "title")


def vector(text: str) -> np.ndarray:
    """A vector that depends on the text alone."""
    return np.random.default_rng(list(text.encode())).normal(size=8).astype(np.float32)


def cosines(one: Sequence[str], other: Sequence[str]) -> np.ndarray:
    return cosine_similarity(np.stack([vector(t) for t in one]), np.stack([vector(t) for t in other]))


def valid() -> dict[str, dict[str, list[Row]]]:
    """Rows of the tables of each kind; all texts are distinct, and the second of each column is not ASCII."""

    def texts(column: str, n: int) -> list[str]:
        return [f"{column} {i}{' café' * (i == 1)}" for i in range(n)]

    def rows(**columns: list[Any]) -> list[Row]:
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    sides, labels = {"sentence1": texts("one", 12), "sentence2": texts("other", 12)}, ["x", "y", "y"] * 8
    classified = rows(text=texts("text", 24), label=labels)
    graded = [("q0", "d1", "2"), ("q0", "d7", "1"), ("q1", "d3", "1"), ("q2", "d9", "0"), ("q2", "d5", "3")]
    return {
        "similarity": {"table": rows(**sides, score=[i * 5 % 12 / 2 for i in range(12)])},
        "pairs": {"table": rows(**sides, label=[int(i % 3 == 0) for i in range(12)])},
        "triplets": {"table": rows(**{c: texts(c, 12) for c in ("anchor", "positive", "negative")})},
        "folds": {"table": classified},
        "split": {"table": [{**row, "split": "test" if i % 4 else "train"} for i, row in enumerate(classified)]},
        "folder": {"train": classified[:8], "test": classified[8:]},
        "linking": {
            "names": rows(name=texts("name", 10), id=[f"c{i % 5}" for i in range(10)]),
            "mentions": rows(mention=texts("mention", 10), id=[f"c{i % 5}" for i in range(10)]),
        },
        "retrieval": {
            "corpus": rows(_id=[f"d{i}" for i in range(15)], title=texts("title", 15), text=texts("body", 15)),
            "queries": rows(_id=["q0", "q1", "q2"], text=texts("query", 3)),
            "qrels": [dict(zip(("query-id", "corpus-id", "score"), row, strict=True)) for row in graded],
        },
    }


KINDS = tuple(valid())


def score(kind: str, data: Mapping[str, list[Row]]) -> float:
    """The main score of rows, computed apart from mirrorbench."""
    of = {part: {c: [row.get(c) for row in rows] for c in rows[0]} for part, rows in data.items()}
    table = of.get("table", {})
    if kind in ("similarity", "pairs"):
        values = np.diag(cosines(table["sentence1"], table["sentence2"]))
        if kind == "pairs":
            return float(average_precision_score(table["label"], values))
        return float(spearmanr(values, table["score"]).statistic)
    if kind == "triplets":
        near, far = (np.diag(cosines(table["anchor"], table[column])) for column in ("positive", "negative"))
        return float(np.mean(near > far))
    if kind == "linking":
        best = cosines(of["mentions"]["mention"], of["names"]["name"]).argmax(axis=1)
        return float(np.mean(np.array(of["names"]["id"])[best] == of["mentions"]["id"]))
    if kind == "retrieval":
        return retrieved(of["corpus"], of["queries"], data["qrels"])
    if kind == "folder":
        table = {c: [*of["train"][c], *of["test"][c]] for c in ("text", "label")}
        table["split"] = ["train"] * len(data["train"]) + ["test"] * len(data["test"])
    return classified(table)


def classified(table: Mapping[str, list[Any]]) -> float:
    array, labels = np.stack([vector(text) for text in table["text"]]), np.array(table["label"])
    array = normalize(array)
    if splits := table.get("split"):
        train, test = ([n for n, split in enumerate(splits) if split == one] for one in ("train", "test"))
        parts = [(train, test)]
    else:
        groups = [table["text"].index(text) for text in table["text"]]
        parts = list(StratifiedGroupKFold(5, shuffle=True, random_state=0).split(array, labels, groups))
    hits = [LogisticRegression(max_iter=1000).fit(array[a], labels[a]).predict(array[b]) == labels[b] for a, b in parts]
    return float(np.concatenate(hits).mean())


def retrieved(corpus: Mapping[str, list[str]], queries: Mapping[str, list[str]], judged: list[Row]) -> float:
    titles = corpus.get("title", [""] * len(corpus["_id"]))
    documents = [" ".join(filter(None, both)) for both in zip(titles, corpus["text"], strict=True)]
    values = []
    for row, query in zip(cosines(queries["text"], documents), queries["_id"], strict=True):
        grades = {one["corpus-id"]: max(int(one["score"]), 0) for one in judged if one["query-id"] == query}
        gold = [grades.get(name, 0) for name in corpus["_id"]]
        values += [ndcg_score([gold], [row], k=10)] if any(gold) else []
    return float(np.mean(values))


def written(rows: Sequence[Row], kind: str) -> bytes:
    """The bytes of a table."""
    if kind == "parquet":
        columns, sink = {column: [row.get(column) for row in rows] for column in rows[0]}, io.BytesIO()
        for column, values in columns.items():  # of one type, as Parquet has them
            if len({type(value) for value in values if value is not None}) > 1:
                columns[column] = [None if value is None else str(value) for value in values]
        pq.write_table(pa.table(columns), sink)
        return sink.getvalue()
    if kind.startswith("jsonl"):
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        return gzip.compress(content, mtime=0) if kind.endswith("gz") else content
    text = io.StringIO()
    marks: Any = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None} if kind == "tsv" else {}
    sink = csv.DictWriter(text, list(rows[0]), lineterminator="\n", **marks)
    sink.writeheader()
    sink.writerows(rows)
    return text.getvalue().encode()


@dataclass
class Case:
    """Data of a kind in a format, one part of which is broken: what is written, and what is read.

    ``files`` are written in the place of the rows; ``line`` is the one that the error must name; ``names`` is what it
    must name where that is not the file (``ties`` where the score is one of chance).
    """

    kind: str
    format: str
    part: str
    rng: random.Random
    data: dict[str, list[Row]] = field(init=False)
    read: dict[str, list[Row]] = field(init=False)
    files: dict[str, bytes | None] = field(default_factory=dict)
    options: str = ""
    line: int = 0
    names: str = ""

    def __post_init__(self) -> None:
        self.data = valid()[self.kind]
        self.read = deepcopy(self.data)

    @property
    def rows(self) -> list[Row]:
        return self.data[self.part]

    def ending(self, part: str) -> str:
        return "tsv" if part == "qrels" else self.format

    def file(self, part: str = "") -> str:
        part = part or self.part
        name = {"table": "data", "names": "dictionary", "qrels": "qrels/test"}.get(part, part)
        return f"{name}.{self.ending(part)}"

    @property
    def bytes(self) -> bytes:
        return written(self.rows, self.ending(self.part))

    @bytes.setter
    def bytes(self, content: bytes) -> None:
        self.files[self.file()] = content

    def at(self, row: int) -> int:
        """Say that the error is in a row; its number."""
        self.line = row + 1 + (self.ending(self.part) in ("csv", "tsv"))
        return row

    def some(self) -> int:
        """A row that is broken."""
        return self.at(self.rng.randrange(len(self.rows)))

    def texts(self) -> list[str]:
        return [column for column in self.rows[0] if column in TEXTS]

    def put(self, column: str, value: Any, row: int | None = None, read: Any = None) -> None:
        """Put a value into a column; a careful reader finds ``read``."""
        row = self.some() if row is None else row
        self.rows[row][column] = value
        self.read[self.part][row][column] = value if read is None else read

    def add(self, row: Row, read: bool = True) -> None:
        """Add a row, and say that it is broken."""
        self.rows.append(row)
        self.at(len(self.rows) - 1)
        if read:
            self.read[self.part].append(dict(row))

    def write(self, folder: Path) -> str:
        """Write the files; the name of the task."""
        kept = {self.file(part): rows for part, rows in self.data.items()}
        contents: dict[str, bytes | None] = {
            self.file(part): None if self.file(part) in self.files else written(self.data[part], self.ending(part))
            for part in self.data
        } | self.files
        folder.mkdir(parents=True)
        for name, content in contents.items():
            if content is not None:
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(content)
        return str(folder if len(kept) > 1 else folder / next(iter(kept))) + self.options


Fits = Callable[[str, str, str], bool]


@dataclass(frozen=True)
class Mutation:
    """What is done to a case, and what is right: ``refused``, ``same`` (the score of what is read) or ``noted``.

    ``says`` is what the error or the note says, as a regular expression.
    """

    name: str
    right: str
    says: str
    apply: Callable[[Case], None]
    cases: tuple[tuple[str, str, str], ...]


MUTATIONS: list[Mutation] = []


def mutation(
    right: str,
    says: str = "",
    kinds: Sequence[str] = KINDS,
    parts: Sequence[str] = (),
    formats: Sequence[str] = FORMATS,
) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Register a mutation of kinds, of parts (by default all) and of formats; the judgements are always TSV."""

    def register(apply: Callable[[Case], None]) -> Callable[[Case], None]:
        cases = tuple(
            (kind, ending, part)
            for kind in kinds
            for part in valid()[kind]
            if not parts or part in parts
            for ending in FORMATS
            if ("tsv" if part == "qrels" else ending) in formats
        )
        assert cases, apply.__name__
        MUTATIONS.append(Mutation(apply.__name__, right, says, apply, cases))
        return apply

    return register


def of_values(right: str, says: str, column: str, values: Sequence[Any], **where: Any) -> None:
    """Register a mutation for each value that one column of one row may get."""
    for value in values:

        def apply(case: Case, value: Any = value) -> None:
            case.put(column, value)

        apply.__name__ = f"{'-'.join(where['kinds'])}_{column}_{value!r}"
        mutation(right, says, **where)(apply)


TABLES = ("table", "train", "test", "names", "mentions")
JSON = ("jsonl", "jsonl.gz")
ANSWERS = {"kinds": ("folds", "split", "folder", "linking"), "parts": TABLES}


def answer(case: Case) -> str:
    return "label" if "label" in case.rows[0] else "id"


# Values.
@mutation("refused", "is empty", parts=TABLES)
def text_empty(case: Case) -> None:
    case.put(case.rng.choice(case.texts()) if case.texts() else "text", "")


@mutation("refused", "is empty", parts=TABLES)
def text_white(case: Case) -> None:
    case.put(case.rng.choice(case.texts()), "  \u00a0 ")


@mutation("refused", "is empty", parts=TABLES, formats=(*JSON, "parquet"))
def text_null(case: Case) -> None:
    case.put(case.rng.choice(case.texts()), None)


@mutation("refused", "not a text|is no text", parts=(*TABLES, "corpus", "queries"), formats=JSON)
def text_number_or_list(case: Case) -> None:
    case.put(case.rng.choice(case.texts()), case.rng.choice([7, 1.5, True, ["a"], {"a": 1}]))


@mutation("refused", "not a text|is no text", parts=(*TABLES, "corpus", "queries"), formats=("parquet",))
def column_of_numbers_or_bytes(case: Case) -> None:
    column, value = case.rng.choice(case.texts()), case.rng.choice([7, 1.5, [1], b"a"])
    for row in case.rows:
        row[column] = value
    case.at(0)


@mutation("refused", "is empty", **ANSWERS)
def answer_empty(case: Case) -> None:
    case.put(answer(case), case.rng.choice(["", " "]))


@mutation("refused", "is empty|not a text", **ANSWERS, formats=JSON)
def answer_null_or_list(case: Case) -> None:
    case.put(answer(case), case.rng.choice([None, float("nan"), ["x"], {}]))


@mutation("refused", "is empty", **ANSWERS, formats=("parquet",))
def answer_not_a_number(case: Case) -> None:
    for row in case.rows:
        row[answer(case)] = 1.0
    case.put(answer(case), float("nan"))


@mutation("same", **ANSWERS)
def answer_in_spaces(case: Case) -> None:
    row = case.some()
    case.put(answer(case), f" {case.rows[row][answer(case)]} ", row, case.rows[row][answer(case)])


of_values("refused", "the score '.*' is not a number", "score",
          ["high", "nan", "inf", "-Infinity", "1,5", "1e999", "1_0", "١", "0x1"], kinds=("similarity",))  # fmt: skip
of_values("refused", "the column 'score' is empty", "score", ["", "  "], kinds=("similarity",))
of_values("refused", "the column 'score' is empty", "score", [None], kinds=("similarity",), formats=FORMATS)
of_values("refused", "not a text", "score", [[1]], kinds=("similarity",), formats=JSON)
of_values("refused", "is not a number", "score", [True, float("inf")], kinds=("similarity",), formats=JSON)
of_values("same", "", "score", [1e100, -1e100, -1], kinds=("similarity",))
of_values("refused", "is not 1 or 0", "label", ["2", "yes", "0.5", "-1", "1e400"], kinds=("pairs",))
of_values("refused", "is empty", "label", ["", " ", None], kinds=("pairs",))
GRADE = "is no whole number of at most nine digits"
of_values("refused", GRADE, "score", ["1.5", "nan", "", "high", "9" * 20, "1,0", "--1", "²"],
          kinds=("retrieval",), parts=("qrels",))  # fmt: skip
of_values("same", "", "score", ["1", "1000", " 2"], kinds=("retrieval",), parts=("qrels",))


@mutation("same", kinds=("similarity",))
def score_in_spaces(case: Case) -> None:
    row = case.some()
    case.put("score", f" {case.rows[row]['score']} ", row, case.rows[row]["score"])


@mutation("same", kinds=("pairs",), formats=("csv", "tsv", *JSON))
def label_written_otherwise(case: Case) -> None:
    row = case.some()
    words = {0: ["0.0", "False", " 0", False], 1: ["1.0", "TRUE", "1 ", True]}[case.rows[row]["label"]]
    case.put("label", case.rng.choice(words), row, case.rows[row]["label"])


@mutation("refused", "different texts", ("folds",))
def label_of_one_text(case: Case) -> None:
    case.put("label", "another")
    case.line = 0


@mutation("noted", "texts with a label that is not trained on, which are errors: 1", ("folder",), ("test",))
def label_that_is_not_trained_on(case: Case) -> None:
    case.put("label", "another")


@mutation("refused", "all (label|score)s (that are trained on )?are equal", ("similarity", "pairs", "folds", "folder"),
          ("table", "train"))  # fmt: skip
def all_equal(case: Case) -> None:
    for row in case.rows:
        row.update(dict.fromkeys({"label", "score"} & row.keys(), 1))


@mutation("refused", "all (label|score)s (that are trained on )?are equal", ("similarity", "pairs", "folds", "folder"),
          ("table", "train"))  # fmt: skip
def one_row_alone(case: Case) -> None:
    del case.rows[1:]


@mutation("refused", "no query has a relevant document", ("retrieval",), ("qrels",))
def no_grade_above_zero(case: Case) -> None:
    for row in case.rows:
        row["score"] = case.rng.choice(["0", "-1"])


@mutation("same", "", ("retrieval",), ("qrels",))
def grade_below_zero(case: Case) -> None:
    case.put("score", "-1", 3)


# Rows and ids.
@mutation("same", "", ("similarity", "pairs", "triplets", "folds", "linking"), ("table", "mentions"))
def row_twice(case: Case) -> None:
    case.add(dict(case.rng.choice(case.rows)))


@mutation("same", "", ("linking",), ("names",))
def name_twice(case: Case) -> None:
    case.add(dict(case.rng.choice(case.rows)), read=False)


@mutation("refused", "a second", ("retrieval",))
def row_twice_in_a_collection(case: Case) -> None:
    case.add(dict(case.rng.choice(case.rows)))


@mutation("refused", "a second '.*'", ("retrieval",), ("corpus", "queries"))
def id_twice(case: Case) -> None:
    case.put("_id", case.rows[0]["_id"], case.at(case.rng.randrange(1, len(case.rows))))


@mutation("refused", "the _id is no text", ("retrieval",), ("corpus", "queries"))
def id_empty(case: Case) -> None:
    case.put("_id", "" if case.format in LINES[:2] else case.rng.choice(["", None]))


@mutation("refused", "the _id is no text", ("retrieval",), ("corpus", "queries"), JSON)
def id_a_fraction(case: Case) -> None:
    case.put("_id", 5.5)


@mutation("refused", "line .*: the query 'q1' has no text", ("retrieval",), ("queries",))
def query_without_text(case: Case) -> None:
    case.put("text", case.rng.choice(["", "  "]), 1)


@mutation("same", "", ("retrieval",), ("corpus",))
def document_without_body(case: Case) -> None:
    case.put("text", None if case.format in (*JSON, "parquet") else "", case.some(), "")


@mutation("noted", "documents without text: 1", ("retrieval",), ("corpus",))
def document_without_text(case: Case) -> None:
    row = case.some()
    for column in ("title", "text"):
        case.put(column, "", row)


@mutation("noted", "documents without text: 15", ("retrieval",), ("corpus",))
def no_document_has_text(case: Case) -> None:
    for rows in (case.rows, case.read["corpus"]):
        for row in rows:
            row.update(title="", text="")
    case.names = "ties"


@mutation("same", "", ("retrieval",), ("corpus",))
def documents_without_titles(case: Case) -> None:
    for row in (*case.rows, *case.read["corpus"]):
        del row["title"]


@mutation("refused", "has no column 'title'", ("retrieval",), ("corpus",), JSON)
def document_without_title(case: Case) -> None:
    del case.rows[case.at(case.rng.choice([0, 0, 4]))]["title"]


@mutation("noted", "judged queries that are not among the queries: 1", ("retrieval",), ("qrels",))
def query_unknown(case: Case) -> None:
    case.add({"query-id": "gone", "corpus-id": "d1", "score": "1"}, read=False)


@mutation("refused", "1 relevant documents are not in the corpus, the first is 'gone'", ("retrieval",), ("qrels",))
def document_unknown(case: Case) -> None:
    case.add({"query-id": "q1", "corpus-id": "gone", "score": "1"})


@mutation("same", "", ("retrieval",), ("qrels",))
def document_unknown_and_not_relevant(case: Case) -> None:
    case.add({"query-id": "q1", "corpus-id": "gone", "score": "0"})


@mutation("refused", "a second judgement of d1 for the query q0", ("retrieval",), ("qrels",))
def judgement_twice(case: Case) -> None:
    case.add({"query-id": "q0", "corpus-id": "d1", "score": case.rng.choice("012")})


@mutation("noted", "queries without a relevant document, left out: 1", ("retrieval",), ("queries",))
def query_without_judgement(case: Case) -> None:
    case.add({"_id": "q9", "text": "another"})


@mutation("noted", "mentions with an id that is not in the dictionary", ("linking",), ("mentions",))
def mention_of_an_unknown_id(case: Case) -> None:
    case.put("id", "gone")


@mutation("noted", "texts trained on too: 1", ("folder",), ("test",))
def text_of_train_in_test(case: Case) -> None:
    case.add(dict(case.rng.choice(case.data["train"])))


@mutation(
    "refused", "a second time|is no whole number|the split 'split'", parts=(*TABLES, "qrels"), formats=("csv", "tsv")
)
def header_among_the_rows(case: Case) -> None:
    case.add({column: column for column in case.rows[0]})


# The split.
@mutation("refused", "the split .* is none of train, test", ("split",))
def split_unknown(case: Case) -> None:
    case.put("split", case.rng.choice(["Test", "", "tset", "2"]))


@mutation("refused", "has no rows of the split (test|train)", ("split",))
def split_without_rows(case: Case) -> None:
    only = case.rng.choice(["train", "test", "dev"])
    for row in case.rows:
        row["split"] = only


@mutation("same", "", ("split",))
def split_for_development(case: Case) -> None:
    case.add({"text": "another", "label": "z", "split": "dev"}, read=False)


@mutation("same", "", ("split",))
def split_of_another_name(case: Case) -> None:
    for row in case.rows:
        row["part"] = row.pop("split")
    case.options = ":split=part"


@mutation("refused", "has no column 'part'", ("split", "folds"))
def split_of_another_name_that_is_not_there(case: Case) -> None:
    case.options = ":split=part"


# Columns.
@mutation("refused", "column|title|no table")
def column_missing(case: Case) -> None:
    column = case.rng.choice([c for c in case.rows[0] if c not in ("title", "split")])
    for row in case.rows:
        del row[column]


@mutation("refused", "column|title|no table")
def column_renamed(case: Case) -> None:
    column = case.rng.choice([c for c in case.rows[0] if c not in ("title", "split")])
    name = case.rng.choice([column.upper(), f" {column}", f"{column}s"])
    for row in case.rows:
        row[name] = row.pop(column)


@mutation("same", parts=("table", "names"))
def column_renamed_and_named(case: Case) -> None:
    column = case.texts()[0]
    for row in case.rows:
        row["mine"] = row.pop(column)
    case.options = f":{column}=mine"


@mutation("refused", "several columns", formats=("csv", "tsv"))
def column_twice(case: Case) -> None:
    column, mark = case.rng.choice(list(case.rows[0])), b"\t" if case.ending(case.part) == "tsv" else b","
    lines = case.bytes.splitlines()
    case.bytes = b"\n".join([lines[0] + mark + column.encode(), *(line + mark + b"1" for line in lines[1:])])


@mutation("refused", "a key stands twice", parts=TABLES, formats=("jsonl",))
def key_twice(case: Case) -> None:
    lines = case.bytes.splitlines(keepends=True)
    line = case.rng.randrange(len(lines))
    case.at(line)
    lines[line] = lines[line].replace(b"}", b', "%s": "a"}' % next(iter(case.rows[0])).encode(), 1)
    case.bytes = b"".join(lines)


@mutation("same")
def column_more(case: Case) -> None:
    for row in case.rows:
        row["remark"] = "a"


@mutation("same")
def columns_in_another_order(case: Case) -> None:
    case.rows[:] = [dict(reversed(row.items())) for row in case.rows]


@mutation("refused", "has the columns of similarity and of pairs", ("similarity", "pairs"))
def column_of_another_kind(case: Case) -> None:
    for row in case.rows:
        row.setdefault("score", 1)
        row.setdefault("label", 1)


@mutation("refused", "columns|a dictionary and mentions|no corpus", parts=("table",))
def kind_that_it_is_not(case: Case) -> None:
    own = case.kind if case.kind in ("similarity", "pairs", "triplets") else "classification"
    kinds = ["retrieval", "similarity", "pairs", "triplets", "classification", "linking"]
    case.options = f":kind={case.rng.choice([kind for kind in kinds if kind != own])}"


# Bytes.
@mutation("same", formats=LINES)
def byte_order_mark(case: Case) -> None:
    case.bytes = b"\xef\xbb\xbf" + case.bytes


@mutation("same", formats=LINES)
def carriage_returns(case: Case) -> None:
    case.bytes = case.bytes.replace(b"\n", b"\r\n")


@mutation("same", formats=LINES)
def blank_lines(case: Case) -> None:
    case.bytes = b"\n" * case.rng.randrange(2) + case.bytes.replace(b"\n", b"\n\n")


@mutation("same", formats=LINES)
def no_line_end(case: Case) -> None:
    case.bytes = case.bytes.rstrip()


@mutation("refused", "", formats=("csv", "tsv"))
def carriage_returns_alone(case: Case) -> None:
    case.bytes = case.bytes.replace(b"\n", b"\r")


@mutation("refused", "UTF-16|NUL", formats=LINES)
def utf_16(case: Case) -> None:
    case.bytes = case.bytes.decode().encode(case.rng.choice(["utf-16", "utf-16-le"]))


@mutation("refused", "byte 0xe9 is not valid UTF-8", parts=(*TABLES, "corpus", "queries"), formats=LINES)
def latin_1(case: Case) -> None:
    case.rows[case.at(0)][case.texts()[0]] += " é"
    case.bytes = case.bytes.decode().encode("latin-1")


@mutation("refused", "a NUL byte", formats=LINES)
def nul(case: Case) -> None:
    lines = case.bytes.splitlines(keepends=True)
    number = case.rng.randrange(len(lines))
    lines[number], case.line = b"\0" + lines[number], number + 1
    case.bytes = b"".join(lines)


@mutation("refused", "columns, where the first line has|there is no column", formats=("csv", "tsv"))
def row_ragged(case: Case) -> None:
    lines, mark = case.bytes.splitlines(), b"\t" if case.ending(case.part) == "tsv" else b","
    row = case.some() + 1
    lines[row] = lines[row] + mark + b"more" if case.rng.random() < 0.5 else lines[row].rpartition(mark)[0]
    case.bytes = b"\n".join(lines)


@mutation("refused", "no column|columns, where", formats=("csv", "tsv"))
def last_line_cut(case: Case) -> None:
    mark = b"\t" if case.ending(case.part) == "tsv" else b","
    case.at(len(case.rows) - 1)
    case.bytes = case.bytes.rpartition(mark)[0]


@mutation("refused", "unexpected end of data|expected after|columns|no table", formats=("csv",))
def quote_open(case: Case) -> None:
    lines = case.bytes.splitlines(keepends=True)
    number = case.rng.randrange(len(lines))
    lines[number] = b'"' + lines[number]
    case.line = len(lines) if number else 0
    case.bytes = b"".join(lines)


@mutation("same", parts=TABLES, formats=("tsv",))
def quote_in_tabs(case: Case) -> None:
    column = case.texts()[0]
    row = case.some()
    case.put(column, f'"{case.rows[row][column]}', row)


@mutation("refused", "gzip stream is damaged", formats=("jsonl.gz",))
def gzip_cut(case: Case) -> None:
    case.bytes = case.bytes[: case.rng.randrange(20, len(case.bytes) - 1)]


@mutation("refused", "cannot be read as Parquet", formats=("parquet",))
def parquet_cut(case: Case) -> None:
    case.bytes = case.bytes[: case.rng.randrange(len(case.bytes))]


@mutation("refused", "cannot be read as Parquet", formats=("parquet",))
def parquet_of_csv(case: Case) -> None:
    case.bytes = written(case.rows, "csv")


@mutation("refused", "not JSON", formats=("jsonl",))
def json_cut(case: Case) -> None:
    case.at(len(case.rows) - 1)
    case.bytes = case.bytes[: -case.rng.randrange(2, 20)]


@mutation("refused", "half of a surrogate pair", formats=("jsonl",))
def json_half_a_character(case: Case) -> None:
    line = case.rng.randrange(len(case.rows))
    case.at(line)
    lines = case.bytes.splitlines(keepends=True)
    lines[line] = lines[line].replace(b'": "', b'": "\\ud800', 1)
    case.bytes = b"".join(lines)


@mutation("refused", "not a JSON object|not JSON", formats=("jsonl",))
def json_array(case: Case) -> None:
    case.bytes = json.dumps(case.rows, indent=case.rng.choice([None, 1])).encode()


@mutation("refused", "is empty|no rows|no query has|cannot be read as Parquet")
def file_empty(case: Case) -> None:
    case.bytes = b"" if case.ending(case.part) != "jsonl.gz" else gzip.compress(b"")


@mutation("refused", "no rows|no query has", formats=("csv", "tsv"))
def header_alone(case: Case) -> None:
    case.bytes = case.bytes.splitlines(keepends=True)[0]


@mutation("refused", "no rows|no query has", formats=("parquet",))
def parquet_without_rows(case: Case) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({column: pa.array([], pa.string()) for column in case.rows[0]}), sink)
    case.bytes = sink.getvalue()


@mutation("refused", "column|separated|no table", formats=("csv", "tsv"))
def separated_otherwise(case: Case) -> None:
    old = b"\t" if case.ending(case.part) == "tsv" else b","
    case.bytes = case.bytes.replace(old, case.rng.choice([mark for mark in (b";", b"\t", b",", b" ") if mark != old]))


@mutation("refused", "column|no table", formats=("csv", "tsv"))
def header_missing(case: Case) -> None:
    case.bytes = case.bytes.partition(b"\n")[2]


@mutation("refused", "has no column", ("retrieval",), ("qrels",))
def judgements_of_trec(case: Case) -> None:
    mark = case.rng.choice("\t ")
    lines = [mark.join((r["query-id"], "0", r["corpus-id"], r["score"])) for r in case.rows]
    case.bytes = "\n".join(lines).encode()


@mutation("refused", "has no column 'score'", ("retrieval",), ("qrels",))
def judgements_of_two_columns(case: Case) -> None:
    case.bytes = b"\n".join(line.rpartition(b"\t")[0] for line in case.bytes.splitlines())


# Folders.
FOLDERS = ("folder", "linking", "retrieval")


@mutation("refused", "has no|no table|are those of no kind", ("linking", "retrieval"))
def file_missing(case: Case) -> None:
    case.files[case.file()], case.names = None, "folder"


@mutation("refused", "has no table test", ("folder",), ("test",))
def table_test_missing(case: Case) -> None:
    case.files[case.file()], case.names = None, "folder"


@mutation("noted", "5 folds", ("folder",), ("train",))
def train_missing(case: Case) -> None:
    case.files[case.file()] = None
    case.kind, case.read = "folds", {"table": case.read["test"]}


@mutation("refused", "nothing that is installed reads", FOLDERS)
def folder_empty(case: Case) -> None:
    case.files, case.names = {case.file(part): None for part in case.data}, "folder"


@mutation("refused", "are both the table", FOLDERS, ("train", "test", "names", "mentions", "corpus", "queries"))
def table_in_two_formats(case: Case) -> None:
    ending = case.rng.choice([e for e in FORMATS if e != case.format])
    case.files[case.file().replace(case.format, ending)] = written(case.rows, ending)
    case.names = case.file().partition(".")[0]


@mutation("refused", "has several tables", ("linking",))
def dictionary_twice(case: Case) -> None:
    case.files[f"old-{case.file()}"], case.names = case.bytes, "folder"


@mutation("noted", "judgements of dev.tsv", ("retrieval",), ("qrels",))
def judgements_for_development(case: Case) -> None:
    case.files = {"qrels/dev.tsv": case.bytes, "qrels/train.tsv": b"", case.file(): None}


@mutation("same", "", FOLDERS)
def other_files(case: Case) -> None:
    case.files |= {"README.md": b"# Data\n", ".gitignore": b"", "qrels/notes.txt": b"a"}
    case.files = case.files if case.kind == "retrieval" else {"README.md": b"# Data\n"}


@pytest.fixture(scope="module")
def every() -> Plugins:
    """The built-in plugins, loaded once."""
    return load_plugins(discover=False)


def drawn() -> list[tuple[Mutation, list[int]]]:
    """Each mutation, with a seed for each of its draws."""
    return [(one, list(range(n, DRAWN, len(MUTATIONS)))) for n, one in enumerate(MUTATIONS)]


def broken(mutation: Mutation, seed: int) -> Case:
    rng = random.Random(seed)
    case = Case(*rng.choice(mutation.cases), rng)
    mutation.apply(case)
    return case


@pytest.mark.parametrize(("mutation", "seeds"), drawn(), ids=[mutation.name for mutation in MUTATIONS])
def test_broken_data(every: Plugins, tmp_path: Path, mutation: Mutation, seeds: list[int]) -> None:
    for seed in seeds:
        case = broken(mutation, seed)
        name = case.write(tmp_path / f"folder{seed}")
        about = f"{mutation.name}, {case.kind}, {case.file()}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                task = every.tasks[name]
                items = task.load(DataStore(Path("nowhere"), offline=True))
                scores = score_task(
                    task, items, vectors_of(task, items, lambda i: vector(i.text)), "paper", every.metrics
                )
        except MirrorbenchError as error:
            refused(case, mutation, error, about)
            continue
        found = scores.metrics[task.main_metric]
        assert mutation.right != "refused", f"{about}: scored {found}, {scores.notes}"
        assert case.names == "ties" or found == pytest.approx(score(case.kind, case.read)), about
        usual = {note for note in scores.notes if note.startswith("logistic regression")}
        said = [note for note in scores.notes if mutation.right == "same" or mutation.says in note]
        assert bool(set(said) - usual or mutation.says == "5 folds") == (mutation.right == "noted"), (
            about,
            scores.notes,
        )


def refused(case: Case, mutation: Mutation, error: MirrorbenchError, about: str) -> None:
    """The error is that of the mutation, and names the file, or the folder, and the line."""
    said = f"{about}: {error}"
    assert mutation.right == "refused", said
    assert not isinstance(error, PluginError), said
    assert re.search(mutation.says, error.message), said
    assert (case.names or Path(case.file()).name) in error.message or "no table test" in error.message, said
    if case.line:
        assert f"line {case.line}:" in error.message or f"line {case.line} " in error.message, said


@pytest.mark.parametrize("kind", KINDS)
def test_data_are_scored_as_they_are(every: Plugins, tmp_path: Path, kind: str) -> None:
    for ending in FORMATS:
        case = Case(kind, ending, next(iter(valid()[kind])), random.Random(0))
        task = every.tasks[case.write(tmp_path / ending)]
        items = task.load(DataStore(Path("nowhere"), offline=True))
        scores = score_task(task, items, vectors_of(task, items, lambda i: vector(i.text)), "paper", every.metrics)
        assert scores.metrics[task.main_metric] == pytest.approx(score(kind, case.read))


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    fitting = [one for one in MUTATIONS if one.right == "refused" and any(own == kind for own, *_ in one.cases)]
    rng = random.Random(kind)
    mutation = rng.choice(fitting)
    case = Case(*rng.choice([own for own in mutation.cases if own[0] == kind]), rng)
    mutation.apply(case)
    said = Shell(tmp_path, monkeypatch, capsys.readouterr)(
        f"mirrorbench evaluate {case.write(tmp_path / 'folder')} -e tiny"
    )
    assert said.code in (1, 2), (mutation.name, said)
    assert "Traceback" not in said.out + said.err, (mutation.name, said)
    assert (case.names or Path(case.file()).name) in said.err, (mutation.name, said)
