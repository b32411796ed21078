"""Valid data of each kind and format, their scores by scipy and scikit-learn, and the registry of mutations."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, ndcg_score
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.preprocessing import normalize

Row = dict[str, Any]
FORMATS = ("csv", "tsv", "jsonl", "jsonl.gz", "parquet")
LINES = ("csv", "tsv", "jsonl")
TEXTS = (
    "sentence1",
    "sentence2",
    "anchor",
    "positive",
    "negative",
    "text",
    "name",
    "mention",
    "title",
)


def vector(text: str) -> np.ndarray:
    """A vector that depends on the text alone."""
    return np.random.default_rng(list(text.encode())).normal(size=8).astype(np.float32)


def cosines(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    return cosine_similarity(
        np.stack([vector(t) for t in left]), np.stack([vector(t) for t in right])
    )


def valid() -> dict[str, dict[str, list[Row]]]:
    """Rows of the tables of each kind; all texts differ, and the second of each column is not ASCII."""

    def texts(column: str, n: int) -> list[str]:
        return [f"{column} {i}{' café' * (i == 1)}" for i in range(n)]

    def rows(**columns: list[Any]) -> list[Row]:
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]

    sides, labels = (
        {"sentence1": texts("one", 12), "sentence2": texts("other", 12)},
        ["x", "y", "y"] * 8,
    )
    classified = rows(text=texts("text", 24), label=labels)
    graded = [
        ("q0", "d1", "2"),
        ("q0", "d7", "1"),
        ("q1", "d3", "1"),
        ("q2", "d9", "0"),
        ("q2", "d5", "3"),
    ]
    return {
        "similarity": {"table": rows(**sides, score=[i * 5 % 12 / 2 for i in range(12)])},
        "pairs": {"table": rows(**sides, label=[int(i % 3 == 0) for i in range(12)])},
        "triplets": {
            "table": rows(**{c: texts(c, 12) for c in ("anchor", "positive", "negative")})
        },
        "folds": {"table": classified},
        "split": {
            "table": [
                {**row, "split": "test" if i % 4 else "train"} for i, row in enumerate(classified)
            ]
        },
        "folder": {"train": classified[:8], "test": classified[8:]},
        "linking": {
            "names": rows(name=texts("name", 10), id=[f"c{i % 5}" for i in range(10)]),
            "mentions": rows(mention=texts("mention", 10), id=[f"c{i % 5}" for i in range(10)]),
        },
        "retrieval": {
            "corpus": rows(
                _id=[f"d{i}" for i in range(15)], title=texts("title", 15), text=texts("body", 15)
            ),
            "queries": rows(_id=["q0", "q1", "q2"], text=texts("query", 3)),
            "qrels": [
                dict(zip(("query-id", "corpus-id", "score"), row, strict=True)) for row in graded
            ],
        },
    }


KINDS = tuple(valid())


def independent_score(kind: str, data: Mapping[str, list[Row]]) -> float:
    """The main score of rows, computed without mirrorbench."""
    columns = {
        part: {c: [row.get(c) for row in rows] for c in rows[0]} for part, rows in data.items()
    }
    table = columns.get("table", {})
    if kind in ("similarity", "pairs"):
        values = np.diag(cosines(table["sentence1"], table["sentence2"]))
        if kind == "pairs":
            return float(average_precision_score(table["label"], values))
        return float(spearmanr(values, table["score"]).statistic)
    if kind == "triplets":
        near, far = (
            np.diag(cosines(table["anchor"], table[column])) for column in ("positive", "negative")
        )
        return float(np.mean(near > far))
    if kind == "linking":
        best = cosines(columns["mentions"]["mention"], columns["names"]["name"]).argmax(axis=1)
        return float(np.mean(np.array(columns["names"]["id"])[best] == columns["mentions"]["id"]))
    if kind == "retrieval":
        return ndcg(columns["corpus"], columns["queries"], data["qrels"])
    if kind == "folder":
        table = {c: [*columns["train"][c], *columns["test"][c]] for c in ("text", "label")}
        table["split"] = ["train"] * len(data["train"]) + ["test"] * len(data["test"])
    return accuracy(table)


def accuracy(table: Mapping[str, list[Any]]) -> float:
    array, labels = np.stack([vector(text) for text in table["text"]]), np.array(table["label"])
    array = normalize(array)
    if splits := table.get("split"):
        train, test = (
            [n for n, split in enumerate(splits) if split == part] for part in ("train", "test")
        )
        parts = [(train, test)]
    else:
        groups = [table["text"].index(text) for text in table["text"]]
        parts = list(
            StratifiedGroupKFold(5, shuffle=True, random_state=0).split(array, labels, groups)
        )
    hits = [
        LogisticRegression(max_iter=1000).fit(array[a], labels[a]).predict(array[b]) == labels[b]
        for a, b in parts
    ]
    return float(np.concatenate(hits).mean())


def ndcg(
    corpus: Mapping[str, list[str]], queries: Mapping[str, list[str]], judged: list[Row]
) -> float:
    titles = corpus.get("title", [""] * len(corpus["_id"]))
    documents = [" ".join(filter(None, both)) for both in zip(titles, corpus["text"], strict=True)]
    values = []
    for similarities, query in zip(
        cosines(queries["text"], documents), queries["_id"], strict=True
    ):
        grades = {
            row["corpus-id"]: max(int(row["score"]), 0)
            for row in judged
            if row["query-id"] == query
        }
        missing = [name for name in grades if name not in corpus["_id"]]  # found by no encoder
        gold = [grades.get(name, 0) for name in [*corpus["_id"], *missing]]
        similarities = [*similarities, *[-2] * len(missing)]
        values += [ndcg_score([gold], [similarities], k=10)] if any(gold) else []
    return float(np.mean(values))


def table_bytes(rows: Sequence[Row], format_: str) -> bytes:
    if format_ == "parquet":
        columns, sink = (
            {column: [row.get(column) for row in rows] for column in rows[0]},
            io.BytesIO(),
        )
        for column, values in columns.items():  # of one type, as Parquet has them
            if len({type(value) for value in values if value is not None}) > 1:
                columns[column] = [None if value is None else str(value) for value in values]
        pq.write_table(pa.table(columns), sink)
        return sink.getvalue()
    if format_.startswith("jsonl"):
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        return gzip.compress(content, mtime=0) if format_.endswith("gz") else content
    text = io.StringIO()
    marks: Any = (
        {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
        if format_ == "tsv"
        else {}
    )
    sink = csv.DictWriter(text, list(rows[0]), lineterminator="\n", **marks)
    sink.writeheader()
    sink.writerows(rows)
    return text.getvalue().encode()


@dataclass
class Case:
    """Data of a kind in a format, one part of which is broken: ``data`` as written, and ``read`` by a careful reader.

    ``files`` replace the files of the rows; ``line`` is the line that the error must name; ``names`` is the text that
    it must name in place of the file (``ties``: any score is right).
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
        return table_bytes(self.rows, self.ending(self.part))

    @bytes.setter
    def bytes(self, content: bytes) -> None:
        self.files[self.file()] = content

    def expect_at(self, row: int) -> int:
        """Expect the error in a row, which is returned."""
        self.line = row + 1 + (self.ending(self.part) in ("csv", "tsv"))
        return row

    def random_row(self) -> int:
        """A random row, in which the error is expected."""
        return self.expect_at(self.rng.randrange(len(self.rows)))

    def texts(self) -> list[str]:
        return [column for column in self.rows[0] if column in TEXTS]

    def put(self, column: str, value: Any, row: int | None = None, read: Any = None) -> None:
        """Put a value into a column; a careful reader reads ``read``."""
        row = self.random_row() if row is None else row
        self.rows[row][column] = value
        self.read[self.part][row][column] = value if read is None else read

    def add(self, row: Row, read: bool = True) -> None:
        """Add a row, in which the error is expected."""
        self.rows.append(row)
        self.expect_at(len(self.rows) - 1)
        if read:
            self.read[self.part].append(dict(row))

    def write(self, folder: Path) -> str:
        """Write the files; return the name of the task."""
        kept = {self.file(part): rows for part, rows in self.data.items()}
        contents: dict[str, bytes | None] = {
            self.file(part): None
            if self.file(part) in self.files
            else table_bytes(self.data[part], self.ending(part))
            for part in self.data
        } | self.files
        folder.mkdir(parents=True)
        for name, content in contents.items():
            if content is not None:
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(content)
        return str(folder if len(kept) > 1 else folder / next(iter(kept))) + self.options


