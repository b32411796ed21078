"""The tables among a user's files; a table is one file, or the shards into which the hub divides it."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.data.readers.annotations import answers_in_table, is_table_of_label_studio
from mirrorbench.data.readers.columns import line_error
from mirrorbench.data.readers.csv_tables import separator_of, table_header
from mirrorbench.data.readers.files import opened
from mirrorbench.data.readers.folders import archive_of, files_in
from mirrorbench.data.readers.json_rows import json_objects
from mirrorbench.data.readers.parquet import pyarrow
from mirrorbench.data.readers.rows import PLAIN_TEXT, format_of, read_rows
from mirrorbench.data.readers.spreadsheets import sheet_header
from mirrorbench.data.readers.text import stream_lines

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(-[0-9a-f]{16})?$")
_NOT_IN_ARCHIVES = ("parquet", "xlsx")
"""Formats that are not read out of archives."""


@dataclass(frozen=True)
class OwnTable:
    """A table in one file or in several shards; line numbers continue from shard to shard.

    Attributes:
        files: the file, or the shards in their order.
    """

    files: tuple[Path, ...]

    def __str__(self) -> str:
        n_more = len(self.files) - 1
        if not n_more:
            return str(self.files[0])
        return f"{self.files[0]} (and {n_more} more)"

    @property
    def file(self) -> Path:
        """The file, or the first shard."""
        return self.files[0]

    @property
    def name(self) -> str:
        """The name of the file (``stem``)."""
        return stem(self.file)

    @property
    def format(self) -> str:
        """The format of the files (``table_format``)."""
        return table_format(self.file)

    def columns(self) -> list[str]:
        """Read the names of the columns: the header, the keys of the first object, or the schema.

        Raises:
            DataFormatError: the file is empty.
        """
        columns = _columns_of(self.file)
        if not columns:
            raise DataFormatError(f"{self.file} is empty.")
        return columns

    def rows(
        self, columns: Sequence[str], note: Callable[[str], None], named: bool
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Return line number and values of each row, as ``read_rows`` does.

        Args:
            columns: names of the columns, or their numbers.
            note: receives remarks on how the rows were read.
            named: whether the table has a header with the names.
        """
        if named and self.format in ("csv", "tsv") and is_table_of_label_studio(self.columns()):
            rows = self._rows([*columns, "id"], note, named)
            return answers_in_table(rows, str(self.file), note)
        return self._rows(columns, note, named)

    def unnamed_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and fields of each row of a text table, a header included; blank lines are left out.

        In CSV, ``separator_of`` finds the separator, and fields may be quoted. In other formats they are separated by
        tabs if the first line has any, else by white space.

        Raises:
            DataFormatError: a line has another number of fields than the first, or is not CSV.
        """
        is_csv = self.format == "csv"
        separator = None
        n_columns = 0
        lines = (line for file in self.files for line in stream_lines(file))
        for number, line in enumerate(lines, start=1):
            line = line.strip()
            if not line:
                continue
            is_first = n_columns == 0
            if is_first and "\t" in line:
                separator = "\t"
            if is_csv:
                fields = self._fields_of_csv(line, number)
            else:
                fields = line.split(separator)
            if is_first:
                n_columns = len(fields)
            if len(fields) != n_columns:
                problem = f"{len(fields)} columns, where the first line has {n_columns}"
                raise line_error(str(self), number, problem)
            yield number, fields

    def _fields_of_csv(self, line: str, number: int) -> list[str]:
        """Split a line of CSV; ``number`` is that of the line, for the message of a ``DataFormatError``."""
        try:
            fields = next(csv.reader([line], delimiter=self._separator))
        except csv.Error as error:
            raise line_error(str(self), number, f"not CSV: {error}") from None
        return [field.strip() for field in fields]

    @cached_property
    def _separator(self) -> str:
        return separator_of(self.file)

    def _rows(
        self, columns: Sequence[str], note: Callable[[str], None], named: bool
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield line number and values of each row; line numbers continue from file to file."""
        n_before = 0
        number = 0
        for file in self.files:
            for line, values in read_rows(str(file), columns, note, named, self.format):
                number = n_before + line
                yield number, values
            n_before = number


