"""Reading of a user's data: the task of a path, and its items from the checked rows of tables."""

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
from mirrorbench.data.readers.folders import root_of
from mirrorbench.data.readers.values import is_list
from mirrorbench.models.pooling import STATED
from mirrorbench.own_data.checked_rows import read_texts
from mirrorbench.own_data.classification import Classification
from mirrorbench.own_data.clustering import Clustering
from mirrorbench.own_data.collection import check_ranking_requirements, read_collection
from mirrorbench.own_data.labelled_texts import LabelledText
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
from mirrorbench.own_data.tables import OwnTable, tables_in
from mirrorbench.own_data.tasks import (
    Linking,
    LinkingData,
    OwnData,
    Pairs,
    Similarity,
    Triplet,
    Triplets,
)
from mirrorbench.storage.files import resolved
from mirrorbench.tasks.base import TaskKind

LABEL_MEANINGS = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "y", "t"), 1.0),
    **dict.fromkeys(("0", "0.0", "-1", "-1.0", "false", "no", "n", "f"), 0.0),
}
"""Labels of pairs whose meaning is certain, in small letters."""
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
"""A number without leading zeros, which are kept in codes such as 007."""
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_RANKING_KINDS = ("retrieval", "reranking")
"""Kinds that rank documents by BM25 too, in a language."""
_MAX_LABELS = 5
"""The largest number of labels that a message lists."""


def make_task(name: str, path: Path, options: Mapping[str, Any]) -> TaskKind[Any] | None:
    """Make a task of the data at a path; its items are read when it is loaded. ``None`` if the path holds no tables.

    Args:
        name: the name of the task.
        path: a file, folder or archive.
        options: ``kind``, ``metric``, ``language`` (of BM25), and names of columns in the files.

    Raises:
        UsageError: an option is unknown or not for this kind, or columns match no layout.
    """
    # All options but these name columns; of pairs, ``positive`` names a label.
    settings = ("kind", "metric", "language")
    known_options = [*settings, *sorted(_known_column_options())]
    kind = str(options.get("kind", ""))
    metric = str(options.get("metric", ""))
    unknown_options = [key for key in options if key not in known_options]
    is_unknown_kind = bool(kind) and kind not in KINDS
    # They may be those of another reader, for data in a format of its own.
    if (unknown_options or is_unknown_kind) and not tables_in(root_of(path)):
        return None
    if unknown_options:
        raise unknown_name("option of own data", unknown_options[0], known_options)
    if is_unknown_kind:
        raise unknown_name("kind of own data", kind, list(KINDS))
    column_options = {key: str(value) for key, value in options.items() if key not in settings}
    layout = find_layout(path, kind, column_options)
    if layout is None:
        return None

    _check_options_of_kind(name, layout.kind, options)
    task_class = _TASK_CLASSES[layout.kind]

    # The function that reads the items when the task is loaded.
    read_items = partial(_READERS[layout.kind], layout)
    if layout.kind in _RANKING_KINDS:
        language = str(options.get("language", "")) or "en"
        check_ranking_requirements(path, layout.kind, language)
        read_items = partial(read_items, language=language)
    # Texts in brackets are triplets' texts only if the user gave the kind; else they may be lists of candidates.
    if layout.kind == "triplets":
        read_items = partial(read_items, kind_is_given=bool(kind))
    # A task passes the data store to the function, which own data are not in.
    task: TaskKind[Any] = task_class(
        name, lambda data: read_items(), title=resolved(path).name, main_metric=metric
    )
    # As many tokens of a text are read as the model's files state.
    task.max_length = STATED
    assert isinstance(task, OwnData)
    task.layout = layout
    return task


