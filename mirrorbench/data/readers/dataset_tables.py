"""Tables of published data sets, whose columns are known.

No row is dropped silently: an irregular one is a ``DataFormatError`` with file and line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.json_lines import parse_json
from mirrorbench.data.readers.text import read_lines
from mirrorbench.data.readers.values import Ids, parse_number

_T = TypeVar("_T")


@dataclass(slots=True)  # not frozen: that would double the time per row
class TableRow:
    """A row of a file.

    Attributes:
        path: the file, for messages.
        line: the number of the line, from 1.
        values: values by column name, or by index from 0 if columns have no names.
        ids: the ids of the data set that were registered so far.
    """

    path: Path | str
    line: int
    values: Mapping[Any, Any]
    ids: Ids

    def error(self, problem: str) -> DataFormatError:
        """Return an error about the row, with file and line."""
        return DataFormatError(f"{self.path}, line {self.line}: {problem}.")

    def text(self, column: str | int) -> str:
        """Return the text in a column, unchanged; it must not be blank."""
        value = self.values.get(column)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"column {column!r} is missing, empty or not a text")
        return value

    def number(self, column: str | int, scale: tuple[float, float]) -> float:
        """Return the decimal number in a column; it must lie between the two bounds of ``scale`` (included)."""
        return parse_number(self.text(column).strip(), self.path, self.line, *scale)

    def label(self, column: str | int, labels: Mapping[str, _T]) -> _T:
        """Return the value that ``labels`` gives to the label in a column; any other label is an error."""
        value = self.values.get(column)
        if not isinstance(value, str) or value not in labels:
            raise self.error(f"the label {shown(str(value))} is none of {', '.join(labels)}")
        return labels[value]

    def unique(self, item_id: str) -> str:
        """Register the id of the row's item, which must be unique in all files, and return it."""
        return self.ids.add(item_id, self.path, self.line)


@dataclass(frozen=True, slots=True)
class Columns:
    r"""The columns of a table in text files, for a parser that a plugin registers with ``register_parsers``.

    ``read_all(files)`` yields the rows of the files that a parser gets, ``read(path)`` returns those of one file, and
    ``split(lines, path)`` those of lines that were read elsewhere. No row is dropped: an irregular one is an error.

    A row has the attributes ``path``, ``line`` (number of the line, from 1) and ``values`` (texts by column, the name
    or the number from 0), and these methods:

    - ``text(column)``: the text in the column, unchanged; it must not be blank.
    - ``number(column, (low, high))``: the decimal number, which must lie between the two bounds (included).
    - ``label(column, labels)``: the value of the label in the mapping ``labels``.
    - ``unique(item_id)``: the id itself, after checking that no earlier row of the same ``read_all`` has it.
    - ``error(problem)``: a ``DataFormatError`` to raise, whose message begins with file and line.

    Attributes:
        names: the columns in order, or the required ones if the header gives the order. If empty, columns are numbered
            and all rows have as many as the first.
        header: whether the first line names the columns: ``exact`` (these and no others), ``order`` (these and perhaps
            others, in any order), or empty for no header (default).
        widths: permitted numbers of columns, without a header; by default the number of names.
        separator: with ``,`` quotes follow RFC 4180, one row per line; with any other (default: a tab), quotes are text.
        encoding: encoding of the file (default ``utf-8-sig``: UTF-8, perhaps with a byte order mark).

    Raises:
        DataFormatError: when rows are read, if the header lacks a name, a row has another number of columns, or a file
            is not text in the encoding; by the methods of a row, if a value is not as it should be. The message names
            the file, and the line unless it is the header.
        DataUnavailableError: when rows are read, if a file cannot be read.

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import Columns, Pair
        >>> def parse_ratings(files, options):
        ...     columns = Columns(("word1", "word2", "rating"), header="order")
        ...     pairs = []
        ...     for row in columns.read_all(files):
        ...         left = row.text("word1")
        ...         right = row.text("word2")
        ...         item_id = row.unique(f"{left}/{right}")
        ...         pairs.append(Pair(item_id, left, right, gold=row.number("rating", (0, 10))))
        ...     return pairs

        In a plugin, ``register_parsers`` calls ``register("ratings", parse_ratings)``. To try it without one:

        >>> _ = Path("words.tsv").write_text("word1\tword2\trating\ncat\tkitten\t8.5\ncat\tbus\t0.5\n")
        >>> [pair.id for pair in parse_ratings({"words.tsv": Path("words.tsv")}, {})]
        ['cat/kitten', 'cat/bus']
    """

    names: Sequence[str | int]
    header: Literal["", "exact", "order"] = ""
    widths: tuple[int, ...] = ()
    separator: str = "\t"
    encoding: str = "utf-8-sig"

    def read(self, path: Path, ids: Ids | None = None) -> list[TableRow]:
        """Read the rows of a file; ids must be unique among all rows read with the same ``ids``."""
        return self.split(read_lines(path, self.encoding), path, ids)

    def split(
        self, lines: Sequence[str], path: Path | str, ids: Ids | None = None
    ) -> list[TableRow]:
        """Split lines into rows; ``path`` is their file, for messages."""
        if self.separator == ",":
            records = [_csv_fields(text, path, line) for line, text in enumerate(lines, start=1)]
        else:
            records = [text.split(self.separator) for text in lines]
        names = self.names or range(len(records[0]) if records else 0)
        widths = self.widths or (len(names),)
        first_line = 1
        if self.header:
            header = records.pop(0) if records else []
            self._check_header(header, names, path)
            names = header
            widths = (len(header),)
            first_line = 2
        ids = ids or Ids()
        rows = []
        for line, fields in enumerate(records, start=first_line):
            if len(fields) not in widths:
                expected = " or ".join(map(str, widths))
                raise DataFormatError(
                    f"{path}, line {line}: {len(fields)} columns instead of {expected}."
                )
            # A format may leave out the last columns, or have further ones without a name.
            values = dict(zip(names, fields, strict=False))
            rows.append(TableRow(path, line, values, ids))
        return rows

    def _check_header(
        self, header: list[str], names: Sequence[str | int], path: Path | str
    ) -> None:
        """Raise a ``DataFormatError`` if the first line does not name the columns as it should."""
        if self.header == "exact" and header != list(names):
            raise DataFormatError(f"{path}: the header is not {', '.join(map(str, names))}.")
        missing = [str(name) for name in names if header.count(str(name)) != 1]
        if missing:
            raise DataFormatError(
                f"{path}: the header is missing {', '.join(missing)}, or names it twice."
            )

    def read_all(self, files: Mapping[str, Path]) -> Iterator[TableRow]:
        """Yield the rows of several files; ids must be unique among all."""
        ids = Ids()
        for path in files.values():
            yield from self.read(path, ids)


