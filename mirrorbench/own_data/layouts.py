"""The layouts of own data, recognised by the names of files and columns.

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

A table is CSV, TSV, JSON (also ``.gz``) or Parquet. Other usual names of its columns are recognised (``USUAL``). Its
split is the column ``split``, or in a folder the name of the file (``train.csv``, ``test.csv``).
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
from mirrorbench.own_data.tables import OwnTable, shards_of, stem, tables_in, whole_tables

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
"""Kinds that are not recognised by their columns, which other kinds have too."""
NAMES = ("name", "id")
"""Columns of the dictionary of ``linking``."""
MENTIONS = ("mention", "id")
"""Columns of the mentions of ``linking``."""
DOCUMENTS = ("_id", "text")
"""Columns of documents and of queries; documents may have a ``title``."""
JUDGEMENTS = ("query-id", "corpus-id", "score")
"""Columns of judgements."""
CANDIDATES = ("query-id", "corpus-id")
"""Columns of candidates for ``reranking``, one in a row."""
LISTED_CANDIDATES = ("query-id", "corpus-ids")
"""Columns of candidates for ``reranking``, the list of a query in a row."""
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
    "score": ("similarity", "similarity_score", "relatedness_score", "rating"),
    "label": ("is_duplicate", "duplicate", "category", "class", "intent", "sentiment", "topic"),
    "anchor": ("query", "question"),
    "positive": ("positives", "pos", "positive_passage", "positive_passages"),
    "negative": ("negatives", "neg", "negative_passage", "negative_passages"),
    "query": ("question", "anchor"),
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
"""Other usual names of columns of documents and queries."""
USUAL_JUDGEMENTS: dict[str, tuple[str, ...]] = {
    "query-id": ("query_id", "qid", "topic_id", "topic"),
    "corpus-id": ("corpus_id", "doc_id", "docid", "docno", "document_id", "pid", "passage_id"),
    "score": ("relevance", "rel", "grade", "label"),
}
"""Other usual names of columns of judgements."""
USUAL_CANDIDATES: dict[str, tuple[str, ...]] = {
    **USUAL_JUDGEMENTS,
    "corpus-ids": ("corpus_ids", "doc_ids", "docids", "document_ids", "pids", "passage_ids"),
}
"""Other usual names of columns of candidates."""
_TEXTS = {
    name
    for column in ("sentence1", "sentence2", "anchor", "positive", "negative", "text")
    for name in (column, *USUAL[column])
}
"""Names of columns of texts; if a kind does not read one of them, the data are of another kind."""
KINDS = ("retrieval", *TABLES, "linking")
TRAIN = "train"
TEST = "test"
NO_SPLIT = "none"
"""Value of the option ``split`` that says that the column ``split`` does not name splits."""
SPLITS = (TRAIN, TEST, "dev", "val", "valid", "validation")
"""Values of a column ``split``; rows of the last four are not read."""


@dataclass(frozen=True)
class DataLayout:
    """The layout of own data: their kind, and their files by part (``corpus``, ``train``, ``names`` ...)."""

    path: Path
    """The file, folder or archive that holds them, for options in messages."""
    kind: str
    tables: Mapping[str, OwnTable]
    renamed: Mapping[str, str]
    """Names of columns in the tables, by option, if they differ.

    ``positive`` of pairs is a label, and ``split`` may be ``NO_SPLIT``.
    """
    usual: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Other usual names of columns in the tables, by part and column."""
    chosen: Sequence[str] = ()
    """Remarks on tables that were chosen among others."""
    notes: list[str] = field(default_factory=list, compare=False)
    """Remarks on how the tables were read, after ``rows``."""

    @property
    def recognised(self) -> list[str]:
        """Remarks on tables that were chosen, and on columns that were recognised under other usual names."""
        has_parts = len(self.tables) > 1 and self.kind in ("retrieval", "reranking", "linking")
        remarks = list(self.chosen)
        for part, names in self.usual.items():
            if not names:
                continue
            remark = f"columns {', '.join(names.values())} read as {', '.join(names)}"
            if has_parts:
                remark = f"{self.tables[part].file.name}: {remark}"
            remarks.append(remark)
        return list(dict.fromkeys(remarks))

    @property
    def positive(self) -> str:
        """The label of pairs that is named as the positive one; empty for none."""
        return self.renamed.get("positive", "")

    @property
    def split_column(self) -> str:
        """The column that says which rows are trained on and which are scored; empty for none."""
        name = self.renamed.get("split", "split")
        if TRAIN in self.tables or TEST not in self.tables:
            return ""
        is_named = "split" in self.renamed and name != NO_SPLIT
        return name if is_named or name in self.columns(TEST) else ""

    def files(self) -> list[tuple[str, Path]]:
        """Return the files that are read, with a name each; an archive in place of those that it holds."""
        files = [file for table in self.tables.values() for file in table.files]
        distinct = dict.fromkeys(archive_of(file) or file for file in files)
        return [(str(number), file) for number, file in enumerate(distinct)]

    def columns(self, part: str) -> list[str]:
        """Return the columns of one of the tables."""
        return self.tables[part].columns()

    def rows(self, part: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield line numbers and the values of columns of one of the tables."""
        names = [self.file_column(column, part) for column in columns]
        table = self.tables[part]

        def note(message: str) -> None:
            for file in table.files:
                message = message.removeprefix(f"{file}: ")
            if len(self.tables) > 1:
                message = f"{table.file.name}: {message}"
            self.notes.append(message)

        is_named = not are_numbers(names, table.columns())
        yield from table.rows(names, note, named=is_named)

    def file_column(self, column: str, part: str = TEST) -> str:
        """Return the name of a column in the file of a part."""
        usual_names = self.usual.get(part, {})
        return self.renamed.get(as_option(column), usual_names.get(column, column))


def find_layout(path: Path, kind: str, renamed: Mapping[str, str]) -> DataLayout | None:
    """Recognise the layout of a path; ``None`` if its files are no tables.

    Args:
        path: a file or folder that exists.
        kind: one of ``KINDS``, or empty for any.
        renamed: names of columns in the file (``{"sentence1": "question"}``).

    Raises:
        UsageError: the columns or files are not of ``kind``, or of no or several kinds.
    """
    root = root_of(path)
    tables = tables_in(root, but=(QRELS, TOP_RANKED))
    texts = {
        "corpus": _part(root, tables, "corpus", _COLLECTION),
        "queries": _part(root, tables, "queries"),
    }
    judgements = _tables_named(root, QRELS)
    candidates = _tables_named(root, TOP_RANKED)

    # Collections are recognised by the names of their files.
    is_collection = bool(judgements) or all(texts.values())
    if not kind and is_collection and not candidates:
        _check_candidates_are_read(path, root)
    if kind == "retrieval" or (not kind and is_collection and not candidates):
        return _retrieval(path, root, texts, judgements, renamed)
    if candidates and kind in ("", "reranking"):
        return _reranking(_retrieval(path, root, texts, judgements, renamed), candidates)
    if kind == "reranking" and is_collection:
        hint = f"They are in {TOP_RANKED}.jsonl: query-id, corpus-ids. Without them all documents are ranked: kind=retrieval."
        raise UsageError(f"{path} has no file of candidates", hint)
    if not tables:
        return None

    # All other kinds are recognised by the columns of their tables.
    if kind in ("", "linking") and len(tables) > 1:
        linking = _linking(path, tables, renamed)
        if linking is not None:
            return linking
    if kind == "linking":
        hint = "Linking needs a table with the columns name, id and one with mention, id."
        raise UsageError(f"{path} is not a folder of a dictionary and mentions", hint)
    split_tables = _split_tables(path, tables)
    layout = _labelled_table(path, split_tables, kind, renamed)
    if not kind and layout.kind == "triplets" and _holds_lists(layout):
        layout = _labelled_table(path, split_tables, "reranking", renamed)
    return replace(layout, chosen=list(_chosen(layout, len(tables) > 1)))


def _holds_lists(layout: DataLayout) -> bool:
    """Return whether the first row of triplets that is not empty has a list, as rows of reranking have."""
    rows = (cells for _, cells in layout.rows(TEST, TABLES["triplets"][1:]))
    first = next((cells for cells in rows if any(cells)), ())
    layout.notes.clear()
    return any(map(is_list, first))


def _chosen(layout: DataLayout, among_others: bool) -> Iterator[str]:
    """Yield remarks on the tables that are read, where their names do not say it all."""
    test = layout.tables[TEST]
    train = layout.tables.get(TRAIN)
    if among_others and test.name != TEST:
        yield f"rows of {test.file.name}"
    if train and train.name != TRAIN:
        yield f"trained on {train.file.name}"
    n_shards = shards_of(test.file)
    if n_shards > len(test.files):
        yield f"one of {n_shards} shards; all of them are read where their folder is named"


_COLLECTION = "collection"
"""Name of MS MARCO for documents."""
QRELS = "qrels"
"""Name of files or folders of judgements."""
TOP_RANKED = "top_ranked"
"""Name of files or folders of candidates."""


def _part(path: Path, tables: Mapping[str, OwnTable], *names: str) -> OwnTable | None:
    """Return the table of one of several names, or the only one in a folder of this name."""
    for name in names:
        matches = [tables[name]] if name in tables else [*tables_in(path / name).values()]
        if len(matches) == 1:
            return matches[0]
    return None


def _tables_named(path: Path, name: str) -> list[OwnTable]:
    """Return the tables in the folder ``name``, and those beside it that bear the name, by ``_rank_of_split``."""
    files = list(files_in(path / name))
    files += [file for file in files_in(path) if file.name.startswith(name)]
    tables = whole_tables([file for file in files if _is_table_named(file, name)])
    return sorted(tables, key=_rank_of_split)


def _rank_of_split(table: OwnTable) -> tuple[bool, bool, bool]:
    """Return a sort key that prefers tables of the test split, then of no split, then without other words."""
    splits = _splits_in(table.file)
    words = set(_words_of(table.file.name.partition(".")[0]))
    # The name of a shard has other words: its number.
    has_other_words = not words <= {*splits, *_WORDS_OF_NAMES} and shards_of(table.file) <= 1
    return (TEST not in splits, bool(splits), has_other_words)


_WORDS_OF_NAMES = (QRELS, *TOP_RANKED.split("_"))


def _is_table_named(file: Path, name: str) -> bool:
    """Return whether a file is a table by its ending, or text that is called ``name`` or after a split (TREC)."""
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
    renamed: Mapping[str, str],
) -> DataLayout:
    """Return the layout of a collection.

    Args:
        path: as the user named it.
        root: the folder that holds the files.
        texts: the tables ``corpus`` and ``queries``, if they were found.
        judgements: tables of judgements, the preferred one first.
        renamed: names of columns in the files.
    """
    tables = {part: table for part, table in texts.items() if table}
    if len(tables) == len(texts) and not judgements:
        # On the hub, judgements are the test split in the folder data.
        judgements = [table for name, table in tables_in(root / "data").items() if name == TEST]
    missing = sorted(texts.keys() - tables.keys())
    if not judgements:
        missing.append("judgements")
    if missing:
        hint = "Retrieval needs corpus.jsonl, queries.jsonl and qrels/test.tsv."
        raise UsageError(f"{path} has no {' and no '.join(missing)}", hint)

    usual = {}
    for part, table in tables.items():
        usual[part] = _usual_columns(table.columns(), DOCUMENTS, renamed, USUAL_TEXTS[part])
    qrels = _first_table(path, judgements, "judgements")
    if qrels.format != PLAIN_TEXT:
        usual[QRELS] = _usual_columns(qrels.columns(), JUDGEMENTS, renamed, USUAL_JUDGEMENTS)
    return DataLayout(path, "retrieval", {**tables, QRELS: qrels}, renamed, usual)


def _first_table(path: Path, tables: Sequence[OwnTable], what: str) -> OwnTable:
    """Return the first table; raise a ``UsageError`` if another has the same rank, so that either may be meant."""
    first, *others = tables
    rank = _rank_of_split(first)
    same = [table.file.name for table in others if _rank_of_split(table) == rank]
    if same and (TEST in _splits_in(first.file) or first.name.startswith(TOP_RANKED)):
        raise UsageError(
            f"{path} has several files of {what}: {', '.join((first.file.name, *same))}",
            "Leave one in the folder.",
        )
    return first


def _check_candidates_are_read(path: Path, root: Path) -> None:
    """Raise a ``UsageError`` for a file that bears the name of candidates and is not read because of its ending."""
    for file in (*files_in(root), *files_in(root / TOP_RANKED)):
        if file.name.startswith(TOP_RANKED) or file.parent.name == TOP_RANKED:
            hint = f"Tables are, and .txt, .run and .trec: docs/own_data_files.md. To rank all documents: {path}:kind=retrieval"
            raise UsageError(f"{path}: candidates in {file.name} are not read", hint)


def _reranking(collection: DataLayout, candidates: Sequence[OwnTable]) -> DataLayout:
    """Return the layout of a collection with its candidates."""
    table = _first_table(collection.path, candidates, "candidates")
    usual = dict(collection.usual)
    if table.format != PLAIN_TEXT:
        header = table.columns()
        for columns in (LISTED_CANDIDATES, CANDIDATES):
            names = _usual_columns(header, columns, collection.renamed, USUAL_CANDIDATES)
            # Names of lists come before those of single candidates.
            usual[TOP_RANKED] = {**names, **usual.get(TOP_RANKED, {})}
    chosen: tuple[str, ...] = ()
    if len(candidates) > 1 or table.name not in (TEST, TOP_RANKED):
        chosen = (f"candidates of {table.file.name}",)
    tables = {**collection.tables, TOP_RANKED: table}
    return replace(collection, kind="reranking", tables=tables, usual=usual, chosen=chosen)


def _linking(
    path: Path, tables: Mapping[str, OwnTable], renamed: Mapping[str, str]
) -> DataLayout | None:
    """Return the layout of a dictionary and mentions, if there are tables of both."""
    dictionaries: list[OwnTable] = []
    mentions: list[OwnTable] = []
    for table in tables.values():
        header = table.columns()
        if _has_columns(header, NAMES, renamed):
            dictionaries.append(table)
        if _has_columns(header, MENTIONS, renamed):
            mentions.append(table)
    if not dictionaries or not mentions:
        return None
    for same_columns in (dictionaries, mentions):
        if len(same_columns) > 1:
            names = ", ".join(table.name for table in same_columns)
            raise UsageError(
                f"{path} has several tables of one kind: {names}", "Leave one in the folder."
            )
    parts = {"names": dictionaries[0], "mentions": mentions[0]}
    return DataLayout(path, "linking", parts, renamed)


def _split_tables(path: Path, tables: Mapping[str, OwnTable]) -> dict[str, OwnTable]:
    """Return the tables by split, or the only one as the test split.

    Their names are the split, or have its word (``sts-train``, ``sts-test``).
    """
    by_split: dict[str, OwnTable] = {}
    for split in (TRAIN, TEST):
        if split in tables:
            matches = [tables[split]]
        else:
            matches = [table for table in tables.values() if _splits_in(table.file) == {split}]
        if len(matches) > 1:
            names = ", ".join(table.file.name for table in matches)
            raise UsageError(f"{path} has several tables {split}: {names}", "Name one of them.")
        if matches:
            by_split[split] = matches[0]
    if TEST in by_split:
        return by_split
    if len(tables) > 1 or (TRAIN in by_split and by_split[TRAIN].file != path):
        names = ", ".join(table.file.name for table in tables.values())
        hint = "Name one of these files test. Linking needs two tables, with the columns name, id and mention, id."
        raise UsageError(f"{path} has no table test, but {names}", hint)
    return {TEST: next(iter(tables.values()))}


def _check_names(path: Path, train: OwnTable, test: OwnTable) -> None:
    """Refuse tables whose names differ before or behind the word for their split: they may be of two data sets."""
    words_before_train, words_after_train = _words_around(train.name, TRAIN)
    words_before_test, words_after_test = _words_around(test.name, TEST)
    are_alike = words_before_train == words_before_test
    if not are_alike or words_after_train not in ([], words_after_test):
        raise UsageError(
            f"{path}: it is not certain that {train.file.name} is trained on for {test.file.name}",
            "Name them alike: train and test, or my-train and my-test.",
        )


def _words_around(name: str, split: str) -> tuple[list[str], list[str]]:
    """Return the words of a table's name before and behind the word for its split; all are before it without one."""
    words = _words_of(name)
    if split not in words:
        return words, []
    index = words.index(split)
    return words[:index], words[index + 1 :]


def _labelled_table(
    path: Path, tables: Mapping[str, OwnTable], kind: str, renamed: Mapping[str, str]
) -> DataLayout:
    """Return the layout of one of ``TABLES``, by the columns of the test split."""
    file = tables[TEST].file
    header = tables[TEST].columns()
    if kind in TABLES:
        kinds = [kind]
    else:
        kinds = [name for name in TABLES if name not in NOT_BY_COLUMNS]

    # Other usual names count only where no kind has its columns under their own names.
    fitting = [name for name in kinds if _has_columns(header, TABLES[name], renamed)]
    usual: dict[str, str] = {}
    if not fitting:
        usual_by_kind = _kinds_by_usual_columns(header, kinds, renamed)
        if not usual_by_kind:
            has_query = any(name.strip().lower() == "query" for name in header)
            if has_query and not kind:
                kinds.append("reranking")
            raise _no_layout(path, header, kinds, renamed)
        # A pair with a label has a text with a label too.
        most = max(len(TABLES[name]) for name in usual_by_kind)
        fitting = [name for name in usual_by_kind if len(TABLES[name]) == most]
        usual = usual_by_kind[fitting[0]]
    if len(fitting) > 1:
        hint = f"Name the kind: kind={fitting[0]}, behind the path and a colon, or --kind {fitting[0]}."
        raise UsageError(f"{file} has the columns of {' and of '.join(fitting)}", hint)

    layout_kind = fitting[0]
    split_column = renamed.get("split", "split")
    if TRAIN in tables and split_column in header:
        train_name = tables[TRAIN].file.name
        raise UsageError(
            f"{file} has a column {split_column!r}, and {train_name} lies beside it: both say which rows are trained on",
            f"Remove the column, or put all rows into one file and leave {train_name} out.",
        )
    columns = TABLES[layout_kind]
    if len({renamed.get(column, column) for column in columns}) < len(columns):
        raise UsageError(
            f"{file}: two columns of {layout_kind} are renamed to one column",
            "Name another for each.",
        )
    # Only classifiers are trained.
    parts = {TEST: tables[TEST]}
    if layout_kind == "classification" and TRAIN in tables:
        _check_names(path, tables[TRAIN], tables[TEST])
        parts = dict(tables)
    return DataLayout(path, layout_kind, parts, renamed, dict.fromkeys(parts, usual))


def _kinds_by_usual_columns(
    header: Sequence[str], kinds: Sequence[str], renamed: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the kinds whose columns a table has under other usual names, with these names by column."""
    usual_by_kind = {}
    for kind in kinds:
        usual = _usual_columns(header, TABLES[kind], renamed)
        if usual and not _has_other_texts(header, TABLES[kind], renamed, usual):
            usual_by_kind[kind] = usual
    return usual_by_kind


def _usual_columns(
    header: Sequence[str],
    columns: Sequence[str],
    renamed: Mapping[str, str],
    usual: Mapping[str, Sequence[str]] = USUAL,
) -> dict[str, str]:
    """Return the names, in a file, of columns that have other usual names there.

    Empty if a column is missing, if several may be it, or if all have their own name.
    """
    # Of names that differ in case the first counts.
    names_in_file = {name.strip().lower(): name for name in reversed(header)}
    usual_columns: dict[str, str] = {}
    for column in columns:
        option = as_option(column)
        if renamed.get(option, column) in header:
            continue
        if option in renamed:
            return {}
        taken = {*usual_columns.values(), *renamed.values()}
        matches = []
        for name in (column, *usual.get(column, ())):
            if name in names_in_file and names_in_file[name] not in taken:
                matches.append(names_in_file[name])
        # With several matches it is not certain which is meant.
        if len(matches) != 1:
            return {}
        usual_columns[column] = matches[0]
    return usual_columns


def _has_other_texts(
    header: Sequence[str],
    columns: Sequence[str],
    renamed: Mapping[str, str],
    usual: Mapping[str, str],
) -> bool:
    """Return whether a file has columns of texts that a kind does not read."""
    names = {renamed.get(column, usual.get(column, column)) for column in columns}
    return any(name.strip().lower() in _TEXTS for name in header if name not in names)


def _has_columns(header: Sequence[str], columns: Sequence[str], renamed: Mapping[str, str]) -> bool:
    """Return whether a table has columns under their own names, or as the user named or numbered them."""
    names = [renamed.get(as_option(column), column) for column in columns]
    return all(name in header for name in names) or are_numbers(names, header)


def are_numbers(names: Sequence[str], header: Sequence[str]) -> bool:
    """Return whether names are numbers of columns, of a table without a header whose first row is ``header``."""
    if all(name in header for name in names):
        return False
    return all(0 <= parse_index(name) < len(header) for name in names)


def _no_layout(
    path: Path, header: Sequence[str], kinds: Sequence[str], renamed: Mapping[str, str]
) -> UsageError:
    """Return the error for a table of no layout, with the layout that lacks the fewest columns."""
    mismatch = "are those of no kind of data" if len(kinds) > 1 else f"are not those of {kinds[0]}"
    # The first line of a file without a header holds texts.
    names = f"{len(header)} columns" if without_texts() else f"the columns {', '.join(header)}"
    problem = f"{path} has {names}, which {mismatch}"

    options = {column for kind in kinds for column in TABLES[kind]}
    if len(kinds) > 1:
        # positive= may be a label of pairs.
        options.discard("positive")
    for option, name in renamed.items():
        if option in options and name not in header and not are_numbers([name], header):
            return UsageError(f"{path} has no column {name!r}", f"It has {names}.")

    # Names that differ in case or in spaces at their ends are similar.
    similar = {name.strip().lower(): name for name in header}
    missing: dict[str, list[str]] = {}
    unlike: dict[str, list[str]] = {}
    for kind in kinds:
        missing[kind] = [name for name in TABLES[kind] if renamed.get(name, name) not in header]
        unlike[kind] = [name for name in missing[kind] if name not in similar]
    nearest = min(kinds, key=lambda kind: (len(unlike[kind]), len(missing[kind])))
    if not missing[nearest]:
        return UsageError(
            problem, f"If they are of {nearest}, name the kind: {path}:kind={nearest}"
        )
    if len(unlike[nearest]) == len(TABLES[nearest]):
        known = [f"{', '.join(TABLES[kind])} ({kind})" for kind in kinds]
        hint = f"Known columns: {'; '.join(known)}"
    else:
        hint = f"For {nearest} it needs {', '.join(missing[nearest])}"
    renames = ",".join(f"{name}={similar.get(name, 'ITS_NAME')}" for name in missing[nearest])
    return UsageError(
        problem, f"{hint}. Columns of other names: {path}:{renames}, or --columns for each."
    )


def as_option(column: str) -> str:
    """Return the option that renames a column: ``id`` for ``_id``, ``query`` for ``query-id``, else its name."""
    return column.removeprefix("_").removesuffix("-id")