def _check_options_of_kind(name: str, kind: str, options: Mapping[str, Any]) -> None:
    """Raise a ``UsageError`` for an option that the kind of the data does not have, or an unknown ``metric``.

    Args:
        name: the name of the task, for messages.
        kind: the kind of the data.
        options: the options of the user.
    """
    if str(options.get("language", "")) and kind not in _RANKING_KINDS:
        raise UsageError(
            f"{name}: language= is only for retrieval and reranking, not for {kind}",
            "Leave it out.",
        )
    if "positive" in options and kind not in ("pairs", "triplets", "reranking"):
        raise UsageError(
            f"{name}: positive= is a label of pairs or a column of triplets and reranking, not of {kind}",
            "Leave it out.",
        )
    metric = str(options.get("metric", ""))
    measures = _TASK_CLASSES[kind].measures
    if metric and metric not in measures:
        raise unknown_name(f"measure of {kind}", metric, list(measures))


def _known_column_options() -> set[str]:
    """Return the options that name a column in any layout."""
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


def unify_numbers(*columns: Sequence[str]) -> list[list[str]]:
    """Return columns with whole numbers written in one way, ``1`` for ``1.0``, if all values are numbers."""
    if not all(_PLAIN_NUMBER.fullmatch(value) for column in columns for value in column):
        return [list(column) for column in columns]
    return [list(map(_without_zero_fraction, column)) for column in columns]


def _unified(values: Sequence[str]) -> list[str]:
    """Return the values of one column as ``unify_numbers`` does."""
    return unify_numbers(values)[0]


def unify_ids(*columns: Sequence[str]) -> list[list[str]]:
    """Return columns as ``unify_numbers`` does, unless ids of one column would become equal (``1`` and ``1.0``)."""
    unified_columns = unify_numbers(*columns)
    for column, unified_column in zip(columns, unified_columns, strict=True):
        if len(set(unified_column)) < len(set(column)):
            return [list(column) for column in columns]
    return unified_columns


def _without_zero_fraction(number: str) -> str:
    """Return ``1`` for ``1.00``; other numbers unchanged, since 1.1 and 1.10 may be versions or sections."""
    whole, _, fraction = number.partition(".")
    if fraction.strip("0"):
        return number
    return "0" if whole == "-0" else whole


def _read_pairs(layout: DataLayout, column: str) -> list[Pair]:
    """Read pairs with a number each, from the column ``label`` or ``score``."""
    source = str(layout.tables[TEST])
    rows = read_texts(layout, TEST, ("sentence1", "sentence2", column))
    lines_and_values = [(line, value) for line, (*_, value) in rows]
    if column == "label":
        gold = _pair_labels(layout, lines_and_values)
    else:
        gold = _pair_scores(layout, lines_and_values)
    if len(set(gold)) < 2:
        raise DataFormatError(
            f"{source}: all {column}s are equal, so that nothing can be measured."
        )
    pairs = []
    for (line, (left, right, _)), value in zip(rows, gold, strict=True):
        pairs.append(Pair(str(line), left, right, value))
    return pairs


def _pair_labels(layout: DataLayout, lines_and_labels: Sequence[tuple[int, str]]) -> list[float]:
    """Return the label of each pair as 1 or 0.

    If the user named the positive label, it is 1 and all others are 0. Otherwise labels mean what ``LABEL_MEANINGS`` says.

    Args:
        layout: the layout of the data.
        lines_and_labels: line number and label of each pair, as they stand in the file.

    Raises:
        DataFormatError: no label is the positive one that the user named, or none was named and it is not certain which
            labels are positive.
    """
    written_labels = [label for _, label in lines_and_labels]
    labels = _unified(_with_decimal_points(layout, written_labels, "labels"))
    distinct_labels = sorted(set(labels))
    (positive,) = _unified([layout.positive])
    if positive in distinct_labels:
        return [float(label == positive) for label in labels]

    # The meaning of a label is 1 or 0; None if it is unknown.
    meanings = {label: LABEL_MEANINGS.get(label.lower()) for label in distinct_labels}
    uncertain = [label for label, meaning in meanings.items() if meaning is None]
    # Where there are labels of 0, -1 often marks pairs without a label.
    if meanings.keys() & {"0", "0.0"}:
        uncertain += sorted(meanings.keys() & {"-1", "-1.0"})
    # In data of entailment, 0 often marks premises that entail the hypothesis.
    is_entailment = layout.file_column("sentence1").strip().lower() == "premise"
    zero_may_be_positive = is_entailment and len(distinct_labels) == 2
    # Here, a positive label that the user named is not among the labels.
    if positive or uncertain or zero_may_be_positive:
        uncertain_rows = []
        for (line, _), label in zip(lines_and_labels, labels, strict=True):
            if label in uncertain:
                uncertain_rows.append((line, label))
        raise _uncertain_labels_error(layout, distinct_labels, uncertain, uncertain_rows)
    # Every label has a meaning here: ``or`` only satisfies the type checker.
    return [meanings[label] or 0.0 for label in labels]


