"""Pairs of texts or of words in context in plain tables, of a user or of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import msgspec

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import is_text, shown
from mirrorbench.core.schema import convert, located
from mirrorbench.data.items import ContextPair, Pair, RatedContexts
from mirrorbench.data.readers.dataset_tables import Columns, TableRow, json_rows
from mirrorbench.data.readers.marks import unmark
from mirrorbench.data.readers.values import Ids

# The split of a ``ContextPair`` by what tables call it.
_SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "test": "test"}
_Mark = Annotated[str, msgspec.Meta(min_length=1)]


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of ``parse_table``, and others of a card."""

    format: Literal["tsv", "csv", "jsonl"]
    columns: dict[str, str | int]
    scale: tuple[float, float] | None = None
    labels: dict[str, Literal[0, 1] | None] = {}
    marks: tuple[_Mark, _Mark] | None = None
    header: bool = False
    rows: int | None = None
    # Not used by the parser.
    split: Any = None
    corpus: Any = None
    max_length: Any = None
    protocol: Any = None
    of_target: Any = None

    def __post_init__(self) -> None:
        if not {"left", "right", "gold"} <= self.columns.keys():
            raise ValueError("'columns' must say where left, right, gold are")
        if (self.scale is None) == (not self.labels):
            raise ValueError(
                "either 'scale' (least and greatest gold value) or 'labels' must be given"
            )
        if not self.marks and None in self.labels.values():
            raise ValueError("a label that is null belongs to words in context, with 'marks'")


def parse_table(
    files: Mapping[str, Path], options: Mapping[str, Any]
) -> list[Pair | ContextPair | RatedContexts]:
    """Parse pairs; ``.gz`` files are decompressed. Anything irregular is a ``DataFormatError``.

    The items are ``Pair``, with the option ``marks`` ``RatedContexts``, and with ``marks`` and ``labels``
    ``ContextPair``.

    Args:
        files: the tables.
        options: ``format``: ``tsv`` (split at tabs, quotes are text), ``csv`` (RFC 4180 quoting, one row per line) or
            ``jsonl``;

            ``columns``: those of ``left``, ``right`` and ``gold``, and optionally of ``id``, ``subset`` and ``split``:
            indices from 0, or names if there is a header or the format is ``jsonl``; the default id is
            ``<file stem>/<line>``, and the default split of a ``ContextPair`` is the name of its file;

            ``scale``: the least and the greatest gold value; or ``labels``: each text in the gold column with 1, 0 or,
            for a secret label of words in context, null;

            ``marks``: the text before and after the target word, e.g. ``["<b>", "</b>"]``; several marked parts are one
            discontinuous target, and white space inside the marks is not part of it;

            ``header``: whether the first line names the columns (default false);

            ``rows``: the required number of rows per file (by default not checked).
    """
    table_options = _parse_options(options)
    pairs = []
    ids = Ids()
    for name, path in files.items():
        stem = PurePosixPath(name).name.split(".")[0]
        pairs_of_file = [_pair(row, table_options, stem) for row in _rows(path, table_options, ids)]
        if table_options.rows is not None and len(pairs_of_file) != table_options.rows:
            raise DataFormatError(
                f"{path}: {len(pairs_of_file)} rows instead of {table_options.rows}."
            )
        pairs += pairs_of_file
    return pairs


def _parse_options(options: Mapping[str, Any]) -> _Options:
    values = dict(options)
    labels = options.get("labels")
    if isinstance(labels, Mapping):
        values["labels"] = {_as_text(label): value for label, value in labels.items()}
    return convert(located(values), _Options, "Parser 'table'")


def _as_text(value: Any) -> str:
    """Return a label as text: in YAML and JSON it may be a number, or true or false."""
    if isinstance(value, str):
        return value
    return str(value).lower()


def _rows(path: Path, options: _Options, ids: Ids) -> list[TableRow]:
    if options.format == "jsonl":
        return list(json_rows(path, ids))
    separator = "," if options.format == "csv" else "\t"
    if options.header:
        names = [str(column) for column in dict.fromkeys(options.columns.values())]
        columns = Columns(names, header="order", separator=separator)
    else:
        columns = Columns((), separator=separator)
    return columns.read(path, ids)


def _pair(row: TableRow, options: _Options, stem: str) -> Pair | ContextPair | RatedContexts:
    """Return the item of a row, of the type that ``parse_table`` states; ``stem``: the file's name without endings."""
    row = _with_values_as_texts(row, options)
    texts = {role: row.text(column) for role, column in options.columns.items()}
    pair_id = row.unique(texts.get("id", f"{stem}/{row.line}"))
    label = None
    if options.scale:
        gold = row.number(options.columns["gold"], options.scale)
    else:
        label = row.label(options.columns["gold"], options.labels)
        # Pairs of texts have their label as gold value. Only words in context may have a secret label (``None``); their
        # items take ``label`` below, not ``gold``.
        gold = float(label or 0)
    if options.marks is None:
        return Pair(pair_id, texts["left"], texts["right"], gold, texts.get("subset", ""))
    left = _marked(row, texts["left"], options.marks)
    right = _marked(row, texts["right"], options.marks)
    if options.scale:
        return RatedContexts(pair_id, left, right, gold)
    split = texts.get("split", stem)
    if split not in _SPLITS:
        raise row.error(
            f"the split {shown(split)} (a column, or the name of the file) is none of {', '.join(_SPLITS)}"
        )
    return ContextPair(pair_id, left, right, label, _SPLITS[split])


def _with_values_as_texts(row: TableRow, options: _Options) -> TableRow:
    """Return a row with the values of its columns as texts.

    In JSON, gold values and ids may be numbers, and labels true or false. All other values must be texts.
    """
    values = dict(row.values)
    for role, column in options.columns.items():
        value = row.values.get(column)
        if _is_read_as_text(value, role, options):
            values[column] = _as_text(value)
        elif not isinstance(value, str) or not is_text(value):
            raise row.error(f"column {column!r} is missing or not a text")
    return replace(row, values=values)


def _is_read_as_text(value: Any, role: str, options: _Options) -> bool:
    """Return whether a JSON value is to be read as text: a number as gold value or id, true or false as a label."""
    if isinstance(value, bool):
        return role == "gold" and bool(options.labels)
    if role == "gold":
        return isinstance(value, int | float)
    return role == "id" and isinstance(value, int)


def _marked(row: TableRow, marked: str, marks: tuple[str, str]) -> TextInput:
    """Return a text without its marks; its target is what they enclosed, without white space at both ends."""
    text, marked_spans = unmark(marked, *marks)
    spans = []
    for marked_start, marked_end in marked_spans:
        word = text[marked_start:marked_end]
        start = marked_start + len(word) - len(word.lstrip())
        spans.append((start, start + len(word.strip())))
    if not spans or any(start == end for start, end in spans):
        raise row.error(f"no word between {marks[0]} and {marks[1]} in {shown(marked)}")
    return TextInput(text, tuple(spans))
