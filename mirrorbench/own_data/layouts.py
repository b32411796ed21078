"""The layouts of a user's data, recognised by the names of files and columns.

=================  ==========================================================================================
``retrieval``      folder with ``corpus`` and ``queries`` (JSON lines) and ``qrels/SPLIT.tsv``, as BEIR has them
``reranking``      the same with candidates in ``top_ranked``, as MTEB has them; or columns ``query``, ``positive``,
                   ``negative``, which hold lists
``similarity``     columns ``sentence1``, ``sentence2``, ``score``
``pairs``          columns ``sentence1``, ``sentence2``, ``label`` (two values)
``triplets``       columns ``anchor``, ``positive``, ``negative``, texts
``classification``  columns ``text``, ``label``
``clustering``      the same, where the kind is named
``linking``        folder with two tables, of the columns ``name``, ``id`` and of ``mention``, ``id``
=================  ==========================================================================================

A table is CSV, TSV, JSON (also ``.gz``), Parquet or Excel. Other usual names of its columns are recognised
(``COLUMN_ALIASES``). Its splits are named in the column ``split`` or, in a folder, by the files (``train.csv``,
``test.csv``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import UsageError
from mirrorbench.core.quoting import without_texts
from mirrorbench.data.readers.folders import archive_of, files_in, root_of
from mirrorbench.data.readers.rows import PLAIN_TEXT, format_of
from mirrorbench.data.readers.values import is_list, parse_index
from mirrorbench.own_data.tables import OwnTable, number_of_shards, stem, tables_in, tables_of_files

TABLES: dict[str, tuple[str, ...]] = {
    "similarity": ("sentence1", "sentence2", "score"),
    "pairs": ("sentence1", "sentence2", "label"),
    "triplets": ("anchor", "positive", "negative"),
    "classification": ("text", "label"),
    "clustering": ("text", "label"),
    "reranking": ("query", "positive", "negative"),
}
"""Columns of each kind that is one table."""
NOT_BY_COLUMNS = ("clustering", "reranking")
"""Kinds that are not recognised by their columns, since other kinds have the same ones."""
NAMES = ("name", "id")
"""Columns of the dictionary of ``linking``."""
MENTIONS = ("mention", "id")
"""Columns of the mentions of ``linking``."""
DOCUMENTS = ("_id", "text")
"""Columns of documents and of queries; documents may have a ``title``."""
JUDGEMENTS = ("query-id", "corpus-id", "score")
"""Columns of judgements."""
CANDIDATES = ("query-id", "corpus-id")
"""Columns of candidates for ``reranking``, with one candidate in a row."""
LISTED_CANDIDATES = ("query-id", "corpus-ids")
"""Columns of candidates for ``reranking``, with all candidates of a query in a row."""
COLUMN_ALIASES: dict[str, tuple[str, ...]] = {
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
    "score": ("similarity", "similarity_score", "relatedness_score", "rating"),
    "label": ("is_duplicate", "duplicate", "category", "class", "intent", "sentiment", "topic"),
    "anchor": ("query", "question"),
    "positive": ("positives", "pos", "positive_passage", "positive_passages"),
    "negative": ("negatives", "neg", "negative_passage", "negative_passages"),
    "query": ("question", "anchor"),
    "text": ("sentence", "content", "utterance", "review"),
}
"""Other usual names of columns, in lower case."""
COLLECTION_ALIASES: dict[str, dict[str, tuple[str, ...]]] = {
    "corpus": {
        "_id": ("id", "doc_id", "docid", "docno", "document_id", "pid", "passage_id"),
        "text": ("content", "contents", "body", "passage", "document"),
    },
    "queries": {"_id": ("id", "query_id", "qid", "topic_id"), "text": ("query", "question")},
}
"""Other usual names of columns of documents and queries."""
JUDGEMENT_ALIASES: dict[str, tuple[str, ...]] = {
    "query-id": ("query_id", "qid", "topic_id", "topic"),
    "corpus-id": ("corpus_id", "doc_id", "docid", "docno", "document_id", "pid", "passage_id"),
    "score": ("relevance", "rel", "grade", "label"),
}
"""Other usual names of columns of judgements."""
CANDIDATE_ALIASES: dict[str, tuple[str, ...]] = {
    **JUDGEMENT_ALIASES,
    "corpus-ids": ("corpus_ids", "doc_ids", "docids", "document_ids", "pids", "passage_ids"),
}
"""Other usual names of columns of candidates."""
_TEXTS = {
    name
    for column in ("sentence1", "sentence2", "anchor", "positive", "negative", "text")
    for name in (column, *COLUMN_ALIASES[column])
}
"""Names of columns of texts; a table that has one is not of a kind that does not read it."""
KINDS = ("retrieval", *TABLES, "linking")
TRAIN = "train"
TEST = "test"
NO_SPLIT = "none"
"""Value of the option ``split`` that says that the column ``split`` does not name splits."""
SPLITS = (TRAIN, TEST, "dev", "val", "valid", "validation")
"""Values of a column ``split``; rows of the last four are not read."""
QRELS = "qrels"
"""Name of files or folders of judgements."""
TOP_RANKED = "top_ranked"
"""Name of files or folders of candidates."""
_COLLECTION = "collection"
"""Name of the documents' file in MS MARCO."""
_PARTS_OF_NAMES = (QRELS, *TOP_RANKED.split("_"))
"""Words of a file's name that say what it holds."""