def _uncertain_labels_error(
    layout: DataLayout,
    distinct_labels: Sequence[str],
    uncertain: Sequence[str],
    uncertain_rows: Sequence[tuple[int, str]],
) -> DataFormatError:
    """Return the error for labels without the positive one that the user named, or of which it is not certain.

    Args:
        layout: the layout of the data.
        distinct_labels: all labels, each once.
        uncertain: the labels without a certain meaning.
        uncertain_rows: line number and label of each row with such a label.
    """
    source = str(layout.tables[TEST])
    labels = ", ".join(map(shown, distinct_labels[:_MAX_LABELS]))
    if len(distinct_labels) > _MAX_LABELS:
        labels += ", ..."
    if layout.positive:
        problem = f"{source}: no label is {shown(layout.positive)}, the positive one."
        return DataFormatError(problem, f"There are: {labels}")
    option = f"{layout.path}:positive=LABEL"
    if len(distinct_labels) == 2:
        choices = [option]
        # Commas, colons and equals signs separate options; texts of users may have to be hidden.
        has_separators = any({*label} & {*",:="} for label in distinct_labels)
        if not without_texts() and not has_separators:
            choices = [shlex.quote(f"{layout.path}:positive={label}") for label in distinct_labels]
        return DataFormatError(
            f"{source}: the labels are {labels}, and it is not certain which is the positive one.",
            f"Name it: {' or '.join(choices)}",
        )
    # If some labels are certain, or there is only one, the first uncertain label may be a mistake in its line.
    if len(uncertain) < len(distinct_labels) or len(distinct_labels) == 1:
        hint = (
            f"If it is one of the labels, name the positive one; all others are negative: {option}"
        )
        line, label = uncertain_rows[0]
        return line_error(source, line, f"the label {shown(label)} is not 1 or 0", hint)
    return DataFormatError(
        f"{source} has {len(distinct_labels)} labels, {labels}, and pairs have two.",
        f"Name the positive one; all others are negative: {option}",
    )


def _with_decimal_points(layout: DataLayout, values: Sequence[str], noun: str) -> list[str]:
    """Return numbers with decimal points if they have decimal commas (0,5), and add a note to the layout.

    Args:
        layout: the layout of the data.
        values: all values of a column.
        noun: what the values are, for the note.
    """
    has_commas = any("," in value for value in values)
    if not has_commas or not _may_have_decimal_commas(layout.tables[TEST]):
        return list(values)
    if not _are_decimal_commas(values):
        return list(values)
    layout.notes.append(f"{noun} have decimal commas")
    return [value.replace(",", ".") for value in values]


def _may_have_decimal_commas(table: OwnTable) -> bool:
    """Return whether a table is of a spreadsheet's format, and commas do not separate its columns."""
    if table.format == "csv":
        return separator_of(table.file) != ","
    return table.format in ("tsv", "xlsx")


def _are_decimal_commas(values: Sequence[str]) -> bool:
    """Return whether the commas of values are decimal ones; with three digits after each, 1,000 may be a thousand."""
    if not all(map(_DECIMAL_COMMA.fullmatch, values)):
        return False
    return any(len(value.partition(",")[2]) not in (0, 3) for value in values)


def _pair_scores(layout: DataLayout, lines_and_scores: Sequence[tuple[int, str]]) -> list[float]:
    """Return the score of each pair; ``lines_and_scores`` are line numbers and scores as they stand in the file.

    Raises:
        DataFormatError: a score is not a finite number.
    """
    values = _with_decimal_points(layout, [value for _, value in lines_and_scores], "scores")
    scores = []
    for (line, value), text in zip(lines_and_scores, values, strict=True):
        number = _number(text)
        if number is None:
            problem = f"the score {shown(value)} is not a number such as 4.5"
            raise line_error(str(layout.tables[TEST]), line, problem)
        scores.append(number)
    return scores


