"""Reading of own data: the task of a path, and its items from checked rows of tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError, unknown_name
from mirrorbench.core.quoting import shown, without_texts
from mirrorbench.data.items import Pair
from mirrorbench.data.readers.columns import line_error
from mirrorbench.data.readers.csv_tables import separator_of
from mirrorbench.data.readers.values import is_list
from mirrorbench.models.pooling import STATED
from mirrorbench.own_data.checked_rows import read_texts
from mirrorbench.own_data.classification import Classification
from mirrorbench.own_data.clustering import Clustering
from mirrorbench.own_data.collection import check_ranking, read_collection
from mirrorbench.own_data.labelled_texts import Labelled
from mirrorbench.own_data.layouts import (
    DOCUMENTS,
    JUDGEMENTS,
    KINDS,
    LISTED_CANDIDATES,
    MENTIONS,
    NAMES,
    TABLES,
    TEST,
    TRAIN,
    DataLayout,
    as_option,
    find_layout,
)
from mirrorbench.own_data.ranking_tasks import Reranking, Retrieval
from mirrorbench.own_data.reranking import read_candidates
from mirrorbench.own_data.tables import OwnTable
from mirrorbench.own_data.tasks import (
    Linked,
    Linking,
    OwnData,
    Pairs,
    Similarity,
    Triplet,
    Triplets,
)
from mirrorbench.storage.files import resolved
from mirrorbench.tasks.base import TaskKind

LABELS = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "y", "t"), 1.0),
    **dict.fromkeys(("0", "0.0", "-1", "-1.0", "false", "no", "n", "f"), 0.0),
}
"""Labels of pairs whose meaning is certain, in small letters."""
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")


def make_task(name: str, path: Path, options: Mapping[str, Any]) -> TaskKind[Any] | None:
    """Make the task of a path; ``None`` if its files are no tables.

    Options are ``kind``, ``metric``, ``language`` (of BM25), and names of columns in the files.
    """
    settings = ("kind", "metric", "language")
    columns = _columns_of_options()
    for key in options:
        if key not in {*settings, *columns}:
            raise unknown_name("option of own data", key, [*settings, *sorted(columns)])
    kind = str(options.get("kind", ""))
    metric = str(options.get("metric", ""))
    language = str(options.get("language", ""))
    if kind and kind not in KINDS:
        raise unknown_name("kind of own data", kind, list(KINDS))
    renamed = {key: str(value) for key, value in options.items() if key not in settings}
    layout = find_layout(path, kind, renamed)
    if layout is None:
        return None

    is_ranked = layout.kind in ("retrieval", "reranking")
    if language and not is_ranked:
        raise UsageError(
            f"{name}: language= is only for retrieval and reranking, not for {layout.kind}",
            "Leave it out.",
        )
    if "positive" in options and layout.kind not in ("pairs", "triplets", "reranking"):
        raise UsageError(
            f"{name}: positive= is a label of pairs or a column of triplets and reranking, not of {layout.kind}",
            "Leave it out.",
        )
    task_class = _TASK_CLASSES[layout.kind]
    if metric and metric not in task_class.measures:
        raise unknown_name(f"measure of {layout.kind}", metric, list(task_class.measures))

    reader = partial(_READERS[layout.kind], layout)
    if is_ranked:
        language = language or "en"
        check_ranking(path, layout.kind, language)
        reader = partial(reader, language=language)
    if layout.kind == "triplets":
        reader = partial(reader, is_named=bool(kind))
    task: TaskKind[Any] = task_class(
        name, lambda data: reader(), title=resolved(path).name, main_metric=metric
    )
    task.max_length = STATED
    assert isinstance(task, OwnData)
    task.layout = layout
    return task


def _columns_of_options() -> set[str]:
    """Return the options that name columns of any layout."""
    tables = (
        *TABLES.values(),
        NAMES,
        MENTIONS,
        DOCUMENTS,
        JUDGEMENTS,
        LISTED_CANDIDATES,
        ("split",),
    )
    return {as_option(column) for columns in tables for column in columns}


_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
"""A number without leading zeros, which are kept in codes such as 007."""


def unified(*columns: Sequence[str]) -> list[list[str]]:
    """Write equal whole numbers in one way (``1`` and ``1.0``) if all columns hold nothing but numbers."""
    if not all(_PLAIN_NUMBER.fullmatch(value) for column in columns for value in column):
        return [list(column) for column in columns]
    return [list(map(_shortest, column)) for column in columns]


def unified_ids(*columns: Sequence[str]) -> list[list[str]]:
    """Write equal numbers in one way, unless one of the columns has a number in two ways, which are two ids then."""
    unified_columns = unified(*columns)
    for column, unified_column in zip(columns, unified_columns, strict=True):
        if len(set(unified_column)) < len(set(column)):
            return [list(column) for column in columns]
    return unified_columns


def _shortest(number: str) -> str:
    """Return a number without a fraction of zeros; 1.1 and 1.10 may be versions or sections."""
    whole, _, fraction = number.partition(".")
    if fraction.strip("0"):
        return number
    return "0" if whole == "-0" else whole


def _pairs(layout: DataLayout, column: str) -> list[Pair]:
    """Read pairs with the numbers of a column, ``label`` or ``score``."""
    source = str(layout.tables[TEST])
    rows = read_texts(layout, TEST, ("sentence1", "sentence2", column))
    written = [(line, value) for line, (*_, value) in rows]
    gold = _labels(layout, written) if column == "label" else _scores(layout, written)
    if len(set(gold)) < 2:
        raise DataFormatError(
            f"{source}: all {column}s are equal, so that nothing can be measured."
        )
    pairs = []
    for (line, (left, right, _)), value in zip(rows, gold, strict=True):
        pairs.append(Pair(str(line), left, right, value))
    return pairs


def _labels(layout: DataLayout, written: Sequence[tuple[int, str]]) -> list[float]:
    """Return the labels of pairs as 1 and 0, from their lines and values.

    The label that ``positive`` names is 1 and all others are 0; without a name, labels must have a certain meaning.
    """
    values = [value for _, value in written]
    values = unified(_with_decimal_points(layout, values, "labels"))[0]
    distinct = sorted(set(values))
    positive = unified([layout.positive])[0][0]
    if positive in distinct:
        return [float(value == positive) for value in values]

    meanings = {value: LABELS.get(value.lower()) for value in distinct}
    unknown = [value for value, meaning in meanings.items() if meaning is None]
    # Beside 0, -1 often stands for pairs without a label.
    if meanings.keys() & {"0", "0.0"}:
        unknown += sorted(meanings.keys() & {"-1", "-1.0"})
    # Of premises, 0 often stands for those that entail the hypothesis.
    is_entailment = layout.file_column("sentence1").strip().lower() == "premise"
    if positive or unknown or (is_entailment and len(distinct) == 2):
        lines = [line for (line, _), value in zip(written, values, strict=True) if value in unknown]
        raise _uncertain_labels(layout, distinct, unknown, lines)
    return [meanings[value] or 0.0 for value in values]


def _uncertain_labels(
    layout: DataLayout, distinct: Sequence[str], unknown: Sequence[str], lines: Sequence[int]
) -> DataFormatError:
    """Return the error for labels of which it is not certain which is the positive one.

    Args:
        layout: of the data.
        distinct: all labels.
        unknown: those of no certain meaning.
        lines: of these.
    """
    source = str(layout.tables[TEST])
    labels = ", ".join(map(shown, distinct[:_NAMED]))
    if len(distinct) > _NAMED:
        labels += ", ..."
    if layout.positive:
        problem = f"{source}: no label is {shown(layout.positive)}, the positive one."
        return DataFormatError(problem, f"There are: {labels}")
    option = f"{layout.path}:positive=LABEL"
    if len(distinct) == 2:
        ways = [option]
        # Commas, colons and equals signs separate options; texts of users may have to be hidden.
        has_separators = any({*label} & {*",:="} for label in distinct)
        if not without_texts() and not has_separators:
            ways = [shlex.quote(f"{layout.path}:positive={label}") for label in distinct]
        return DataFormatError(
            f"{source}: the labels are {labels}, and it is not certain which is the positive one.",
            f"Name it: {' or '.join(ways)}",
        )
    if len(unknown) < len(distinct) or len(distinct) == 1:
        hint = (
            f"If it is one of the labels, name the positive one; all others are negative: {option}"
        )
        problem = f"the label {shown(unknown[0])} is not 1 or 0"
        return line_error(source, lines[0], problem, hint)
    return DataFormatError(
        f"{source} has {len(distinct)} labels, {labels}, and pairs have two.",
        f"Name the positive one; all others are negative: {option}",
    )


_NAMED = 5
"""The largest number of labels that a message names."""


def _with_decimal_points(layout: DataLayout, values: Sequence[str], what: str) -> list[str]:
    """Return numbers with decimal points if they have decimal commas (0,5).

    Args:
        layout: of the data.
        values: all values of a column.
        what: noun of the values, for a remark.
    """
    has_commas = any("," in value for value in values)
    if not has_commas or not _is_of_spreadsheet(layout.tables[TEST]):
        return list(values)
    if not _have_decimal_commas(values):
        return list(values)
    layout.notes.append(f"{what} have decimal commas")
    return [value.replace(",", ".") for value in values]


def _is_of_spreadsheet(table: OwnTable) -> bool:
    """Return whether a spreadsheet may have written a table, with decimal commas; no if commas separate its columns."""
    if table.format == "csv":
        return separator_of(table.file) != ","
    return table.format in ("tsv", "xlsx")


def _have_decimal_commas(values: Sequence[str]) -> bool:
    """Return whether all values are numbers with decimal commas, or whole; 1,000 may be a thousand."""
    if not all(map(_DECIMAL_COMMA.fullmatch, values)):
        return False
    return any(len(value.partition(",")[2]) not in (0, 3) for value in values)


def _scores(layout: DataLayout, written: Sequence[tuple[int, str]]) -> list[float]:
    """Return the scores of pairs, from their lines and values."""
    values = _with_decimal_points(layout, [value for _, value in written], "scores")
    scores = []
    for (line, value), text in zip(written, values, strict=True):
        number = _number(text)
        if number is None:
            problem = f"the score {shown(value)} is not a number such as 4.5"
            raise line_error(str(layout.tables[TEST]), line, problem)
        scores.append(number)
    return scores


def _number(text: str) -> float | None:
    """Parse a finite number; ``None`` if the text is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    # float also reads 1_000, and digits of other scripts.
    is_plain = text.isascii() and "_" not in text
    return value if is_plain and isfinite(value) else None