def _csv_fields(text: str, path: Path | str, line: int) -> list[str]:
    """Split a single line of CSV, so that a stray quote is an error instead of absorbing the next lines."""
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error as error:
        raise DataFormatError(f"{path}, line {line}: {error}.") from None
    if len(rows) != 1 or not rows[0]:
        raise DataFormatError(f"{path}, line {line}: an empty line.")
    return rows[0]


def json_rows(path: Path, ids: Ids) -> Iterator[TableRow]:
    """Yield the rows of a JSON-lines file."""
    for line, text in enumerate(read_lines(path), start=1):
        values = parse_json(text, f"{path}, line {line}")
        if not isinstance(values, dict):
            raise DataFormatError(f"{path}, line {line}: not a JSON object.")
        yield TableRow(path, line, values, ids)


def parallel_lines(path: Path, rows: Sequence[TableRow]) -> list[str]:
    """Read a file that has one line for each row of another file."""
    lines = read_lines(path)
    if len(lines) != len(rows):
        raise DataFormatError(
            f"{path} has {len(lines)} lines instead of {len(rows)}, one for each item."
        )
    return lines


def parallel_labels(
    path: Path | None, rows: Sequence[TableRow], labels: Mapping[str, int]
) -> list[int | None]:
    """Read a file of labels, one for each row of another file; without a file each label is ``None``."""
    if path is None:
        return [None] * len(rows)
    values: list[int | None] = []
    for line, text in enumerate(parallel_lines(path, rows), start=1):
        row = TableRow(path, line, {0: text.strip()}, Ids())
        values.append(row.label(0, labels))
    return values


def by_name(
    files: Mapping[str, Path], pattern: str, shape: str, required: Sequence[str]
) -> dict[str, dict[str, Path]]:
    """Group files by their names: ``dev.gold.txt`` is the part ``gold`` of the group ``dev``.

    Args:
        files: paths by name.
        pattern: regular expression with groups ``group`` and ``part`` (``data`` if it is empty).
        shape: description of the pattern, for messages.
        required: parts that every group must have.

    Returns:
        Files by group and part; groups are in the order of their files of the first required part.
    """
    groups: dict[str, dict[str, Path]] = {}
    for name, path in files.items():
        match = re.fullmatch(pattern, PurePosixPath(name).name)
        if match is None:
            raise DataFormatError(f"{path}: the name does not follow {shape}.")
        part = match["part"] or "data"
        parts = groups.setdefault(match["group"], {})
        if part in parts:
            raise DataFormatError(f"{path}: a second file of {match['group']}, {part}.")
        parts[part] = path
    for group, parts in groups.items():
        missing = [part for part in required if part not in parts]
        if missing:
            raise DataFormatError(
                f"The files of {group} ({shape}) are missing {', '.join(missing)}."
            )
    # Sort the groups as their files of the first required part were given.
    order = list(files.values())
    first_part = required[0]

    def place_of_first_part(group: str) -> int:
        return order.index(groups[group][first_part])

    return {group: groups[group] for group in sorted(groups, key=place_of_first_part)}