def _number(text: str) -> float | None:
    """Parse a finite number; return ``None`` for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    # float also reads 1_000, and digits of other scripts.
    is_plain = text.isascii() and "_" not in text
    return value if is_plain and isfinite(value) else None


def _read_triplets(layout: DataLayout, kind_is_given: bool) -> list[Triplet]:
    """Read triplets; raise a ``DataFormatError`` for a text that looks like a list, unless the user gave the kind."""
    columns = TABLES["triplets"]
    rows = read_texts(layout, TEST, columns)
    if not kind_is_given:
        for line, texts in rows:
            for text, column in zip(texts, columns, strict=True):
                if is_list(text):
                    raise line_error(
                        str(layout.tables[TEST]),
                        line,
                        f"the column {layout.file_column(column)!r} holds a list here, but texts before",
                        f"{layout.path}:kind=reranking takes lists, and kind=triplets reads texts in brackets.",
                    )
    return [Triplet(str(line), *texts) for line, texts in rows]


def _read_labelled_texts(layout: DataLayout) -> list[LabelledText]:
    """Read texts with labels; those of the training split, if there is one, come first.

    Raises:
        DataFormatError: there is only one label to train on.
    """
    columns = TABLES["classification"]
    has_training_file = TRAIN in layout.tables
    train_part = TRAIN if has_training_file else TEST
    train: list[tuple[int, list[str]]] = []
    if has_training_file or layout.split_column:
        train = read_texts(layout, train_part, columns, TRAIN)
    test = read_texts(layout, TEST, columns)
    # Labels of both splits are written in one way, so that equal ones match.
    train_labels, test_labels = unify_numbers(
        [label for _, (_, label) in train], [label for _, (_, label) in test]
    )
    # Without a training split, the test split is trained on in folds.
    if len(set(train_labels or test_labels)) < 2:
        raise DataFormatError(
            f"{layout.tables[train_part]}: all labels that are trained on are equal."
        )
    # Ids must differ, and two files have the same line numbers.
    prefix = "train " if has_training_file else ""
    items = []
    for (line, (text, _)), label in zip(train, train_labels, strict=True):
        items.append(LabelledText(f"{prefix}{line}", text, label, train=True))
    for (line, (text, _)), label in zip(test, test_labels, strict=True):
        items.append(LabelledText(str(line), text, label, train=False))
    return items


def _read_clustering(layout: DataLayout) -> list[LabelledText]:
    """Read texts with labels, all of which are scored."""
    rows = read_texts(layout, TEST, TABLES["clustering"])
    labels = _unified([label for _, (_, label) in rows])
    items = []
    for (line, (text, _)), label in zip(rows, labels, strict=True):
        items.append(LabelledText(str(line), text, label, train=False))
    return items


def _read_linking(layout: DataLayout) -> LinkingData:
    """Read a dictionary, in which repeated rows of name and id count once, and mentions."""
    name_rows = read_texts(layout, "names", NAMES)
    mention_rows = read_texts(layout, "mentions", MENTIONS)
    name_ids, gold_ids = unify_ids(
        [name_id for _, (_, name_id) in name_rows], [gold_id for _, (_, gold_id) in mention_rows]
    )
    names: dict[tuple[str, str], None] = {}
    for (_, (name, _)), name_id in zip(name_rows, name_ids, strict=True):
        names[name, name_id] = None
    mentions = []
    for (line, (mention, _)), gold_id in zip(mention_rows, gold_ids, strict=True):
        mentions.append((str(line), mention, gold_id))
    return LinkingData(tuple(names), tuple(mentions))


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
    "similarity": partial(_read_pairs, column="score"),
    "pairs": partial(_read_pairs, column="label"),
    "triplets": _read_triplets,
    "classification": _read_labelled_texts,
    "clustering": _read_clustering,
    "linking": _read_linking,
}