def _triplets(layout: DataLayout, is_named: bool) -> list[Triplet]:
    """Read triplets; texts that look like lists are read only if the kind ``is_named``."""
    columns = TABLES["triplets"]
    rows = read_texts(layout, TEST, columns)
    if not is_named:
        for line, texts in rows:
            for text, column in zip(texts, columns, strict=True):
                if is_list(text):
                    raise line_error(
                        str(layout.tables[TEST]),
                        line,
                        f"the column {layout.file_column(column)!r} holds a list, and texts before",
                        f"{layout.path}:kind=reranking takes lists, and kind=triplets reads texts in brackets.",
                    )
    return [Triplet(str(line), *texts) for line, texts in rows]


def _labelled(layout: DataLayout) -> list[Labelled]:
    """Read texts with labels, those of the training split first."""
    columns = TABLES["classification"]
    has_training_file = TRAIN in layout.tables
    train_part = TRAIN if has_training_file else TEST
    train: list[tuple[int, list[str]]] = []
    if has_training_file or layout.split_column:
        train = read_texts(layout, train_part, columns, TRAIN)
    test = read_texts(layout, TEST, columns)
    train_labels, test_labels = unified(
        [label for _, (_, label) in train], [label for _, (_, label) in test]
    )
    if len(set(train_labels or test_labels)) < 2:
        raise DataFormatError(
            f"{layout.tables[train_part]}: all labels that are trained on are equal."
        )
    # Two files have the same line numbers.
    prefix = "train " if has_training_file else ""
    items = []
    for (line, (text, _)), label in zip(train, train_labels, strict=True):
        items.append(Labelled(f"{prefix}{line}", text, label, train=True))
    for (line, (text, _)), label in zip(test, test_labels, strict=True):
        items.append(Labelled(str(line), text, label, train=False))
    return items