@dataclass(frozen=True)
class DataLayout:
    """The kind of a user's data, and where its tables and their columns are."""

    path: Path
    """The file, folder or archive that holds the data, for options in messages."""
    kind: str
    tables: Mapping[str, OwnTable]
    """The tables by part: ``train``, ``test``, ``corpus``, ``queries``, ``names``, ``mentions``, ``QRELS``, ..."""
    column_options: Mapping[str, str]
    """Options of the user that name columns of the tables.

    Of pairs, ``positive`` is a label instead. ``split`` may be ``NO_SPLIT``.
    """
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Names of columns in the tables that are other usual names, by part and column."""
    table_remarks: Sequence[str] = ()
    """Remarks on tables that were chosen among others."""
    notes: list[str] = field(default_factory=list, compare=False)
    """Remarks on how the tables were read; reading rows adds them."""

    @property
    def remarks(self) -> list[str]:
        """Remarks on tables that were chosen, and on columns that were recognised under other usual names."""
        # Tables of train and test have the same columns, and one remark.
        columns_differ = self.kind in ("retrieval", "reranking", "linking")
        remarks = list(self.table_remarks)
        for part, names in self.aliases.items():
            if not names:
                continue
            remark = f"columns {', '.join(names.values())} read as {', '.join(names)}"
            if columns_differ and len(self.tables) > 1:
                remark = f"{self.tables[part].file.name}: {remark}"
            remarks.append(remark)
        return list(dict.fromkeys(remarks))

    @property
    def positive(self) -> str:
        """The label of pairs that the user named as the positive one; empty for none."""
        return self.column_options.get("positive", "")

    @property
    def split_column(self) -> str:
        """The column that says which rows are trained on and which are scored; empty for none."""
        # Splits are tables, or the data are a collection or dictionary, which have none.
        if TRAIN in self.tables or TEST not in self.tables:
            return ""
        name = self.column_options.get("split", "split")
        is_named_by_user = "split" in self.column_options and name != NO_SPLIT
        return name if is_named_by_user or name in self.columns(TEST) else ""

    def files(self) -> list[tuple[str, Path]]:
        """Return the files that are read, numbered; files in an archive are replaced by the archive."""
        files = [file for table in self.tables.values() for file in table.files]
        distinct = dict.fromkeys(archive_of(file) or file for file in files)
        return [(str(number), file) for number, file in enumerate(distinct)]

    def columns(self, part: str) -> list[str]:
        """Return the columns of one of the tables."""
        return self.tables[part].columns()

    def rows(self, part: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield line number and values of each row of a part's table; remarks are added to ``notes``."""
        names = [self.file_column(column, part) for column in columns]
        table = self.tables[part]

        def note(message: str) -> None:
            for file in table.files:
                message = message.removeprefix(f"{file}: ")
            if len(self.tables) > 1:
                message = f"{table.file.name}: {message}"
            self.notes.append(message)

        is_named = not are_column_numbers(names, table.columns())
        yield from table.rows(names, note, named=is_named)

    def file_column(self, column: str, part: str = TEST) -> str:
        """Return the name of a column in the file of a part."""
        usual_names = self.aliases.get(part, {})
        return self.column_options.get(as_option(column), usual_names.get(column, column))


