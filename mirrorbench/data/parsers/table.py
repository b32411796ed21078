"""Pairs in plain tables, of data sets and of a user's own: of texts, or of words in context."""

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

_SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "test": "test"}
_Mark = Annotated[str, msgspec.Meta(min_length=1)]


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of ``parse_table``, and those of a card that others read."""

    format: Literal["tsv", "csv", "jsonl"]
    columns: dict[str, str | int]
    scale: tuple[float, float] | None = None
    labels: dict[str, Literal[0, 1] | None] = {}
    marks: tuple[_Mark, _Mark] | None = None
    header: bool = False
    rows: int | None = None
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
    """Parse a user's own pairs; ``.gz`` files are decompressed. Anything irregular is a ``DataFormatError``.

    Items are ``Pair``; with the option ``marks`` they are ``RatedContexts``, and with ``labels`` too ``ContextPair``.

    Args:
        files: the tables.
        options: ``format``: ``tsv`` (split at tabs, quotes are text), ``csv`` (RFC 4180 quoting, one row per line) or
            ``jsonl``;

            ``columns``: of ``left``, ``right`` and ``gold``, and perhaps ``id``, ``subset`` or ``split``: indices from
            0, or names with a header or for ``jsonl``; by default the id is ``<file stem>/<line>``, and a
            ``ContextPair`` is of the split that its file is named after;

            ``scale``: the least and the greatest gold value; or ``labels``: each text in the gold column with 1, 0 or,
            for a secret label of words in context, null;

            ``marks``: the text before and after the target word, e.g. ``["<b>", "</b>"]``; several marked parts are one
            discontinuous target, and white space inside the marks is not part of it;

            ``header``: whether the first line names the columns (default false);

            ``rows``: the required number of rows per file (by default not checked).
    """
    table = _checked(options)
    pairs = []
    ids = Ids()
    for name, path in files.items():
        stem = PurePosixPath(name).name.split(".")[0]
        rows = [_pair(row, table, stem) for row in _rows(path, table, ids)]
        if len(rows) != (len(rows) if table.rows is None else table.rows):
            raise DataFormatError(f"{path}: {len(rows)} rows instead of {table.rows}.")
        pairs += rows
    return pairs


def _checked(options: Mapping[str, Any]) -> _Options:
    labels = options.get("labels")
    written = (
        {"labels": {_written(k): v for k, v in labels.items()}}
        if isinstance(labels, Mapping)
        else {}
    )
    return convert(located({**options, **written}), _Options, "Parser 'table'")


def _written(value: Any) -> str:
    """A label as text: YAML and JSON may have it as a number, or as true or false."""
    return value if isinstance(value, str) else str(value).lower()


def _rows(path: Path, table: _Options, ids: Ids) -> list[TableRow]:
    if table.format == "jsonl":
        return list(json_rows(path, ids))
    separator = "," if table.format == "csv" else "\t"
    names = (
        [str(column) for column in dict.fromkeys(table.columns.values())] if table.header else []
    )
    return Columns(names, header="order" if names else "", separator=separator).read(path, ids)


def _pair(row: TableRow, table: _Options, stem: str) -> Pair | ContextPair | RatedContexts:
    # JSON may hold these as numbers, and a label as true or false.
    number_types: dict[str, Any] = {"gold": (int, float), "id": int}
    values = dict(row.values)
    for role, column in table.columns.items():
        value = row.values.get(column)
        if isinstance(value, number_types.get(role, ())) and (
            not isinstance(value, bool) or (table.labels and role == "gold")
        ):
            values[column] = _written(value)
        elif not isinstance(value, str) or not is_text(value):
            raise row.error(f"column {column!r} is missing, or no text")
    row = replace(row, values=values)
    texts = {role: row.text(column) for role, column in table.columns.items()}
    identity = row.unique(texts.get("id", f"{stem}/{row.line}"))
    label = row.label(table.columns["gold"], table.labels) if table.labels else None
    gold = row.number(table.columns["gold"], table.scale) if table.scale else float(label or 0)
    if table.marks is None:
        return Pair(identity, texts["left"], texts["right"], gold, texts.get("subset", ""))
    left, right = (_marked(row, texts[side], table.marks) for side in ("left", "right"))
    if not table.labels:
        return RatedContexts(identity, left, right, gold)
    split = texts.get("split", stem)
    if split not in _SPLITS:
        raise row.error(
            f"the split {shown(split)} (a column, or the name of the file) is none of {', '.join(_SPLITS)}"
        )
    return ContextPair(identity, left, right, label, _SPLITS[split])


def _marked(row: TableRow, marked: str, marks: tuple[str, str]) -> TextInput:
    text, spans = unmark(marked, *marks)
    bounds = []
    for first, last in spans:
        word = text[first:last]
        start = first + len(word) - len(word.lstrip())
        bounds.append((start, start + len(word.strip())))
    if not bounds or any(start == end for start, end in bounds):
        raise row.error(f"no word between {marks[0]} and {marks[1]} in {shown(marked)}")
    return TextInput(text, tuple(bounds))
