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

A table is CSV, TSV, JSON (also ``.gz``) or Parquet. Other usual names of its columns are recognised (``USUAL``). Its split
is the column ``split``, or in a folder the name of the file (``train.csv``, ``test.csv``).
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
"""Kinds that are not recognised by their columns, which are those of others too."""
NAMES, MENTIONS = ("name", "id"), ("mention", "id")
"""Columns of the two tables of ``linking``."""
DOCUMENTS, JUDGEMENTS = ("_id", "text"), ("query-id", "corpus-id", "score")
"""Columns of the files of ``retrieval``; documents may have a ``title``."""
CANDIDATES, LISTED_CANDIDATES = ("query-id", "corpus-id"), ("query-id", "corpus-ids")
"""Columns of candidates for ``reranking``: one in a row, or the list of a query."""
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
"""The same of documents and queries."""
USUAL_JUDGEMENTS: dict[str, tuple[str, ...]] = {
    "query-id": ("query_id", "qid", "topic_id", "topic"),
    "corpus-id": ("corpus_id", "doc_id", "docid", "docno", "document_id", "pid", "passage_id"),
    "score": ("relevance", "rel", "grade", "label"),
}
"""The same of judgements."""
USUAL_CANDIDATES: dict[str, tuple[str, ...]] = {
    **USUAL_JUDGEMENTS,
    "corpus-ids": ("corpus_ids", "doc_ids", "docids", "document_ids", "pids", "passage_ids"),
}
"""The same of candidates."""
_TEXTS = {
    name
    for column in ("sentence1", "sentence2", "anchor", "positive", "negative", "text")
    for name in (column, *USUAL[column])
}
"""Names of columns of texts; one that is left over says that the kind is another."""
KINDS = ("retrieval", *TABLES, "linking")
TRAIN, TEST = "train", "test"
NO_SPLIT = "none"
"""Value of the option ``split`` that says that a column of this name is none."""
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
    """Names of columns in the tables, by option, if they differ; ``positive`` of pairs is a label, and ``split`` may be ``NO_SPLIT``."""
    usual: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Other usual names of columns in the tables, by part and column."""
    chosen: Sequence[str] = ()
    """Remarks on tables that were chosen among others."""
    notes: list[str] = field(default_factory=list, compare=False)
    """Remarks on how the tables were read, after ``rows``."""

    @property
    def recognised(self) -> list[str]:
        """Remarks on tables that were chosen, and on columns that were recognised under other usual names."""
        columns = {
            part: f"columns {', '.join(names.values())} read as {', '.join(names)}"
            for part, names in self.usual.items()
            if names
        }
        if len(self.tables) > 1 and self.kind in ("retrieval", "reranking", "linking"):
            columns = {part: f"{self.tables[part].file.name}: {columns[part]}" for part in columns}
        return list(dict.fromkeys((*self.chosen, *columns.values())))

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
            self.notes.append(message if len(self.tables) == 1 else f"{table.file.name}: {message}")

        yield from table.rows(names, note, named=not are_numbers(names, table.columns()))

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
    root = root_of(path)
    tables = tables_in(root, but=(QRELS, TOP_RANKED))
    texts = {
        "corpus": _part(root, tables, "corpus", _COLLECTION),
        "queries": _part(root, tables, "queries"),
    }
    judgements, candidates = _tables_named(root, QRELS), _tables_named(root, TOP_RANKED)
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
    if kind in ("", "linking") and len(tables) > 1 and (linking := _linking(path, tables, renamed)):
        return linking
    if kind == "linking":
        hint = "Linking needs a table with the columns name, id and one with mention, id."
        raise UsageError(f"{path} is not a folder of a dictionary and mentions", hint)
    layout = _labelled_table(path, _split_tables(path, tables), kind, renamed)
    if not kind and layout.kind == "triplets" and _holds_lists(layout):
        layout = _labelled_table(path, _split_tables(path, tables), "reranking", renamed)
    return replace(layout, chosen=list(_chosen(layout, len(tables) > 1)))


def _holds_lists(layout: DataLayout) -> bool:
    """Whether the first row of triplets that is not empty has a list, so that it is one of a query."""
    rows = (cells for _, cells in layout.rows(TEST, TABLES["triplets"][1:]))
    first = next((cells for cells in rows if any(cells)), ())
    layout.notes.clear()
    return any(map(is_list, first))


def _chosen(layout: DataLayout, among_others: bool) -> Iterator[str]:
    """Remarks on the tables that are read where their names do not say it all."""
    test, train = layout.tables[TEST], layout.tables.get(TRAIN)
    if among_others and test.name != TEST:
        yield f"rows of {test.file.name}"
    if train and train.name != TRAIN:
        yield f"trained on {train.file.name}"
    if (n := shards_of(test.file)) > len(test.files):
        yield f"one of {n} shards; all of them are read where their folder is named"


_COLLECTION = "collection"
"""Name of MS MARCO for documents."""
QRELS, TOP_RANKED = "qrels", "top_ranked"
"""Names of files or folders of judgements, and of candidates."""


def _part(path: Path, tables: Mapping[str, OwnTable], *names: str) -> OwnTable | None:
    """The table of one of several names, or the only one in a folder of such a name."""
    for name in names:
        found = [tables[name]] if name in tables else [*tables_in(path / name).values()]
        if len(found) == 1:
            return found[0]
    return None


def _tables_named(path: Path, name: str) -> list[OwnTable]:
    """The tables in the folder ``name``, and those beside it that bear the name, in the order of ``_rank_of_split``."""
    beside = [file for file in files_in(path) if file.name.startswith(name)]
    files = [file for file in (*files_in(path / name), *beside) if _is_table_named(file, name)]
    return sorted(whole_tables(files), key=_rank_of_split)


def _rank_of_split(table: OwnTable) -> tuple[bool, bool, bool]:
    """The order in which tables are chosen: of the test split, of no split, without other words in their name."""
    splits = _splits_in(table.file)
    words = {*re.split(r"[-_. ]", table.file.name.partition(".")[0])}
    return (
        TEST not in splits,
        bool(splits),
        not words <= {*splits, *_WORDS_OF_NAMES} and not shards_of(table.file) > 1,
    )


_WORDS_OF_NAMES = (QRELS, *TOP_RANKED.split("_"))


def _is_table_named(file: Path, name: str) -> bool:
    """Whether a file is a table by its ending, or text that is called ``name`` or after a split, as files of TREC are."""
    if file.name.startswith("."):
        return False
    ending = file.name.lower().removesuffix(".gz")
    is_text = ending.endswith((".txt", ".run", ".trec")) or "." not in ending
    return stem(file) in (*SPLITS, name) if is_text else format_of(file.name) != PLAIN_TEXT


def _splits_in(file: Path) -> set[str]:
    """The splits that the name of a file holds: ``sts-dev.csv``, ``qrels.test.tsv``."""
    return {*re.split(r"[-_. ]", file.name.lower())} & {*SPLITS}


def _retrieval(
    path: Path,
    root: Path,
    texts: Mapping[str, OwnTable | None],
    judgements: Sequence[OwnTable],
    renamed: Mapping[str, str],
) -> DataLayout:
    tables = {part: table for part, table in texts.items() if table}
    if len(tables) == len(texts) and not judgements:  # as the hub has it
        judgements = [table for name, table in tables_in(root / "data").items() if name == TEST]
    missing = [*sorted(texts.keys() - tables.keys()), *([] if judgements else ["judgements"])]
    if missing:
        hint = "Retrieval needs corpus.jsonl, queries.jsonl and qrels/test.tsv."
        raise UsageError(f"{path} has no {' and no '.join(missing)}", hint)
    usual = {
        part: _usual(table.columns(), DOCUMENTS, renamed, USUAL_TEXTS[part])
        for part, table in tables.items()
    }
    qrels = _first_table(path, judgements, "judgements")
    if qrels.format != PLAIN_TEXT:
        usual[QRELS] = _usual(qrels.columns(), JUDGEMENTS, renamed, USUAL_JUDGEMENTS)
    return DataLayout(path, "retrieval", {**tables, QRELS: qrels}, renamed, usual)


def _first_table(path: Path, tables: Sequence[OwnTable], what: str) -> OwnTable:
    """The first table; a ``UsageError`` if another has the same rank, so that it is not certain which is meant."""
    first, *others = tables
    same = [table.file.name for table in others if _rank_of_split(table) == _rank_of_split(first)]
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
    """The layout of a collection with its candidates."""
    table = _first_table(collection.path, candidates, "candidates")
    usual = dict(collection.usual)
    if table.format != PLAIN_TEXT:
        for columns in (LISTED_CANDIDATES, CANDIDATES):
            found = _usual(table.columns(), columns, collection.renamed, USUAL_CANDIDATES)
            usual[TOP_RANKED] = {**found, **usual.get(TOP_RANKED, {})}
    tables = {**collection.tables, TOP_RANKED: table}
    is_chosen = len(candidates) > 1 or table.name not in (TEST, TOP_RANKED)
    chosen = (f"candidates of {table.file.name}",) if is_chosen else ()
    return replace(collection, kind="reranking", tables=tables, usual=usual, chosen=chosen)


def _linking(
    path: Path, tables: Mapping[str, OwnTable], renamed: Mapping[str, str]
) -> DataLayout | None:
    """The layout of a dictionary and mentions, if there are tables of both."""
    columns = {name: table.columns() for name, table in tables.items()}
    fitting = {
        part: [tables[name] for name in tables if _have(columns[name], needed, renamed)]
        for part, needed in (("names", NAMES), ("mentions", MENTIONS))
    }
    if not all(fitting.values()):
        return None
    for several in fitting.values():
        if len(several) > 1:
            repeated = ", ".join(table.name for table in several)
            raise UsageError(
                f"{path} has several tables of one kind: {repeated}", "Leave one in the folder."
            )
    return DataLayout(path, "linking", {part: found[0] for part, found in fitting.items()}, renamed)


def _split_tables(path: Path, tables: Mapping[str, OwnTable]) -> dict[str, OwnTable]:
    """The tables of a split, by their names or words in them (``sts-train``, ``sts-test``), or the only one as the test split."""
    split: dict[str, OwnTable] = {}
    for part in (TRAIN, TEST):
        named = [table for table in tables.values() if _splits_in(table.file) == {part}]
        found = [tables[part]] if part in tables else named
        if len(found) > 1:
            names = ", ".join(table.file.name for table in found)
            raise UsageError(f"{path} has several tables {part}: {names}", "Name one of them.")
        if found:
            split[part] = found[0]
    if TEST in split:
        return split
    if len(tables) > 1 or (TRAIN in split and split[TRAIN].file != path):
        hint = "Name one of these files test. Linking needs two tables, with the columns name, id and mention, id."
        raise UsageError(
            f"{path} has no table test, but {', '.join(table.file.name for table in tables.values())}",
            hint,
        )
    return {TEST: next(iter(tables.values()))}


def _check_names(path: Path, tables: Mapping[str, OwnTable]) -> None:
    """Refuse tables of a split whose names differ before the word for it: they may be of two data sets."""
    train, test = (tables[part].name.lower().partition(part) for part in (TRAIN, TEST))
    if train[0] != test[0] or train[2] not in ("", test[2]):
        names = [tables[part].file.name for part in (TRAIN, TEST)]
        raise UsageError(
            f"{path}: it is not certain that {names[0]} is trained on for {names[1]}",
            "Name them alike: train and test, or my-train and my-test.",
        )


def _labelled_table(
    path: Path, tables: Mapping[str, OwnTable], kind: str, renamed: Mapping[str, str]
) -> DataLayout:
    """The layout of one of ``TABLES``, by the columns of the test split."""
    file, has = tables[TEST].file, tables[TEST].columns()
    kinds = [kind] if kind in TABLES else [name for name in TABLES if name not in NOT_BY_COLUMNS]
    fits = [name for name in kinds if _have(has, TABLES[name], renamed)]
    usual = {} if fits else {name: _usual(has, TABLES[name], renamed) for name in kinds}
    recognised = [
        name
        for name, found in usual.items()
        if found and not _has_other_texts(has, TABLES[name], renamed, found)
    ]
    if not fits and not recognised:
        has_query = not kind and any(name.strip().lower() == "query" for name in has)
        raise _nearest(path, has, [*kinds, *(["reranking"] if has_query else [])], renamed)
    if not fits:
        # A pair with a label has a text with a label too.
        most = max(len(TABLES[name]) for name in recognised)
        fits = [name for name in recognised if len(TABLES[name]) == most]
    if len(fits) > 1:
        hint = f"Name the kind: kind={fits[0]}, behind the path and a colon, or --kind {fits[0]}."
        raise UsageError(f"{file} has the columns of {' and of '.join(fits)}", hint)
    if TRAIN in tables and (renamed.get("split", "split") in has):
        raise UsageError(
            f"{file} has a column {renamed.get('split', 'split')!r}, and {tables[TRAIN].file.name} lies beside it: both say "
            "which rows are trained on",
            f"Remove the column, or put all rows into one file and leave {tables[TRAIN].file.name} out.",
        )
    if len({renamed.get(column, column) for column in TABLES[fits[0]]}) < len(TABLES[fits[0]]):
        raise UsageError(
            f"{file}: two columns of {fits[0]} are renamed to one column", "Name another for each."
        )
    names = usual.get(fits[0], {})
    # Only classifiers are trained.
    is_trained = fits[0] == "classification" and TRAIN in tables
    if is_trained:
        _check_names(path, tables)
    read = tables if is_trained else {TEST: tables[TEST]}
    return DataLayout(path, fits[0], read, renamed, {part: names for part in read})


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
    names = [renamed.get(as_option(column), column) for column in needed]
    return all(name in has for name in names) or are_numbers(names, has)


def are_numbers(names: Sequence[str], has: Sequence[str]) -> bool:
    """Return whether names are numbers of columns, of a table without a header whose first row is ``has``."""
    numbers = [parse_index(name) for name in names]
    return all(0 <= number < len(has) for number in numbers) and not all(
        name in has for name in names
    )


def _nearest(
    path: Path, has: Sequence[str], kinds: Sequence[str], renamed: Mapping[str, str]
) -> UsageError:
    """The error for a table of no layout, with the layout that lacks the fewest columns."""
    mismatch = "are those of no kind of data" if len(kinds) > 1 else f"are not those of {kinds[0]}"
    # The first line of a file without a header holds texts.
    names = f"{len(has)} columns" if without_texts() else f"the columns {', '.join(has)}"
    problem = f"{path} has {names}, which {mismatch}"
    needed = {column for kind in kinds for column in TABLES[kind]}
    if len(kinds) > 1:  # it may be a label of pairs
        needed.discard("positive")
    absent = [
        name
        for column, name in renamed.items()
        if column in needed and not (name in has or are_numbers([name], has))
    ]
    if absent:
        return UsageError(f"{path} has no column {absent[0]!r}", f"It has {names}.")
    similar = {name.strip().lower(): name for name in has}
    missing = {kind: [c for c in TABLES[kind] if renamed.get(c, c) not in has] for kind in kinds}
    unlike = {kind: [c for c in missing[kind] if c not in similar] for kind in kinds}
    near = min(kinds, key=lambda kind: (len(unlike[kind]), len(missing[kind])))
    if not missing[near]:
        return UsageError(problem, f"If they are of {near}, name the kind: {path}:kind={near}")
    hint = f"For {near} it needs {', '.join(missing[near])}"
    if len(unlike[near]) == len(TABLES[near]):
        hint = "Known columns: " + "; ".join(
            f"{', '.join(TABLES[kind])} ({kind})" for kind in kinds
        )
    renames = ",".join(f"{c}={similar.get(c, 'ITS_NAME')}" for c in missing[near])
    return UsageError(
        problem, f"{hint}. Columns of other names: {path}:{renames}, or --columns for each."
    )


def as_option(column: str) -> str:
    """Return the option that renames a column: ``id`` for ``_id``, ``query`` for ``query-id``, else its name."""
    return column.removeprefix("_").removesuffix("-id")