def find_layout(path: Path, kind: str, column_options: Mapping[str, str]) -> DataLayout | None:
    """Recognise the layout of a path; ``None`` if it holds no tables.

    Args:
        path: an existing file, folder or archive.
        kind: one of ``KINDS``, or empty for any.
        column_options: options that name columns in the file (``{"sentence1": "question"}``).

    Raises:
        UsageError: the files or columns do not match ``kind`` or, without it, match no kind or several.
    """
    root = root_of(path)
    tables = tables_in(root, exclude=(QRELS, TOP_RANKED))
    layout = _collection_layout(path, root, tables, kind, column_options)
    if layout is None and tables:
        layout = _table_layout(path, tables, kind, column_options)
    return layout


def _collection_layout(
    path: Path,
    root: Path,
    tables: Mapping[str, OwnTable],
    kind: str,
    column_options: Mapping[str, str],
) -> DataLayout | None:
    """Return the layout of a collection, which is recognised by the names of its files; ``None`` for other data.

    Args:
        path: the path that the user named.
        root: the folder that holds the files.
        tables: the tables in ``root``, by name.
        kind: the kind that the user named, or empty for any.
        column_options: options that name columns in the files.

    Raises:
        UsageError: a file of the collection is missing, or candidates are in a file that is not read.
    """
    texts = {
        "corpus": _find_part(root, tables, "corpus", _COLLECTION),
        "queries": _find_part(root, tables, "queries"),
    }
    judgements = _tables_named(root, QRELS)
    candidates = _tables_named(root, TOP_RANKED)

    is_collection = bool(judgements) or all(texts.values())
    # Without a kind, collections with candidates are for reranking, all others for retrieval.
    is_retrieval_by_files = not kind and is_collection and not candidates
    if is_retrieval_by_files:
        _check_candidates_are_read(path, root)
    if kind == "retrieval" or is_retrieval_by_files:
        return _retrieval(path, root, texts, judgements, column_options)
    if candidates and kind in ("", "reranking"):
        collection = _retrieval(path, root, texts, judgements, column_options)
        return _reranking(collection, candidates)
    if kind == "reranking" and is_collection:
        hint = (
            f"They are in {TOP_RANKED}.jsonl: query-id, corpus-ids. "
            "Without them all documents are ranked: kind=retrieval."
        )
        raise UsageError(f"{path} has no file of candidates", hint)
    return None


def _table_layout(
    path: Path, tables: Mapping[str, OwnTable], kind: str, column_options: Mapping[str, str]
) -> DataLayout:
    """Return the layout of tables of any kind but a collection, which is recognised by their columns.

    Args:
        path: the path that the user named.
        tables: at least one table, by name.
        kind: the kind that the user named, or empty for any.
        column_options: options that name columns in the tables.

    Raises:
        UsageError: the columns do not match ``kind`` or, without it, match no kind or several.
    """
    if kind in ("", "linking") and len(tables) > 1:
        linking = _linking(path, tables, column_options)
        if linking is not None:
            return linking
    if kind == "linking":
        hint = "Linking needs a table with the columns name, id and one with mention, id."
        raise UsageError(f"{path} is not a folder of a dictionary and mentions", hint)
    split_tables = _split_tables(path, tables)
    layout = _split_layout(path, split_tables, kind, column_options)
    # Tables of reranking have the columns of triplets, but lists in them.
    if not kind and layout.kind == "triplets" and _holds_lists(layout):
        layout = _split_layout(path, split_tables, "reranking", column_options)
    # Where there is a choice of tables, a remark names the one that is read.
    has_other_tables = len(tables) > 1
    return replace(layout, table_remarks=list(_table_remarks(layout, has_other_tables)))