@dataclass(frozen=True)
class Mutation:
    """A change of a case, and the expected outcome: ``refused``, ``same`` (the score of ``Case.read``) or ``noted``.

    ``message`` is a regular expression for the error, or a part of the note.
    """

    name: str
    outcome: str
    message: str
    apply: Callable[[Case], None]
    cases: tuple[tuple[str, str, str], ...]


MUTATIONS: list[Mutation] = []


def mutation(
    outcome: str,
    message: str = "",
    kinds: Sequence[str] = KINDS,
    parts: Sequence[str] = (),
    formats: Sequence[str] = FORMATS,
) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Register a mutation of kinds, of parts (default: all) and of formats; judgements are always TSV."""

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
        MUTATIONS.append(Mutation(apply.__name__, outcome, message, apply, cases))
        return apply

    return register


def mutate_values(
    outcome: str, message: str, column: str, values: Sequence[Any], **scope: Any
) -> None:
    """Register a mutation for each of the values, which replaces the value of one row in a column."""
    for value in values:

        def apply(case: Case, value: Any = value) -> None:
            case.put(column, value)

        apply.__name__ = f"{'-'.join(scope['kinds'])}_{column}_{value!r}"
        mutation(outcome, message, **scope)(apply)


TABLES = ("table", "train", "test", "names", "mentions")
JSON = ("jsonl", "jsonl.gz")
GOLD = {"kinds": ("folds", "split", "folder", "linking"), "parts": TABLES}


def gold_column(case: Case) -> str:
    return "label" if "label" in case.rows[0] else "id"
