"""The layouts of own data, recognised by the names of files and columns.

=================  ==========================================================================================
``retrieval``      folder with ``corpus`` and ``queries`` (JSON lines) and ``qrels/SPLIT.tsv``, as BEIR has them
``similarity``     columns ``sentence1``, ``sentence2``, ``score``
``pairs``          columns ``sentence1``, ``sentence2``, ``label`` (two values)
``triplets``       columns ``anchor``, ``positive``, ``negative``
``classification``  columns ``text``, ``label``
``linking``        folder with two tables, of the columns ``name``, ``id`` and of ``mention``, ``id``
=================  ==========================================================================================

A table is CSV, TSV, JSON (also ``.gz``) or Parquet. Other usual names of its columns are recognised (``USUAL``). Its split
is the column ``split``, or in a folder the name of the file (``train.csv``, ``test.csv``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.quoting import without_texts
from mirrorbench.data.readers.csv_tables import table_header
from mirrorbench.data.readers.json_rows import json_objects
from mirrorbench.data.readers.parquet import pyarrow
from mirrorbench.data.readers.rows import PLAIN_TEXT, format_of, read_rows
from mirrorbench.data.readers.text import stream_lines

TABLES: dict[str, tuple[str, ...]] = {
    "similarity": ("sentence1", "sentence2", "score"),
    "pairs": ("sentence1", "sentence2", "label"),
    "triplets": ("anchor", "positive", "negative"),
    "classification": ("text", "label"),
}
"""Columns of each kind that is one table."""
NAMES, MENTIONS = ("name", "id"), ("mention", "id")
"""Columns of the two tables of ``linking``."""
DOCUMENTS, JUDGEMENTS = ("_id", "text"), ("query-id", "corpus-id", "score")
"""Columns of the files of ``retrieval``; documents may have a ``title``."""
USUAL: dict[str, tuple[str, ...]] = {
    "sentence1": (
        "sentence_1",
        "sentence_a",
        "text1",
        "text_1",
        "text_a",
        "question1",
        "premise",
        "query",
    ),
    "sentence2": (
        "sentence_2",
        "sentence_b",
        "text2",
        "text_2",
        "text_b",
        "question2",
        "hypothesis",
        "passage",
    ),
    "score": ("similarity", "similarity_score", "relatedness_score"),
    "label": ("is_duplicate", "duplicate", "category", "class", "intent", "sentiment", "topic"),
    "anchor": ("query", "question"),
    "positive": ("pos", "positive_passage"),
    "negative": ("neg", "negative_passage"),
    "text": ("sentence", "content", "utterance", "review"),
}
"""Other usual names of columns, in small letters."""
USUAL_TEXTS: dict[str, dict[str, tuple[str, ...]]] = {
    "corpus": {
        "_id": ("id", "doc_id", "docid", "docno", "document_id", "pid", "passage_id"),
        "text": ("content", "contents", "body", "passage", "document"),
    },
    "queries": {"_id": ("id", "query_id", "qid", "topic_id"), "text": ("query", "question")},
}
"""The same of documents and queries."""
USUAL_JUDGEMENTS: dict[str, tuple[str, ...]] = {
    "query-id": ("query_id", "qid", "topic_id", "topic"),
    "corpus-id": ("corpus_id", "doc_id", "docid", "docno", "document_id", "pid", "passage_id"),
    "score": ("relevance", "rel", "grade", "label"),
}
"""The same of judgements."""
_TEXTS = {
    name
    for column in ("sentence1", "sentence2", "anchor", "positive", "negative", "text")
    for name in (column, *USUAL[column])
}
"""Names of columns of texts; one that is left over says that the kind is another."""
KINDS = ("retrieval", *TABLES, "linking")
TRAIN, TEST = "train", "test"
SPLITS = (TRAIN, TEST, "dev", "val", "valid", "validation")
"""Values of a column ``split``; rows of the last four are not read."""


@dataclass(frozen=True)
class DataLayout:
    """The layout of own data: their kind, and their files by part (``corpus``, ``train``, ``names`` ...)."""

    kind: str
    files: Mapping[str, Path]
    renamed: Mapping[str, str]
    """Names of columns in the files, by option, if they differ."""
    usual: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Other usual names of columns in the files, by part and column."""
    notes: list[str] = field(default_factory=list, compare=False)
    """Remarks on how the files were read, after ``rows``."""

    @property
    def recognised(self) -> list[str]:
        """Remarks on columns that were recognised under other usual names."""
        return [
            f"{'' if len(self.files) == 1 else f'{self.files[part].name}: '}"
            f"columns {', '.join(names.values())} read as {', '.join(names)}"
            for part, names in self.usual.items()
            if names
        ]

    def columns(self, part: str) -> list[str]:
        """Return the columns of one of the files."""
        return columns_of(self.files[part])

    def rows(self, part: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield line numbers and the values of columns of one of the files."""
        names = [self.file_column(column, part) for column in columns]
        file = self.files[part]

        def note(message: str) -> None:
            remark = message.removeprefix(f"{file}: ")
            self.notes.append(remark if len(self.files) == 1 else f"{file.name}: {remark}")

        yield from read_rows(str(file), names, note, named=True, file_format=table_format(file))

    def file_column(self, column: str, part: str = TEST) -> str:
        """Return the name of a column in the file of a part."""
        usual = self.usual.get(part, {})
        return self.renamed.get(as_option(column), usual.get(column, column))


def find_layout(path: Path, kind: str, renamed: Mapping[str, str]) -> DataLayout | None:
    """Recognise the layout of a path; ``None`` if its files are no tables.

    Args:
        path: a file or folder that exists.
        kind: one of ``KINDS``, or empty for any.
        renamed: names of columns in the file (``{"sentence1": "question"}``).

    Raises:
        UsageError: the columns or files are not of ``kind``, or of no or several kinds.
    """
    tables = _tables(path)
    collections = (_BEIR, {_COLLECTION, "queries"})
    is_collection = (path / _QRELS).is_dir() or any(tables.keys() >= p for p in collections)
    if kind == "retrieval" or (not kind and is_collection):
        return _retrieval(path, tables, renamed)
    if not tables:
        return None
    if kind in ("", "linking") and len(tables) > 1 and (linking := _linking(path, tables, renamed)):
        return linking
    if kind == "linking":
        hint = "Linking needs a table with the columns name, id and one with mention, id."
        raise UsageError(f"{path} is not a folder of a dictionary and mentions", hint)
    return _labelled_table(_split_files(path, tables), kind, renamed)


_BEIR = {"corpus", "queries"}
_COLLECTION, _QRELS = "collection", "qrels"
"""Names of MS MARCO for documents, and of files or folders of judgements."""


def _tables(path: Path) -> dict[str, Path]:
    """The tables of a folder, or the table that a file is, by name without endings."""
    tables: dict[str, Path] = {}
    if path.is_file():
        return {} if table_format(path) == PLAIN_TEXT else {stem(path): path}
    for file in sorted(path.iterdir()):
        if not _is_table(file) or stem(file) == _QRELS:
            continue
        if (first := tables.setdefault(stem(file), file)) != file:
            raise UsageError(
                f"{first} and {file.name} are both the table {stem(file)!r}",
                "Leave one in the folder.",
            )
    return tables


def _is_table(file: Path) -> bool:
    """Whether a file is a table by its name; macOS puts others beside them (``._test.tsv``)."""
    return format_of(file.name) != PLAIN_TEXT and not file.name.startswith("._")


def table_format(file: Path) -> str:
    """Return the format of a file by its name; text whose first line has tabs is a table of them, as Excel writes it."""
    is_text = file.name.lower().removesuffix(".gz").endswith(".txt")
    if is_text and "\t" in next(stream_lines(file), ""):
        return "tsv"
    return format_of(file.name)


def _retrieval(path: Path, tables: Mapping[str, Path], renamed: Mapping[str, str]) -> DataLayout:
    files = {part: tables[part] for part in ("corpus", "queries") if part in tables}
    if "corpus" not in files and _COLLECTION in tables:
        files["corpus"] = tables[_COLLECTION]
    files_of_qrels = (*(path / _QRELS).glob("*"), *path.glob(f"{_QRELS}*"))
    qrels = sorted(filter(_holds_judgements, files_of_qrels), key=_rank_of_judgements)
    if missing := [*sorted(_BEIR - files.keys()), *([] if qrels else ["judgements"])]:
        hint = "Retrieval needs corpus.jsonl, queries.jsonl and qrels/test.tsv."
        raise UsageError(f"{path} has no {' and no '.join(missing)}", hint)
    usual = {
        part: _usual(columns_of(file), DOCUMENTS, renamed, USUAL_TEXTS[part])
        for part, file in files.items()
    }
    files["qrels"] = qrels[0]
    if table_format(qrels[0]) == "tsv":
        has = columns_of(qrels[0])
        usual["qrels"] = _usual(has, JUDGEMENTS, renamed, USUAL_JUDGEMENTS)
    return DataLayout("retrieval", files, renamed, usual)


def _holds_judgements(file: Path) -> bool:
    """Whether a file holds judgements by its name: TSV, or text of a split or called so, as of TREC."""
    if not file.is_file() or file.name.startswith("."):
        return False
    name = file.name.lower().removesuffix(".gz")
    is_text = name.endswith(".txt") or "." not in name
    return name.endswith(".tsv") or (is_text and stem(file) in (*SPLITS, _QRELS))


def _rank_of_judgements(file: Path) -> tuple[bool, bool, str]:
    """The order in which files of judgements are chosen: of the test split, of no split, by name."""
    parts = file.name.split(".")
    splits = [split for split in SPLITS if split in parts]
    return TEST not in splits, bool(splits), file.name


def _linking(
    path: Path, tables: Mapping[str, Path], renamed: Mapping[str, str]
) -> DataLayout | None:
    """The layout of a dictionary and mentions, if there are tables of both."""
    columns = {name: columns_of(file) for name, file in tables.items()}
    fitting = {
        part: [tables[name] for name in tables if _have(columns[name], needed, renamed)]
        for part, needed in (("names", NAMES), ("mentions", MENTIONS))
    }
    if not all(fitting.values()):
        return None
    for files in fitting.values():
        if len(files) > 1:
            repeated = ", ".join(map(stem, files))
            raise UsageError(
                f"{path} has several tables of one kind: {repeated}", "Leave one in the folder."
            )
    return DataLayout("linking", {part: files[0] for part, files in fitting.items()}, renamed)


def _split_files(path: Path, tables: Mapping[str, Path]) -> dict[str, Path]:
    """The files of a split, or the only table as the test split."""
    split = {part: tables[part] for part in (TRAIN, TEST) if part in tables}
    if TEST in split:
        return split
    if len(tables) > 1 or (path.is_dir() and TRAIN in split):
        hint = "Name one of these files test. Linking needs two tables, with the columns name, id and mention, id."
        raise UsageError(
            f"{path} has no table test, but {', '.join(file.name for file in tables.values())}",
            hint,
        )
    return {TEST: next(iter(tables.values()))}


def _labelled_table(files: Mapping[str, Path], kind: str, renamed: Mapping[str, str]) -> DataLayout:
    """The layout of one of ``TABLES``, by the columns of the test split."""
    file, has = files[TEST], columns_of(files[TEST])
    kinds = [kind] if kind in TABLES else list(TABLES)
    fits = [name for name in kinds if _have(has, TABLES[name], renamed)]
    usual = {} if fits else {name: _usual(has, TABLES[name], renamed) for name in kinds}
    recognised = [
        name
        for name, found in usual.items()
        if found and not _has_other_texts(has, TABLES[name], renamed, found)
    ]
    if not fits and not recognised:
        raise _nearest(file, has, kinds, renamed)
    if not fits:
        # A pair with a label has a text with a label too.
        most = max(len(TABLES[name]) for name in recognised)
        fits = [name for name in recognised if len(TABLES[name]) == most]
    if len(fits) > 1:
        hint = f"Name the kind: kind={fits[0]}, behind the path and a colon, or --kind {fits[0]}."
        raise UsageError(f"{file} has the columns of {' and of '.join(fits)}", hint)
    if TRAIN in files and (renamed.get("split", "split") in has):
        raise UsageError(
            f"{file} has a column {renamed.get('split', 'split')!r}, and {files[TRAIN].name} lies beside it: both say "
            "which rows are trained on",
            f"Remove the column, or put all rows into one file and leave {files[TRAIN].name} out.",
        )
    if len({renamed.get(column, column) for column in TABLES[fits[0]]}) < len(TABLES[fits[0]]):
        raise UsageError(
            f"{file}: two columns of {fits[0]} are renamed to one column", "Name another for each."
        )
    names = usual.get(fits[0], {})
    return DataLayout(fits[0], files, renamed, {part: names for part in files})


def _usual(
    has: Sequence[str],
    needed: Sequence[str],
    renamed: Mapping[str, str],
    usual: Mapping[str, Sequence[str]] = USUAL,
) -> dict[str, str]:
    """The names of columns in a file that has usual ones.

    Empty where a column is missing, where several may be it, or where all have their own name.
    """
    own = {name.strip().lower(): name for name in reversed(has)}
    found: dict[str, str] = {}
    for column in needed:
        if renamed.get(as_option(column), column) in has:
            continue
        names = () if as_option(column) in renamed else (column, *usual.get(column, ()))
        taken = {*found.values(), *renamed.values()}
        free = [own[name] for name in names if name in own and own[name] not in taken]
        if len(free) != 1:  # none, or it is not certain which
            return {}
        found[column] = free[0]
    return found


def _has_other_texts(
    has: Sequence[str], needed: Sequence[str], renamed: Mapping[str, str], found: Mapping[str, str]
) -> bool:
    """Whether a file has columns of texts that a kind does not read."""
    read = {renamed.get(column, found.get(column, column)) for column in needed}
    return any(name.strip().lower() in _TEXTS for name in has if name not in read)


def _have(has: Sequence[str], needed: Sequence[str], renamed: Mapping[str, str]) -> bool:
    return all(renamed.get(column, column) in has for column in needed)


def _nearest(
    file: Path, has: Sequence[str], kinds: Sequence[str], renamed: Mapping[str, str]
) -> UsageError:
    """The error for a table of no layout, with the layout that lacks the fewest columns."""
    mismatch = "are those of no kind of data" if len(kinds) > 1 else f"are not those of {kinds[0]}"
    # The first line of a file without a header holds texts.
    names = f"{len(has)} columns" if without_texts() else f"the columns {', '.join(has)}"
    problem = f"{file} has {names}, which {mismatch}"
    needed = {column for kind in kinds for column in TABLES[kind]}
    if len(kinds) > 1:  # it may be a label of pairs
        needed.discard("positive")
    absent = [name for column, name in renamed.items() if column in needed and name not in has]
    if absent:
        return UsageError(f"{file} has no column {absent[0]!r}", f"It has {names}.")
    if len(has) == 1 and (mark := next((mark for mark in ";\t" if mark in has[0]), "")):
        return UsageError(
            problem, f"Columns are separated by commas here, not by {mark!r}; by tabs in .tsv."
        )
    similar = {name.strip().lower(): name for name in has}
    missing = {kind: [c for c in TABLES[kind] if renamed.get(c, c) not in has] for kind in kinds}
    unlike = {kind: [c for c in missing[kind] if c not in similar] for kind in kinds}
    near = min(kinds, key=lambda kind: (len(unlike[kind]), len(missing[kind])))
    hint = f"For {near} it needs {', '.join(missing[near])}"
    if len(unlike[near]) == len(TABLES[near]):
        hint = "Known columns: " + "; ".join(
            f"{', '.join(TABLES[kind])} ({kind})" for kind in kinds
        )
    renames = ",".join(f"{c}={similar.get(c, 'ITS_NAME')}" for c in missing[near])
    return UsageError(
        problem, f"{hint}. Columns of other names: {file}:{renames}, or --columns for each."
    )


def as_option(column: str) -> str:
    """Return the option that renames a column: ``id`` for ``_id``, ``query`` for ``query-id``, else its name."""
    return column.removeprefix("_").removesuffix("-id")


def stem(file: Path) -> str:
    """Return the name of a file without its endings, and without the number of a shard as on the hub."""
    return re.sub(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?$", "", file.name.partition(".")[0])


def columns_of(file: Path) -> list[str]:
    """Read the names of a table's columns: its header, the keys of its first line, or its schema."""
    format_ = table_format(file)
    if format_ == "parquet":
        parquet, arrow = pyarrow()
        try:
            return list(parquet.read_schema(file).names)
        except (arrow.ArrowException, OSError) as error:
            raise DataFormatError(
                f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}"
            ) from None
    if format_ in ("csv", "tsv"):
        header = table_header(file, format_)
        if not header:
            raise DataFormatError(f"{file} is empty.")
        return header
    for _, row in json_objects(str(file)):
        return list(row)
    raise DataFormatError(f"{file} is empty.")