def _holds_lists(layout: DataLayout) -> bool:
    """Return whether the first row of triplets with a positive or a negative has a list."""
    rows = (cells for _, cells in layout.rows(TEST, TABLES["triplets"][1:]))
    first = next((cells for cells in rows if any(cells)), ())
    # The rows will be read again, with the same notes.
    layout.notes.clear()
    return any(map(is_list, first))


def _table_remarks(layout: DataLayout, has_other_tables: bool) -> Iterator[str]:
    """Yield remarks on tables that are not named ``train`` or ``test``, and on a shard that is read alone."""
    test = layout.tables[TEST]
    train = layout.tables.get(TRAIN)
    if has_other_tables and test.name != TEST:
        yield f"rows of {test.file.name}"
    if train and train.name != TRAIN:
        yield f"trained on {train.file.name}"
    n_shards = number_of_shards(test.file)
    if n_shards > len(test.files):
        yield f"one of {n_shards} shards; all of them are read where their folder is named"


def _find_part(path: Path, tables: Mapping[str, OwnTable], *names: str) -> OwnTable | None:
    """Return the table with one of several names, or the only table in a folder of this name; ``None`` without one.

    Args:
        path: the folder that holds the data.
        tables: the tables in this folder, by name.
        names: the names, the preferred one first.
    """
    for name in names:
        matches = [tables[name]] if name in tables else [*tables_in(path / name).values()]
        if len(matches) == 1:
            return matches[0]
    return None


def _tables_named(path: Path, name: str) -> list[OwnTable]:
    """Return the tables in the folder ``name`` and those beside it whose names start with ``name``.

    They are sorted by ``_rank_of_split``, the preferred one first.
    """
    files = list(files_in(path / name))
    files += [file for file in files_in(path) if file.name.startswith(name)]
    tables = tables_of_files([file for file in files if _is_table_named(file, name)])
    return sorted(tables, key=_rank_of_split)


def _rank_of_split(table: OwnTable) -> tuple[bool, bool, bool]:
    """Return a sort key that prefers tables of the test split, then of no split, then without other words."""
    splits = _splits_in(table.file)
    words = set(_words_of(table.file.name.partition(".")[0]))
    has_other_words = not words <= {*splits, *_PARTS_OF_NAMES}
    # The numbers of a shard do not count as words.
    if number_of_shards(table.file) > 1:
        has_other_words = False
    return (TEST not in splits, bool(splits), has_other_words)


def _is_table_named(file: Path, name: str) -> bool:
    """Return whether a file is a table by its ending, or a text file that is called ``name`` or as a split (TREC)."""
    if file.name.startswith("."):
        return False
    ending = file.name.lower().removesuffix(".gz")
    is_text = ending.endswith((".txt", ".run", ".trec")) or "." not in ending
    if is_text:
        return stem(file) in (*SPLITS, name)
    return format_of(file.name) != PLAIN_TEXT


def _splits_in(file: Path) -> set[str]:
    """Return the splits that the name of a file holds: ``sts-dev.csv``, ``qrels.test.tsv``."""
    return set(_words_of(file.name)) & set(SPLITS)


def _words_of(name: str) -> list[str]:
    """Return the words of a file's name in lower case: ``my-Train.csv`` has ``my``, ``train`` and ``csv``."""
    return re.split(r"[-_. ]", name.lower())


