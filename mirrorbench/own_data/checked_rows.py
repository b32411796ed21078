"""Rows of a split in a user's tables, with checked values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.columns import line_error
from mirrorbench.data.readers.values import is_label, is_list, label_text
from mirrorbench.own_data.layouts import NO_SPLIT, SPLITS, TEST, DataLayout


def read_texts(
    layout: DataLayout, part: str, columns: Sequence[str], split: str = TEST
) -> list[tuple[int, list[str]]]:
    """Return the line number and the values, as texts, of each row of a split.

    Args:
        layout: the layout of the data.
        part: the table to read, by its name in ``layout.tables``.
        columns: the columns to read, by their names in the layout.
        split: the split to read, of a table that has a column of splits.

    Raises:
        DataFormatError: a value is empty or not a text, a row repeats the header, or the errors of ``rows_of_split``.
    """
    source = str(layout.tables[part])
    names_in_file = [layout.file_column(column, part) for column in columns]
    rows = []
    # Equal texts are one object: there may be millions of them.
    distinct_texts: dict[str, str] = {}
    for line, values in rows_of_split(layout, part, columns, split):
        texts = []
        for value, column, name in zip(values, columns, names_in_file, strict=True):
            text = _checked_text(value, column, name, source, line)
            texts.append(distinct_texts.setdefault(text, text))
        # Files that were joined line by line repeat the header.
        if texts == names_in_file:
            raise line_error(
                source, line, "the names of the columns a second time", "Remove the line."
            )
        rows.append((line, texts))
    return rows


def rows_of_split(
    layout: DataLayout, part: str, columns: Sequence[str], split: str = TEST
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield line number and values of each row of a split, or of each row of a table without a column of splits.

    Raises:
        DataFormatError: a row has an unknown split, or, after the last row, there was none of the split.
    """
    source = str(layout.tables[part])
    # Only the table ``test`` can have a column of splits: a table ``train`` is the training split as a whole.
    has_split_column = part == TEST and bool(layout.split_column)
    if has_split_column:
        columns = [*columns, "split"]
    is_empty = True
    for line, values in layout.rows(part, columns):
        if has_split_column:
            row_split = values[-1]
            values = values[:-1]
            if row_split != split:
                if row_split not in SPLITS:
                    raise line_error(
                        source,
                        line,
                        f"the split {shown(str(row_split))} is none of {', '.join(SPLITS)}",
                        f"If the column is no split: {layout.path}:split={NO_SPLIT}",
                    )
                # The row is of another split.
                continue
        yield line, values
        is_empty = False
    if is_empty:
        of_split = f" of the split {split}" if has_split_column else ""
        raise DataFormatError(f"{source} has no rows{of_split}.")


def _checked_text(value: Any, column: str, name: str, source: str, line: int) -> str:
    """Return a value as text; only labels, scores and ids may be numbers.

    Args:
        value: the value to check.
        column: its column in the layout.
        name: the name of this column in the file, for messages.
        source: the file, for messages.
        line: the line number, for messages.
    """
    is_nan = value != value
    if value is None or is_nan or not str(value).strip():
        raise line_error(source, line, f"the column {name!r} is empty")
    if column in ("label", "score", "id") and is_label(value):
        return label_text(value)
    if not isinstance(value, str):
        kind = type(value).__name__
        problem = f"the column {name!r} is not a text, but a value of type {kind}"
        hint = "Lists of candidates are read with kind=reranking." if is_list(value) else ""
        raise line_error(source, line, problem, hint)
    return value
