"""Own data read into the task of their kind: rows of tables, checked, as the items that the task scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from numbers import Number
from pathlib import Path
from typing import Any

from mirrorbench.plugin import DataFormatError, Pair, TaskKind, UsageError, line_error, shown, unknown_name
from mirrorbench_evaluate.classification import Classification, Labelled
from mirrorbench_evaluate.collections import check_retrieval, read_collection
from mirrorbench_evaluate.layouts import (
    DOCUMENTS,
    JUDGEMENTS,
    KINDS,
    MENTIONS,
    NAMES,
    SPLITS,
    TABLES,
    TEST,
    TRAIN,
    Found,
    as_option,
    find,
)
from mirrorbench_evaluate.tasks import (
    Linked,
    Linking,
    Pairs,
    Retrieval,
    Similarity,
    Triplet,
    Triplets,
)

WHOLE = 1 << 20
"""Tokens kept of each text: as many as the backbone takes."""
LABELS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0, "true": 1.0, "false": 0.0}
"""The labels of pairs."""


def task_of(name: str, path: Path, options: Mapping[str, Any]) -> TaskKind[Any] | None:
    """The task of a path, under options ``kind``, ``metric``, ``language`` and the file's own names of columns."""
    tables = (*TABLES.values(), NAMES, MENTIONS, DOCUMENTS, JUDGEMENTS, ("split",))
    columns = {as_option(column) for needed in tables for column in needed}
    own = ("kind", "metric", "language")
    for key in options:
        if key not in {*own, *columns}:
            raise unknown_name("option of own data", key, [*own, *sorted(columns)])
    kind, metric, language = (str(options.get(key, "")) for key in own)
    if kind and kind not in KINDS:
        raise unknown_name("kind of own data", kind, list(KINDS))
    layout = find(path, kind, {key: str(value) for key, value in options.items() if key not in own})
    if layout is None:
        return None
    if language and layout.kind != "retrieval":
        raise UsageError(f"{name}: language= is that of BM25, and these are {layout.kind}", "Leave it out.")
    of_kind = _KINDS[layout.kind]
    if metric and metric not in of_kind.measures:
        raise unknown_name(f"measure of {layout.kind}", metric, list(of_kind.measures))
    read = partial(_READERS[layout.kind], layout)
    if layout.kind == "retrieval":
        check_retrieval(path, language or "en")
        read = partial(read, language=language or "en")
    task: TaskKind[Any] = of_kind(name, lambda data: read(), title=path.resolve().name, main_metric=metric)
    task.max_length = WHOLE
    return task


def _texts(layout: Found, part: str, columns: Sequence[str], split: str = TEST) -> list[tuple[int, list[str]]]:
    """Line numbers and values of the rows of a split; none may be empty."""
    source, rows = str(layout.files[part]), []
    by_column = part == TEST and TRAIN not in layout.files and _is_split(layout)
    for line, values in layout.rows(part, [*columns, "split"] if by_column else columns):
        if by_column and values[-1] != split:
            if values[-1] not in SPLITS:
                raise line_error(source, line, f"the split {shown(str(values[-1]))} is none of {', '.join(SPLITS)}")
            continue
        texts = [_text(value, column, source, line) for value, column in zip(values, columns, strict=False)]
        if texts == [layout.renamed.get(column, column) for column in columns]:
            raise line_error(source, line, "the names of the columns a second time", "Remove the line.")
        rows.append((line, texts))
    if not rows:
        raise DataFormatError(f"{source} has no rows{f' of the split {split}' if by_column else ''}.")
    return rows


def _text(value: Any, column: str, source: str, line: int) -> str:
    """A value as text; numbers are labels, scores and ids."""
    if value is None or value != value or not str(value).strip():  # of a number that is missing Parquet has NaN
        raise line_error(source, line, f"the column {column!r} is empty")
    answer = column in ("label", "score", "id")
    if not isinstance(value, str) and not (answer and isinstance(value, Number)):
        raise line_error(source, line, f"the {column} is not a text, but a value of type {type(value).__name__}")
    return str(value).strip() if answer else str(value)


def _pairs(layout: Found, column: str) -> list[Pair]:
    source, pairs = str(layout.files[TEST]), []
    for line, (left, right, value) in _texts(layout, TEST, ("sentence1", "sentence2", column)):
        gold = LABELS.get(value.lower()) if column == "label" else _number(value)
        if gold is None:
            wanted = "1 or 0" if column == "label" else "a number such as 4.5"
            raise line_error(source, line, f"the {column} {shown(value)} is not {wanted}")
        pairs.append(Pair(str(line), left, right, gold))
    if len({pair.gold for pair in pairs}) < 2:
        raise DataFormatError(f"{source}: all {column}s are equal, so that nothing can be told apart.")
    return pairs


def _number(text: str) -> float | None:
    try:
        return value if isfinite(value := float(text)) and text.isascii() and "_" not in text else None
    except ValueError:
        return None


def _triplets(layout: Found) -> list[Triplet]:
    return [Triplet(str(line), *texts) for line, texts in _texts(layout, TEST, TABLES["triplets"])]


def _labelled(layout: Found) -> list[Labelled]:
    apart = TRAIN in layout.files
    train = _texts(layout, TRAIN if apart else TEST, TABLES["classification"], TRAIN) if _is_split(layout) else []
    test = _texts(layout, TEST, TABLES["classification"])
    prefix = "train " if apart else ""
    if len({label for _, (_, label) in train or test}) < 2:
        raise DataFormatError(f"{layout.files[TRAIN if apart else TEST]}: all labels that are trained on are equal.")
    return [
        *(Labelled(f"{prefix}{line}", text, label, True) for line, (text, label) in train),
        *(Labelled(str(line), text, label, False) for line, (text, label) in test),
    ]


def _is_split(layout: Found) -> bool:
    return TRAIN in layout.files or "split" in layout.renamed or "split" in layout.columns(TEST)


def _linked(layout: Found) -> Linked:
    names = _texts(layout, "names", NAMES)
    mentions = _texts(layout, "mentions", MENTIONS)
    return Linked(
        tuple(dict.fromkeys((name, identity) for _, (name, identity) in names)),
        tuple((str(line), mention, identity) for line, (mention, identity) in mentions),
    )


_KINDS: dict[str, Any] = {of.kind: of for of in (Retrieval, Similarity, Pairs, Triplets, Classification, Linking)}
_READERS: dict[str, Any] = {
    "retrieval": read_collection, "similarity": partial(_pairs, column="score"), "triplets": _triplets,
    "pairs": partial(_pairs, column="label"), "classification": _labelled, "linking": _linked,
}  # fmt: skip