def _retrieval(
    path: Path,
    root: Path,
    texts: Mapping[str, OwnTable | None],
    judgements: Sequence[OwnTable],
    column_options: Mapping[str, str],
) -> DataLayout:
    """Return the layout of a collection.

    Args:
        path: the path that the user named.
        root: the folder that holds the files.
        texts: the tables ``corpus`` and ``queries``, or ``None`` if they were not found.
        judgements: tables of judgements, the preferred one first.
        column_options: options that name columns in the files.

    Raises:
        UsageError: documents, queries or judgements are missing, or it is not certain which judgements are meant.
    """
    tables = {part: table for part, table in texts.items() if table}
    # On the hub, judgements are the test split in the folder data.
    has_all_texts = len(tables) == len(texts)
    if has_all_texts and not judgements:
        judgements = [table for name, table in tables_in(root / "data").items() if name == TEST]
    missing = sorted(texts.keys() - tables.keys())
    if not judgements:
        missing.append("judgements")
    if missing:
        hint = "Retrieval needs corpus.jsonl, queries.jsonl and qrels/test.tsv."
        raise UsageError(f"{path} has no {' and no '.join(missing)}", hint)

    aliases = {}
    for part, table in tables.items():
        aliases[part] = _aliases_in(
            table.columns(), DOCUMENTS, column_options, COLLECTION_ALIASES[part]
        )
    qrels = _preferred_table(path, judgements, "judgements")
    if qrels.format != PLAIN_TEXT:
        aliases[QRELS] = _aliases_in(qrels.columns(), JUDGEMENTS, column_options, JUDGEMENT_ALIASES)
    return DataLayout(path, "retrieval", {**tables, QRELS: qrels}, column_options, aliases)


def _preferred_table(path: Path, tables: Sequence[OwnTable], noun: str) -> OwnTable:
    """Return the first of tables that are sorted by ``_rank_of_split``.

    Args:
        path: the path that the user named, for the message.
        tables: at least one table.
        noun: what the tables hold, for the message.

    Raises:
        UsageError: several tables of the test split, or several files ``top_ranked*``, have the first rank. Otherwise
            the first of them is returned, and a remark will name it.
    """
    first, *others = tables
    rank = _rank_of_split(first)
    same_rank = [table.file.name for table in others if _rank_of_split(table) == rank]
    if same_rank and (TEST in _splits_in(first.file) or first.name.startswith(TOP_RANKED)):
        raise UsageError(
            f"{path} has several files of {noun}: {', '.join((first.file.name, *same_rank))}",
            "Leave one in the folder.",
        )
    return first


def _check_candidates_are_read(path: Path, root: Path) -> None:
    """Raise a ``UsageError`` for a file that is named as candidates are, but is not read because of its ending.

    It is called if no table of candidates was found.
    """
    for file in (*files_in(root), *files_in(root / TOP_RANKED)):
        if file.name.startswith(TOP_RANKED) or file.parent.name == TOP_RANKED:
            hint = (
                "Tables are, and .txt, .run and .trec: docs/own_data_files.md. "
                f"To rank all documents: {path}:kind=retrieval"
            )
            raise UsageError(f"{path}: candidates in {file.name} are not read", hint)


def _reranking(collection: DataLayout, candidates: Sequence[OwnTable]) -> DataLayout:
    """Return the layout of a collection with the preferred table of candidates; ``UsageError`` if two are preferred."""
    table = _preferred_table(collection.path, candidates, "candidates")
    aliases = dict(collection.aliases)
    if table.format != PLAIN_TEXT:
        header = table.columns()
        for columns in (LISTED_CANDIDATES, CANDIDATES):
            names = _aliases_in(header, columns, collection.column_options, CANDIDATE_ALIASES)
            # Names of lists come before those of single candidates.
            aliases[TOP_RANKED] = {**names, **aliases.get(TOP_RANKED, {})}
    table_remarks: tuple[str, ...] = ()
    if len(candidates) > 1 or table.name not in (TEST, TOP_RANKED):
        table_remarks = (f"candidates of {table.file.name}",)
    tables = {**collection.tables, TOP_RANKED: table}
    return replace(
        collection, kind="reranking", tables=tables, aliases=aliases, table_remarks=table_remarks
    )