def _clustered(layout: DataLayout) -> list[Labelled]:
    """Read texts with labels, all of them scored."""
    rows = read_texts(layout, TEST, TABLES["clustering"])
    labels = unified([label for _, (_, label) in rows])[0]
    items = []
    for (line, (text, _)), label in zip(rows, labels, strict=True):
        items.append(Labelled(str(line), text, label, train=False))
    return items


def _linked(layout: DataLayout) -> Linked:
    """Read a dictionary of names, each with an id once, and mentions."""
    name_rows = read_texts(layout, "names", NAMES)
    mention_rows = read_texts(layout, "mentions", MENTIONS)
    name_ids, gold_ids = unified_ids(
        [name_id for _, (_, name_id) in name_rows], [gold_id for _, (_, gold_id) in mention_rows]
    )
    names: dict[tuple[str, str], None] = {}
    for (_, (name, _)), name_id in zip(name_rows, name_ids, strict=True):
        names[name, name_id] = None
    mentions = []
    for (line, (mention, _)), gold_id in zip(mention_rows, gold_ids, strict=True):
        mentions.append((str(line), mention, gold_id))
    return Linked(tuple(names), tuple(mentions))


_TASK_CLASSES: dict[str, Any] = {
    task.kind: task
    for task in (
        Retrieval,
        Reranking,
        Similarity,
        Pairs,
        Triplets,
        Classification,
        Clustering,
        Linking,
    )
}
_READERS: dict[str, Any] = {
    "retrieval": read_collection,
    "reranking": read_candidates,
    "similarity": partial(_pairs, column="score"),
    "triplets": _triplets,
    "pairs": partial(_pairs, column="label"),
    "classification": _labelled,
    "clustering": _clustered,
    "linking": _linked,
}