def tables_in(path: Path, exclude: Sequence[str] = ()) -> dict[str, OwnTable]:
    """Return the tables of a folder or archive, or the one table in a file, by name (``stem``); empty without tables.

    Tables whose names are in ``exclude`` are left out. If a folder has no tables, those of its folder ``data`` are
    returned, as on the hub.

    Raises:
        UsageError: two files have the same name, or shards of a table are missing.
    """
    if path.is_file() and archive_of(path) is None:
        return {} if table_format(path) == PLAIN_TEXT else {stem(path): OwnTable((path,))}
    for folder in (path, path / "data"):
        tables: dict[str, OwnTable] = {}
        for table in tables_of_files(_table_files(folder, exclude)):
            if table.name in tables:
                other = tables[table.name].file
                problem = f"{other} and {table.file.name} are both the table {table.name!r}"
                raise UsageError(problem, "Leave one in the folder.")
            tables[table.name] = table
        if tables:
            return tables
    return {}


def _table_files(folder: Path, exclude: Sequence[str]) -> list[Path]:
    """Return the files of a folder that are tables by their endings.

    If there are none, return text files whose first line has tabs, as SICK's; beside tables, such files are notes.
    """
    files = []
    for file in files_in(folder):
        # macOS writes ._test.tsv beside test.tsv.
        is_of_macos = file.name.startswith("._")
        if not is_of_macos and stem(file) not in exclude:
            files.append(file)
    unread_formats = {PLAIN_TEXT}
    if archive_of(folder):
        unread_formats.update(_NOT_IN_ARCHIVES)
    tables = [file for file in files if format_of(file.name) not in unread_formats]
    if tables:
        return tables
    return [file for file in files if table_format(file) not in unread_formats]


def tables_of_files(files: Sequence[Path]) -> list[OwnTable]:
    """Return the tables of files, in their order; shards of one table are put together.

    Raises:
        UsageError: shards of a table are missing.
    """
    files_by_name: dict[str, list[Path]] = {}
    for file in files:
        _, dot, endings = file.name.partition(".")
        files_by_name.setdefault(f"{stem(file)}{dot}{endings}", []).append(file)
    tables = []
    for name, shards in files_by_name.items():
        matches = [_SHARD.search(file.name.partition(".")[0]) for file in shards]
        numbers = [int(match[1]) for match in matches if match]
        if numbers and numbers != list(range(number_of_shards(shards[0]))):
            present = ", ".join(file.name for file in shards)
            problem = f"{shards[0].parent} does not hold each shard of {name} once, but {present}"
            raise UsageError(problem, "Each holds a part of the rows: fetch the others.")
        tables.append(OwnTable(tuple(shards)))
    return tables


def number_of_shards(file: Path) -> int:
    """Return the number of shards of the table that a file belongs to, by the file's name; 1 if it is not a shard."""
    match = _SHARD.search(file.name.partition(".")[0])
    return int(match[2]) if match else 1


def table_format(file: Path) -> str:
    """Return the format of a file by its name; a ``.txt`` whose first line has tabs is ``tsv``, as Excel writes it."""
    is_text = file.name.lower().removesuffix(".gz").endswith(".txt")
    if is_text and b"\t" in _first_line(file):
        return "tsv"
    return format_of(file.name)


def _first_line(file: Path) -> bytes:
    """Return the first line of a file, cut after 64 KiB."""
    with opened(file) as stream:
        return stream.read(1 << 16).partition(b"\n")[0]


def stem(file: Path) -> str:
    """Return the name of a file without its endings, and without the number of a shard: ``test-00000-of-00002``."""
    return _SHARD.sub("", file.name.partition(".")[0])


def _columns_of(file: Path) -> list[str]:
    """Read the names of a file's columns; empty for an empty file."""
    file_format = table_format(file)
    if file_format == "parquet":
        parquet, arrow = pyarrow()
        try:
            return list(parquet.read_schema(file).names)
        except (arrow.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DataFormatError(f"{file} cannot be read as Parquet: {reason}") from None
    if file_format in ("csv", "tsv"):
        return table_header(file, file_format)
    if file_format == "xlsx":
        return sheet_header(file)
    _, first_row = next(json_objects(str(file)), (0, {}))
    return list(first_row)