def _linking(
    path: Path, tables: Mapping[str, OwnTable], column_options: Mapping[str, str]
) -> DataLayout | None:
    """Return the layout of a dictionary and mentions; ``None`` unless there are tables of both.

    Raises:
        UsageError: there are several tables of one of them.
    """
    dictionaries: list[OwnTable] = []
    mentions: list[OwnTable] = []
    for table in tables.values():
        header = table.columns()
        if _has_columns(header, NAMES, column_options):
            dictionaries.append(table)
        if _has_columns(header, MENTIONS, column_options):
            mentions.append(table)
    if not dictionaries or not mentions:
        return None
    for matches in (dictionaries, mentions):
        if len(matches) > 1:
            names = ", ".join(table.name for table in matches)
            raise UsageError(
                f"{path} has several tables of one kind: {names}", "Leave one in the folder."
            )
    parts = {"names": dictionaries[0], "mentions": mentions[0]}
    return DataLayout(path, "linking", parts, column_options)


def _split_tables(path: Path, tables: Mapping[str, OwnTable]) -> dict[str, OwnTable]:
    """Return the tables of the training and the test split, by split; a single table is the test split.

    Tables are named as the split, or with its word (``sts-train``, ``sts-test``).

    Raises:
        UsageError: there are several tables, but none or more than one of the test split, or several of the training
            split; or a folder has only a training split.
    """
    by_split: dict[str, OwnTable] = {}
    for split in (TRAIN, TEST):
        if split in tables:
            matches = [tables[split]]
        else:
            # A name with the words of several splits is of none of them.
            matches = [table for table in tables.values() if _splits_in(table.file) == {split}]
        if len(matches) > 1:
            names = ", ".join(table.file.name for table in matches)
            raise UsageError(f"{path} has several tables {split}: {names}", "Name one of them.")
        if matches:
            by_split[split] = matches[0]
    if TEST in by_split:
        return by_split
    # A single file of the training split is scored if the user named it, not if it is all that a folder holds.
    if len(tables) > 1 or (TRAIN in by_split and by_split[TRAIN].file != path):
        names = ", ".join(table.file.name for table in tables.values())
        hint = "Name one of these files test. Linking needs two tables, with the columns name, id and mention, id."
        raise UsageError(f"{path} has no table test, but {names}", hint)
    return {TEST: next(iter(tables.values()))}


def _check_same_data_set(path: Path, train: OwnTable, test: OwnTable) -> None:
    """Raise a ``UsageError`` for two tables whose names differ in other words than the split.

    They may be of two data sets. Only the test split may have words of its own, after the split (``test_2``).
    """
    words_before_train, words_after_train = _words_around(train.name, TRAIN)
    words_before_test, words_after_test = _words_around(test.name, TEST)
    start_alike = words_before_train == words_before_test
    end_alike = words_after_train in ([], words_after_test)
    if not start_alike or not end_alike:
        raise UsageError(
            f"{path}: it is not certain that {train.file.name} is trained on for {test.file.name}",
            "Name them alike: train and test, or my-train and my-test.",
        )


def _words_around(name: str, split: str) -> tuple[list[str], list[str]]:
    """Return the words of a table's name before and after that of its split; without this word all are before it."""
    words = _words_of(name)
    if split not in words:
        return words, []
    index = words.index(split)
    return words[:index], words[index + 1 :]


def _split_layout(
    path: Path, tables: Mapping[str, OwnTable], kind: str, column_options: Mapping[str, str]
) -> DataLayout:
    """Return the layout of one of the kinds in ``TABLES``, by the columns of the test split.

    Args:
        path: the path that the user named.
        tables: the tables by split, from ``_split_tables``.
        kind: the kind that the user named, or empty for any.
        column_options: options that name columns in the tables.

    Raises:
        UsageError: columns match no kind or several, an option names a column twice, or the splits are not certain.
    """
    file = tables[TEST].file
    header = tables[TEST].columns()
    layout_kind, aliases = _recognised_kind(path, tables[TEST], kind, column_options)

    split_column = column_options.get("split", "split")
    if TRAIN in tables and split_column in header:
        train_name = tables[TRAIN].file.name
        raise UsageError(
            f"{file} has a column {split_column!r}, and {train_name} lies beside it: "
            "both say which rows are trained on",
            f"Remove the column, or put all rows into one file and leave {train_name} out.",
        )
    columns = TABLES[layout_kind]
    if len({column_options.get(column, column) for column in columns}) < len(columns):
        raise UsageError(
            f"{file}: two columns of {layout_kind} are renamed to one column",
            "Name another for each.",
        )
    # Only classification has training, so other kinds do not read the training split.
    parts = {TEST: tables[TEST]}
    if layout_kind == "classification" and TRAIN in tables:
        _check_same_data_set(path, tables[TRAIN], tables[TEST])
        parts = dict(tables)
    return DataLayout(path, layout_kind, parts, column_options, dict.fromkeys(parts, aliases))


