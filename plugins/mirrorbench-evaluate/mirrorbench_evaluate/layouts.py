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

from mirrorbench.plugin import DataFormatError, UsageError, format_of, parse_json, pyarrow, read_rows, stream_lines

TABLES: dict[str, tuple[str, ...]] = {
    "similarity": ("sentence1", "sentence2", "score"),
    "pairs": ("sentence1", "sentence2", "label"),
    "triplets": ("anchor", "positive", "negative"),
    "classification": ("text", "label"),
}
"""The columns of each kind that is one table."""
NAMES, MENTIONS = ("name", "id"), ("mention", "id")
"""The columns of the two tables of ``linking``."""
KINDS = ("retrieval", *TABLES, "linking")
TRAIN, TEST = "train", "test"


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

    def rows(self, part: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[object, ...]]]:
        """Line numbers and the values of columns of one of the files."""
        yield from read_rows(str(self.files[part]), [self.renamed.get(column, column) for column in columns])


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
    tables = [file for file in tables if format_of(file.name) != "text"]
    named = {stem(file): file for file in tables}
    if kind in ("", "retrieval") and {"corpus", "queries"} <= named.keys():
        qrels = {stem(file): file for file in sorted((path / "qrels").glob("*.tsv"))}
        if not qrels:
            raise UsageError(f"{path} has a corpus and queries, and no judgements", "Put them into qrels/test.tsv")
        judged = TEST if TEST in qrels else next(iter(qrels))
        return Found("retrieval", {**named, "qrels": qrels[judged]}, renamed)
    if not tables:
        return None
    columns = {part: columns_of(file) for part, file in named.items()}
    if kind in ("", "linking") and len(tables) > 1:
        parts = {
            needed: next((p for p, has in columns.items() if _have(has, needed, renamed)), "")
            for needed in (NAMES, MENTIONS)
        }
        if all(parts.values()):
            return Found("linking", {"names": named[parts[NAMES]], "mentions": named[parts[MENTIONS]]}, renamed)
    parts_of_split = {part: named[part] for part in (TRAIN, TEST) if part in named}
    files = parts_of_split if TEST in parts_of_split else {TEST: tables[0]}
    if len(tables) > 1 and TEST not in parts_of_split:
        raise UsageError(f"{path} has {len(tables)} tables: {', '.join(f.name for f in tables)}", "Name one of them.")
    has = columns_of(files[TEST])
    for one, needed in TABLES.items():
        if kind in ("", one) and _have(has, needed, renamed):
            return Found(one, files, renamed)
    raise _nearest(files[TEST], has, [kind] if kind in TABLES else list(TABLES), renamed)


def _have(has: Sequence[str], needed: Sequence[str], renamed: Mapping[str, str]) -> bool:
    return all(renamed.get(column, column) in has for column in needed)


def _nearest(file: Path, has: Sequence[str], kinds: Sequence[str], renamed: Mapping[str, str]) -> UsageError:
    """The error for a table of no layout, with the layout that misses the fewest columns."""
    missing = {kind: [c for c in TABLES[kind] if renamed.get(c, c) not in has] for kind in kinds}
    near = min(kinds, key=lambda kind: len(missing[kind]))
    which = "are those of no kind of data" if len(kinds) > 1 else f"are not those of {near}"
    return UsageError(
        f"{file} has the columns {', '.join(has) or 'none'}, which {which}",
        f"For {near} it needs {', '.join(missing[near])}; a column of another name: {missing[near][0]}=ITS_NAME, "
        "behind the path and a colon, or in --columns.",
    )


def stem(file: Path) -> str:
    """The name of a file without its endings."""
    return file.name.partition(".")[0]


def columns_of(file: Path) -> list[str]:
    """The names of a table's columns: its header, the keys of its first line, or its schema."""
    kind = format_of(file.name)
    if kind == "parquet":
        return list(pyarrow()[0].read_schema(file).names)
    first = next((line for line in stream_lines(file) if line.strip()), "")
    if kind == "jsonl":
        row = parse_json(first, f"{file}, line 1") if first else {}
        if not isinstance(row, dict):
            raise DataFormatError(f"{file}, line 1: not a JSON object.")
        return list(row)
    return next(csv.reader([first], delimiter="\t" if kind == "tsv" else ","), [])
