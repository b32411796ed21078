"""The layouts of own data: which one a file or folder has, by the names of its files and columns.

=================  ==========================================================================================
``retrieval``      folder with ``corpus`` and ``queries`` (JSON lines) and ``qrels/SPLIT.tsv``, as BEIR has them
``similarity``     columns ``sentence1``, ``sentence2``, ``score``
``pairs``          columns ``sentence1``, ``sentence2``, ``label`` (1 or 0)
``triplets``       columns ``anchor``, ``positive``, ``negative``
``classification``  columns ``text``, ``label``
``linking``        folder with two tables, of the columns ``name``, ``id`` and of ``mention``, ``id``
=================  ==========================================================================================

A table is CSV, TSV, JSON lines (also ``.gz``) or Parquet. Its split is the column ``split``, or in a folder the name of
the file (``train.csv``, ``test.csv``).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.plugin import (
    DataFormatError,
    UsageError,
    format_of,
    parse_json,
    pyarrow,
    read_rows,
    stream_lines,
    without_texts,
)

TABLES: dict[str, tuple[str, ...]] = {
    "similarity": ("sentence1", "sentence2", "score"),
    "pairs": ("sentence1", "sentence2", "label"),
    "triplets": ("anchor", "positive", "negative"),
    "classification": ("text", "label"),
}
"""The columns of each kind that is one table."""
NAMES, MENTIONS = ("name", "id"), ("mention", "id")
"""The columns of the two tables of ``linking``."""
DOCUMENTS, JUDGEMENTS = ("_id", "text"), ("query-id", "corpus-id", "score")
"""The columns of the files of ``retrieval``; documents may have a ``title``."""
KINDS = ("retrieval", *TABLES, "linking")
TRAIN, TEST = "train", "test"
SPLITS = (TRAIN, TEST, "dev", "val", "valid", "validation")
"""Values of a column ``split``; rows of the last four are not read."""


@dataclass(frozen=True)
class Found:
    """A layout that data have: its kind, and its files by their part (``corpus``, ``train``, ``names`` ...)."""

    kind: str
    files: Mapping[str, Path]
    renamed: Mapping[str, str]
    """The file's own name of a column, where it is another."""

    def columns(self, part: str) -> list[str]:
        """The columns of one of the files."""
        return columns_of(self.files[part])

    def rows(self, part: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Line numbers and the values of columns of one of the files."""
        yield from read_rows(str(self.files[part]), [self.own(column) for column in columns])

    def own(self, column: str) -> str:
        """The file's own name of a column."""
        return self.renamed.get(as_option(column), column)


def find(path: Path, kind: str, renamed: Mapping[str, str]) -> Found | None:
    """The layout of a path; ``None`` where its files are no tables.

    Args:
        path: a file or folder that exists.
        kind: one of ``KINDS``, or empty for what the data look like.
        renamed: the file's own names of columns (``{"sentence1": "question"}``).

    Raises:
        UsageError: it has not the columns or files of the kind asked for, or of none.
    """
    tables = sorted(file for file in path.iterdir() if format_of(file.name) != "text") if path.is_dir() else [path]
    tables = [file for file in tables if format_of(file.name) != "text" and not file.name.startswith("._")]
    named: dict[str, Path] = {}
    for file in tables:
        if (first := named.setdefault(stem(file), file)) != file:
            raise UsageError(f"{first} and {file.name} are both the table {stem(file)!r}", "Leave one in the folder.")
    beir = {"corpus", "queries"}
    if kind == "retrieval" or (not kind and (beir <= named.keys() or (path / "qrels").is_dir())):
        qrels = sorted((path / "qrels").glob("*.tsv"), key=lambda file: (file.name != "test.tsv", file.name))
        if missing := [*sorted(beir - named.keys()), *([] if qrels else ["judgements"])]:
            hint = "Retrieval needs corpus.jsonl, queries.jsonl and qrels/test.tsv."
            raise UsageError(f"{path} has no {' and no '.join(missing)}", hint)
        return Found("retrieval", {**named, "qrels": qrels[0]}, renamed)
    if not tables:
        return None
    columns = {part: columns_of(file) for part, file in named.items()}
    if kind in ("", "linking") and len(tables) > 1 and (dictionary := _dictionary(path, columns, renamed)):
        return Found("linking", {part: named[table] for part, table in dictionary.items()}, renamed)
    if kind == "linking":
        hint = "Linking needs a table with the columns name, id and one with mention, id."
        raise UsageError(f"{path} is not a folder of a dictionary and mentions", hint)
    parts_of_split = {part: named[part] for part in (TRAIN, TEST) if part in named}
    files = parts_of_split if TEST in parts_of_split else {TEST: tables[0]}
    if TEST not in parts_of_split and (len(tables) > 1 or (path.is_dir() and TRAIN in parts_of_split)):
        hint = "Name one of them. A split has a table test; linking has two, of the columns name, id and mention, id."
        raise UsageError(f"{path} has no table test, but {', '.join(f.name for f in tables)}", hint)
    has = columns_of(files[TEST])
    fits = [name for name, needed in TABLES.items() if kind in ("", name) and _have(has, needed, renamed)]
    if len(fits) > 1:
        hint = f"Say what is meant: kind={fits[0]}, behind the path and a colon, or --kind {fits[0]}."
        raise UsageError(f"{files[TEST]} has the columns of {' and of '.join(fits)}", hint)
    if fits and len({renamed.get(column, column) for column in TABLES[fits[0]]}) < len(TABLES[fits[0]]):
        raise UsageError(f"{files[TEST]}: two columns of {fits[0]} are renamed to one column", "Name another for each.")
    if fits:
        return Found(fits[0], files, renamed)
    raise _nearest(files[TEST], has, [kind] if kind in TABLES else list(TABLES), renamed)


def _dictionary(path: Path, columns: Mapping[str, Sequence[str]], renamed: Mapping[str, str]) -> dict[str, str]:
    """The tables of names and of mentions, if there are both."""
    fit = {
        part: [table for table, has in columns.items() if _have(has, needed, renamed)]
        for part, needed in (("names", NAMES), ("mentions", MENTIONS))
    }
    if all(fit.values()) and (several := [tables for tables in fit.values() if len(tables) > 1]):
        raise UsageError(f"{path} has several tables of one kind: {', '.join(several[0])}", "Leave one in the folder.")
    return {part: tables[0] for part, tables in fit.items()} if all(fit.values()) else {}


def _have(has: Sequence[str], needed: Sequence[str], renamed: Mapping[str, str]) -> bool:
    return all(renamed.get(column, column) in has for column in needed)


def _nearest(file: Path, has: Sequence[str], kinds: Sequence[str], renamed: Mapping[str, str]) -> UsageError:
    """The error for a table of no layout, with the layout that misses the fewest columns."""
    which = "are those of no kind of data" if len(kinds) > 1 else f"are not those of {kinds[0]}"
    # a file without a header has texts in their place
    names = f"{len(has)} columns" if without_texts() else f"the columns {', '.join(has)}"
    problem = f"{file} has {names}, which {which}"
    if lost := [name for name in renamed.values() if name not in has]:
        return UsageError(f"{file} has no column {lost[0]!r}", f"It has {names}.")
    if len(has) == 1 and (mark := next((mark for mark in ";\t" if mark in has[0]), "")):
        return UsageError(problem, f"Columns are separated by commas here, not by {mark!r}; by tabs in .tsv.")
    own = {name.strip().lower(): name for name in has}
    missing = {kind: [c for c in TABLES[kind] if renamed.get(c, c) not in has] for kind in kinds}
    unlike = {kind: [c for c in missing[kind] if c not in own] for kind in kinds}
    near = min(kinds, key=lambda kind: (len(unlike[kind]), len(missing[kind])))
    hint = f"For {near} it needs {', '.join(missing[near])}"
    if len(unlike[near]) == len(TABLES[near]):
        hint = "Known are " + "; ".join(f"{', '.join(TABLES[kind])} ({kind})" for kind in kinds)
    renames = ",".join(f"{c}={own.get(c, 'ITS_NAME')}" for c in missing[near])
    return UsageError(problem, f"{hint}. Columns of other names: {file}:{renames}, or --columns for each.")


def as_option(column: str) -> str:
    """The option that renames a column: ``id`` for ``_id``, ``query`` for ``query-id``, else its name."""
    return column.removeprefix("_").removesuffix("-id")


def stem(file: Path) -> str:
    """The name of a file without its endings."""
    return file.name.partition(".")[0]


def columns_of(file: Path) -> list[str]:
    """The names of a table's columns: its header, the keys of its first line, or its schema."""
    kind = format_of(file.name)
    if kind == "parquet":
        parquet, arrow = pyarrow()
        try:
            return list(parquet.read_schema(file).names)
        except (arrow.ArrowException, OSError) as error:
            raise DataFormatError(f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    if not (first := next(filter(str.strip, stream_lines(file)), "")):
        raise DataFormatError(f"{file} is empty.")
    if kind == "jsonl":
        row = parse_json(first, f"{file}, its first line")
        if not isinstance(row, dict):
            raise DataFormatError(f"{file}, line 1: not a JSON object.", 'Each line is one, like {"text": "..."}.')
        return list(row)
    try:
        return next(csv.reader([first], delimiter="\t" if kind == "tsv" else ","))
    except csv.Error as error:
        raise DataFormatError(f"{file}, its header: {error}") from None