def _recognised_kind(
    path: Path, table: OwnTable, kind: str, column_options: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Return the kind of a table by its columns, and the names that its columns have in the file.

    The aliases are empty if the table has the kind's columns under their own names.

    Args:
        path: the path that the user named.
        table: the table.
        kind: the kind that the user named, or empty for any.
        column_options: options that name columns in the table.

    Raises:
        UsageError: columns match no kind or several.
    """
    header = table.columns()
    if kind in TABLES:
        kinds = [kind]
    else:
        kinds = [name for name in TABLES if name not in NOT_BY_COLUMNS]

    # Other usual names count only if no kind has its columns under their own names.
    matches = [name for name in kinds if _has_columns(header, TABLES[name], column_options)]
    aliases: dict[str, str] = {}
    if not matches:
        aliases_by_kind = _aliases_by_kind(header, kinds, column_options)
        if not aliases_by_kind:
            # A table with queries may be meant for reranking, which is not recognised by its columns.
            has_query = any(name.strip().lower() == "query" for name in header)
            if has_query and not kind:
                kinds.append("reranking")
            raise _no_layout_error(path, header, kinds, column_options)
        # Labelled pairs also have the columns of labelled texts: kinds with more columns are preferred.
        most_columns = max(len(TABLES[name]) for name in aliases_by_kind)
        matches = [name for name in aliases_by_kind if len(TABLES[name]) == most_columns]
        aliases = aliases_by_kind[matches[0]]
    if len(matches) > 1:
        hint = (
            f"Name the kind: kind={matches[0]}, after the path and a colon, or --kind {matches[0]}."
        )
        raise UsageError(f"{table.file} has the columns of {' and of '.join(matches)}", hint)
    return matches[0], aliases


def _aliases_by_kind(
    header: Sequence[str], kinds: Sequence[str], column_options: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the kinds whose columns a table has, some under other usual names, with these names by column."""
    aliases_by_kind = {}
    for kind in kinds:
        aliases = _aliases_in(header, TABLES[kind], column_options)
        if aliases and not _has_other_texts(header, TABLES[kind], column_options, aliases):
            aliases_by_kind[kind] = aliases
    return aliases_by_kind


def _aliases_in(
    header: Sequence[str],
    columns: Sequence[str],
    column_options: Mapping[str, str],
    aliases: Mapping[str, Sequence[str]] = COLUMN_ALIASES,
) -> dict[str, str]:
    """Return, by column, the name in a file of each column that it has under another usual name.

    The result is empty if all columns have their own names or those that the user gave, and also if a column is missing
    or may be one of several.
    """
    # Of names that differ only in case the first counts.
    names_in_file = {name.strip().lower(): name for name in reversed(header)}
    names_by_column: dict[str, str] = {}
    for column in columns:
        option = as_option(column)
        if column_options.get(option, column) in header:
            continue
        # The user named a column that the file does not have: no other name replaces it.
        if option in column_options:
            return {}
        # A column in the file stands for one column only.
        taken = {*names_by_column.values(), *column_options.values()}
        matches = []
        for name in (column, *aliases.get(column, ())):
            if name in names_in_file and names_in_file[name] not in taken:
                matches.append(names_in_file[name])
        # The column is missing, or it is not certain which of several is meant.
        if len(matches) != 1:
            return {}
        names_by_column[column] = matches[0]
    return names_by_column


def _has_other_texts(
    header: Sequence[str],
    columns: Sequence[str],
    column_options: Mapping[str, str],
    aliases: Mapping[str, str],
) -> bool:
    """Return whether a file has columns of texts that a kind does not read."""
    names = {column_options.get(column, aliases.get(column, column)) for column in columns}
    return any(name.strip().lower() in _TEXTS for name in header if name not in names)


def _has_columns(
    header: Sequence[str], columns: Sequence[str], column_options: Mapping[str, str]
) -> bool:
    """Return whether a table has columns under their own names, or as the user named or numbered them."""
    names = [column_options.get(as_option(column), column) for column in columns]
    return all(name in header for name in names) or are_column_numbers(names, header)


def are_column_numbers(names: Sequence[str], header: Sequence[str]) -> bool:
    """Return whether all names are numbers of columns; if so, ``header`` is the first row of a table without one."""
    if all(name in header for name in names):
        return False
    return all(0 <= parse_index(name) < len(header) for name in names)


def _no_layout_error(
    path: Path, header: Sequence[str], kinds: Sequence[str], column_options: Mapping[str, str]
) -> UsageError:
    """Return the error for a table that matches none of ``kinds``; its hint is on the kind that comes nearest."""
    mismatch = "are those of no kind of data" if len(kinds) > 1 else f"are not those of {kinds[0]}"
    # The first line of a file without a header holds texts, which may have to be hidden.
    found = f"the columns {', '.join(header)}"
    if without_texts():
        found = f"{len(header)} columns"
    problem = f"{path} has {found}, which {mismatch}"

    # Columns that the user named, but that are not there.
    options = {column for kind in kinds for column in TABLES[kind]}
    # If the kind is not certain, positive= may be a label of pairs.
    if len(kinds) > 1:
        options.discard("positive")
    for option, name in column_options.items():
        if option in options and name not in header and not are_column_numbers([name], header):
            return UsageError(f"{path} has no column {name!r}", f"It has {found}.")

    return UsageError(problem, _hint_on_nearest_kind(path, header, kinds, column_options))


def _hint_on_nearest_kind(
    path: Path, header: Sequence[str], kinds: Sequence[str], column_options: Mapping[str, str]
) -> str:
    """Return how to name the columns of the kind that a table comes nearest to, or the kind if it lacks no column.

    Nearest is the kind that lacks the fewest columns. A column that is there under a similar name counts as missing only
    where kinds are equally near.
    """
    # A missing column may be there under a name that differs only in case or in spaces at its ends.
    similar = {name.strip().lower(): name for name in header}
    missing: dict[str, list[str]] = {}
    without_similar_name: dict[str, list[str]] = {}
    for kind in kinds:
        missing[kind] = [
            name for name in TABLES[kind] if column_options.get(name, name) not in header
        ]
        without_similar_name[kind] = [name for name in missing[kind] if name not in similar]
    nearest = min(kinds, key=lambda kind: (len(without_similar_name[kind]), len(missing[kind])))
    # The kinds that are not recognised by their columns may lack none.
    if not missing[nearest]:
        return f"If they are of {nearest}, name the kind: {path}:kind={nearest}"
    # If no column is there, the nearest kind is no better than the others: the hint lists all.
    if len(without_similar_name[nearest]) == len(TABLES[nearest]):
        columns_by_kind = [f"{', '.join(TABLES[kind])} ({kind})" for kind in kinds]
        hint = f"Known columns: {'; '.join(columns_by_kind)}"
    else:
        hint = f"For {nearest} it needs {', '.join(missing[nearest])}"
    renames = ",".join(f"{name}={similar.get(name, 'ITS_NAME')}" for name in missing[nearest])
    return f"{hint}. Columns of other names: {path}:{renames}, or --columns for each."


def as_option(column: str) -> str:
    """Return the option that names a column: ``id`` for ``_id``, ``query`` for ``query-id``, else the column itself."""
    return column.removeprefix("_").removesuffix("-id")
