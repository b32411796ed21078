"""Mutations of columns, bytes and folders."""

from __future__ import annotations

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

from helpers.broken_data_cases import FORMATS, LINES, TABLES, Case, mutation, table_bytes


# Columns.
@mutation("refused", "column|title|no table")
def column_missing(case: Case) -> None:
    column = case.rng.choice([c for c in case.rows[0] if c not in ("title", "split")])
    for row in case.rows:
        del row[column]


@mutation("refused", "column|title|no table")
def column_renamed(case: Case) -> None:
    column = case.rng.choice([c for c in case.rows[0] if c not in ("title", "split")])
    for row in case.rows:
        row[f"{column}s"] = row.pop(column)


@mutation("noted", " read as ", parts=("table", "corpus", "queries", "qrels"))
def column_in_other_letters(case: Case) -> None:
    column = case.rng.choice([c for c in case.rows[0] if c not in ("title", "split")])
    name = case.rng.choice([column.upper(), f" {column}"])
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
    column, mark = (
        case.rng.choice(list(case.rows[0])),
        b"\t" if case.ending(case.part) == "tsv" else b",",
    )
    lines = case.bytes.splitlines()
    case.bytes = b"\n".join(
        [lines[0] + mark + column.encode(), *(line + mark + b"1" for line in lines[1:])]
    )


@mutation("refused", "a key occurs twice", parts=TABLES, formats=("jsonl",))
def key_twice(case: Case) -> None:
    lines = case.bytes.splitlines(keepends=True)
    line = case.rng.randrange(len(lines))
    case.expect_at(line)
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
def columns_of_two_kinds(case: Case) -> None:
    for row in case.rows:
        row.setdefault("score", 1)
        row.setdefault("label", 1)


@mutation("refused", "columns|a dictionary and mentions|no corpus", parts=("table",))
def wrong_kind(case: Case) -> None:
    right = case.kind if case.kind in ("similarity", "pairs", "triplets") else "classification"
    kinds = ["retrieval", "similarity", "pairs", "triplets", "classification", "linking"]
    case.options = f":kind={case.rng.choice([kind for kind in kinds if kind != right])}"


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
def utf_16_without_mark(case: Case) -> None:
    case.bytes = case.bytes.decode().encode(case.rng.choice(["utf-16-be", "utf-16-le"]))


@mutation("same", formats=LINES)
def utf_16(case: Case) -> None:
    case.bytes = case.bytes.decode().encode("utf-16")


@mutation(
    "refused", "byte 0xe9 is not valid UTF-8", parts=(*TABLES, "corpus", "queries"), formats=LINES
)
def latin_1(case: Case) -> None:
    case.rows[case.expect_at(0)][case.texts()[0]] += " é"
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
    row = case.random_row() + 1
    lines[row] = (
        lines[row] + mark + b"more" if case.rng.random() < 0.5 else lines[row].rpartition(mark)[0]
    )
    case.bytes = b"\n".join(lines)


@mutation("refused", "no column|columns, where", formats=("csv", "tsv"))
def last_line_cut(case: Case) -> None:
    mark = b"\t" if case.ending(case.part) == "tsv" else b","
    case.expect_at(len(case.rows) - 1)
    case.bytes = case.bytes.rpartition(mark)[0]


@mutation("refused", "unexpected end of data|expected after|columns|no table", formats=("csv",))
def quote_open(case: Case) -> None:
    lines = case.bytes.splitlines(keepends=True)
    number = case.rng.randrange(len(lines))
    lines[number] = b'"' + lines[number]
    case.line = len(lines) if number else 0
    case.bytes = b"".join(lines)


@mutation("noted", "quotation marks are read as text", parts=TABLES, formats=("tsv",))
def quote_in_tabs(case: Case) -> None:
    column = case.texts()[0]
    row = case.random_row()
    case.put(column, f'"{case.rows[row][column]}', row)


@mutation("refused", "gzip stream is damaged", formats=("jsonl.gz",))
def gzip_cut(case: Case) -> None:
    case.bytes = case.bytes[: case.rng.randrange(20, len(case.bytes) - 1)]


@mutation("refused", "cannot be read as Parquet", formats=("parquet",))
def parquet_cut(case: Case) -> None:
    case.bytes = case.bytes[: case.rng.randrange(len(case.bytes))]


@mutation("refused", "cannot be read as Parquet", formats=("parquet",))
def parquet_of_csv(case: Case) -> None:
    case.bytes = table_bytes(case.rows, "csv")


@mutation("refused", "not JSON", formats=("jsonl",))
def json_cut(case: Case) -> None:
    case.expect_at(len(case.rows) - 1)
    case.bytes = case.bytes[: -case.rng.randrange(2, 20)]


@mutation("refused", "half of a surrogate pair", formats=("jsonl",))
def json_half_a_character(case: Case) -> None:
    line = case.rng.randrange(len(case.rows))
    case.expect_at(line)
    lines = case.bytes.splitlines(keepends=True)
    lines[line] = lines[line].replace(b'": "', b'": "\\ud800', 1)
    case.bytes = b"".join(lines)


@mutation("same", formats=("jsonl",))
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
    if case.ending(case.part) == "tsv":
        case.bytes = case.bytes.replace(b"\t", case.rng.choice([b";", b","]))
    else:
        case.bytes = case.bytes.replace(b",", b" ")


@mutation("noted", "separated by", formats=("csv",))
def separated_as_by_spreadsheets(case: Case) -> None:
    case.bytes = case.bytes.replace(b",", case.rng.choice([b";", b"\t"]))


@mutation("refused", "column|no table", formats=("csv", "tsv"))
def header_missing(case: Case) -> None:
    case.bytes = case.bytes.partition(b"\n")[2]


@mutation("noted", "without a header, read as", ("retrieval",), ("qrels",))
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


@mutation("refused", "no installed reader can read", FOLDERS)
def folder_empty(case: Case) -> None:
    case.files, case.names = {case.file(part): None for part in case.data}, "folder"


@mutation(
    "refused",
    "are both the table",
    FOLDERS,
    ("train", "test", "names", "mentions", "corpus", "queries"),
)
def table_in_two_formats(case: Case) -> None:
    ending = case.rng.choice([e for e in FORMATS if e != case.format])
    case.files[case.file().replace(case.format, ending)] = table_bytes(case.rows, ending)
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
