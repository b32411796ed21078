r"""Reads texts, pairs and words in context from a user's file, one row at a time; holds some of what to tune on out.

The format follows from the suffix: ``.jsonl``, ``.ndjson`` and ``.json`` are JSON lines; ``.tsv`` and ``.csv`` tables;
``.parquet`` and ``.pq`` Parquet; all else is plain text, one text per line. ``.gz`` (not of Parquet) is decompressed.
``-`` is standard input: plain text, or JSON lines where columns are named. Lines end at ``\n`` alone; a byte order mark
and one ``\r`` before the end are dropped.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from mirrorbench.core.errors import DataFormatError, DataUnavailableError, TuningError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.textfiles import parse_index, shown
from mirrorbench.training.held_out import HELD_OUT, HELD_OUT_SHARE

STDIN = "-"
PAIR_MARK = "||"
"""Separates the two texts of a pair in plain text."""

_FORMATS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".tsv": "tsv", ".csv": "csv", ".parquet": "parquet",
    ".pq": "parquet",
}  # fmt: skip
_USUAL_COLUMNS = ("text", "sentence")  # the default of several columns
_ESCAPED = (r"\[", r"\]", "\\\\")
_BRACKET = re.compile(r"(\\[\[\]\\]|[\[\]])")


def read_texts(source: str, column: str = "") -> Iterator[str]:
    """The texts of a file, one for each line or row, also blank ones; errors as in ``read_rows``."""
    rows = read_rows(source, (column,) if column else ())
    return (_text(value, source, number) for number, (value,) in rows)


def read_pairs(source: str, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pairs of texts in two columns; errors as in ``read_rows``."""
    rows = read_rows(source, columns)
    return ((_text(left, source, number), _text(right, source, number)) for number, (left, right) in rows)


def read_inputs(
    source: str, column: str = "", in_context: bool = False, spans: Sequence[str] = ()
) -> Iterator[TextInput]:
    """Texts to encode, or, with ``in_context``, words in square brackets in their texts (``parse_marked``).

    ``spans`` are instead of brackets the columns of a target's first character (from 0) and of the one after its last.
    """
    if spans and not column:
        raise UsageError("--span-columns says where targets are, but not in which text", "Add --column NAME.")
    if spans:
        return (_spanned(source, number, *values) for number, values in read_rows(source, (column, *spans)))
    if not in_context:
        return map(TextInput, read_texts(source, column))
    rows = read_rows(source, (column,) if column else ())
    return (parse_marked(_text(value, source, number), f"{source}, line {number}") for number, (value,) in rows)


def _spanned(source: str, number: int, value: Any, *span: Any) -> TextInput:
    text = _text(value, source, number)
    start, end = (_position(value, source, number) for value in span)
    if not 0 <= start < end <= len(text):
        raise _line_error(source, number, f"the span {start}:{end} lies outside its text of {len(text)} characters")
    return TextInput(text, ((start, end),))


def _position(value: Any, source: str, number: int) -> int:
    position = parse_index(value.strip()) if isinstance(value, str) else value
    if type(position) is not int or position < 0:
        raise _line_error(source, number, f"{shown(str(value))} is no position of a character")
    return position


def parse_marked(text: str, where: str = "the text") -> TextInput:
    r"""A text whose target is in square brackets; several bracketed parts are one discontinuous target.

    A bracket of the text itself is written ``\[``. A missing or empty target is a ``DataFormatError``.

    >>> parse_marked("the [bank] of the river")
    TextInput(text='the bank of the river', spans=((4, 8),), language='')
    """
    plain = ""
    bounds: list[int] = []
    for piece in _BRACKET.split(text):
        if piece not in ("[", "]"):
            plain += piece[-1] if piece in _ESCAPED else piece
        elif (piece == "[") == len(bounds) % 2:
            raise DataFormatError(f"{where}: the brackets do not match.", "A bracket of the text is written \\[")
        else:
            bounds.append(len(plain))
    spans = tuple(zip(bounds[::2], bounds[1::2], strict=False))
    if len(bounds) % 2 or not spans or any(not plain[a:b].strip() for a, b in spans):
        raise DataFormatError(f"{where}: no target word in square brackets.", hint="Mark it: the [bank] of the river")
    return TextInput(plain, spans)


def split_pair(text: str) -> tuple[str, str] | None:
    """The two texts of ``text1||text2``; ``None`` for other lines."""
    left, mark, right = text.partition(PAIR_MARK)
    left, right = left.strip(), right.strip()
    return (left, right) if mark and left and right and PAIR_MARK not in right else None


def _text(value: Any, source: str, number: int) -> str:
    if not isinstance(value, str):
        kind = "empty (null)" if value is None else f"of type {type(value).__name__}, not a text"
        raise _line_error(source, number, f"the value is {kind}")
    return value


def read_rows(source: str, columns: Sequence[str] = ()) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Line or row numbers (from 1) of a file, each with the values of ``columns``.

    Columns of ``.tsv`` and ``.csv`` may be numbers from 0, and then there is no header line. The default is the column
    ``text`` or ``sentence``, or the only one.

    Raises:
        UsageError: the file does not exist, or columns are named for plain text.
        DataUnavailableError: the file cannot be read.
        DataFormatError: it is not UTF-8, damaged, or lacks a column; the message names the line.
    """
    path, name = Path(source).expanduser(), source.lower()
    kind = _FORMATS.get(Path(name.removesuffix(".gz")).suffix, "text")
    if source == STDIN:
        kind = "jsonl" if columns else "text"
    elif name.endswith(".gz") and kind == "parquet":
        raise UsageError(f"{source}: Parquet is compressed inside, not by gzip", "Decompress it: gunzip FILE")
    elif os.path.isdir(path):  # unlike Path.is_dir, does not raise for a name that is too long
        raise UsageError(f"{path} is a folder", "Name one file of texts.")
    elif not os.path.exists(path):
        raise UsageError(f"there is no file {path}", "Name a text file, or - for standard input.")
    if kind == "text" and columns:
        raise UsageError(
            f"{source} is read as plain text, which has no columns",
            "Columns are in files ending in .jsonl, .tsv, .csv or .parquet; give the file such a name.",
        )
    if kind == "text":
        return ((number, (line,)) for number, line in _lines(source))
    if kind == "jsonl":
        return _json_rows(source, columns)
    return _parquet_rows(source, columns) if kind == "parquet" else _table_rows(source, columns, kind)


def _lines(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a file without line ends, numbered from 1."""
    path = Path(source).expanduser()
    try:
        with (
            nullcontext(sys.stdin.buffer)
            if source == STDIN
            else cast("IO[bytes]", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as stream
        ):
            for number, raw in enumerate(stream, start=1):
                if b"\0" in raw:
                    raise _line_error(source, number, "a NUL byte; this is not a text file")
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        hint = "Convert the file to UTF-8, e.g. with: iconv -f latin1 -t utf-8 FILE > NEWFILE"
        raise _line_error(source, number, f"byte 0x{raw[error.start]:02x} is not valid UTF-8", hint) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(f"{source}: the gzip stream is damaged ({error}).") from None
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {source}: {error.strerror}.") from None


def _line_error(source: str, number: int, problem: str, hint: str = "") -> DataFormatError:
    return DataFormatError(f"{source}, line {number}: {problem}.", hint)


def _json_rows(source: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    for number, line in _lines(source):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _line_error(source, number, f"not JSON ({error})") from None
        if not isinstance(row, dict):
            raise _line_error(source, number, "not a JSON object", 'Each line is an object, like {"text": "..."}.')
        texts = [] if columns else [name for name, value in row.items() if isinstance(value, str)]
        columns = _resolve_columns(columns, row, texts, f"{source}, line {number}")
        yield number, tuple(row[column] for column in columns)


def _table_rows(source: str, columns: Sequence[str], kind: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    lines = (line + "\n" for _, line in _lines(source))
    # Tab-separated files have no quoting; in CSV a quoted text may span several lines.
    tsv = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    reader = tsv if kind == "tsv" else csv.reader(lines, strict=True)
    csv.field_size_limit(1 << 27)  # a field may hold a whole document
    numbers = [parse_index(column) for column in columns]
    places = numbers if -1 not in numbers else []
    try:
        for row in reader:
            if not row:  # an empty line, often at the end; an empty text in a single column is written ""
                continue
            if not places:
                places = [row.index(column) for column in _resolve_columns(columns, row, row, source)]
            elif len(row) <= max(places):
                raise _line_error(source, reader.line_num, f"there is no column {max(places)} (from 0)")
            else:
                yield reader.line_num, tuple(row[place] for place in places)
    except csv.Error as error:
        raise _line_error(source, reader.line_num, str(error)) from None


def _parquet_rows(source: str, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    parquet, arrow = pyarrow()
    try:
        with parquet.ParquetFile(Path(source).expanduser()) as file:
            schema = file.schema_arrow
            strings = [f.name for f in schema if str(f.type) in ("string", "large_string", "string_view")]
            columns = _resolve_columns(columns, schema.names, strings, source)
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=list(dict.fromkeys(columns))):
                for values in zip(*(batch.column(column).to_pylist() for column in columns), strict=True):
                    number += 1
                    yield number, values
    except (arrow.ArrowException, OSError) as error:
        raise DataFormatError(f"{source} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _resolve_columns(columns: Sequence[str], names: Collection[str], texts: Sequence[str], where: str) -> Sequence[str]:
    """The named columns, if they exist, or the default one of ``texts``, the columns of texts."""
    if not columns:
        columns = [name for name in _USUAL_COLUMNS if name in texts][:1] or texts
        if len(columns) != 1:
            hint = f"Add --column NAME; there are: {', '.join(texts)}" if texts else ""
            raise UsageError(f"{where} has {'several columns' if texts else 'no column of text'}, none is named", hint)
    for column in columns:
        if column not in names:
            raise DataFormatError(f"{where} has no column {shown(column)}.", hint=f"It has: {', '.join(names)}")
    return columns


def pyarrow() -> tuple[Any, Any]:
    """The modules ``pyarrow.parquet`` and ``pyarrow``; ``UsageError`` where they are not installed."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise UsageError(
            "Parquet files need the package pyarrow, which is not installed",
            "Install it: pip install 'mirrorbench[parquet]'",
        ) from error
    return parquet, arrow


@dataclass(frozen=True)
class TuningTexts:
    """Distinct lines, in the order of the file.

    Attributes:
        name: of the file, for reports.
        train: lines to tune on: tuples of one text, or of the two texts of a pair.
        held_out: lines left out of the tuning.
        n_read: number of lines, without blank ones.
        n_duplicates: number of lines that repeat an earlier one.
    """

    name: str
    train: tuple[tuple[str, ...], ...]
    held_out: tuple[tuple[str, ...], ...]
    are_pairs: bool
    n_read: int
    n_duplicates: int

    @property
    def summary(self) -> str:
        """How many lines of which kind."""
        return (
            f"{self.n_read:,} {'pairs' if self.are_pairs else 'texts'}, {self.n_duplicates:,} of them repeated; "
            f"{len(self.train):,} to tune on, {len(self.held_out):,} held out"
        )

    def corpus(self) -> list[str]:
        """A string for each line to tune on; the texts of a pair, which contain no tab, are joined by a tab."""
        return ["\t".join(line) for line in self.train]

    def aside(self) -> tuple[str, ...]:
        """Likewise, for each line that is held out."""
        return tuple("\t".join(line) for line in self.held_out)


def read_tuning_texts(
    source: str | Path | Sequence[str] | Sequence[tuple[str, str]], columns: Sequence[str] = (),
    held_out: int | None = None, seed: int = 0, raw: bool = False,
) -> TuningTexts:  # fmt: skip
    """Read texts or pairs to tune on from a file, ``-`` or a list, and hold ``held_out`` of them out.

    Lines ``text1||text2`` are pairs unless ``raw``. By default 500 lines are held out, or a tenth where that is less.
    """
    name, lines = "texts", cast("Iterable[str | tuple[str, ...]]", source)
    if isinstance(source, str | Path):
        if len(columns) > 2:
            raise UsageError("texts are in one column, pairs in two", f"Got {len(columns)}: {', '.join(columns)}")
        name = "standard input" if source == STDIN else f"./{Path(source).name}"
        if len(columns) == 2:
            lines = read_pairs(str(source), columns)
        else:
            lines = (text for text in read_texts(str(source), *columns) if text.strip())
    given = list(lines)
    texts = [line for line in given if isinstance(line, str)]
    odd = [line for line in given if not isinstance(line, str) and not _is_pair(line)]
    if odd or 0 < len(texts) < len(given):
        hint = f"Not so: {odd[0]!r:.90}" if odd else "Some are strings, and some are pairs."
        raise UsageError("what to tune on must be strings, or pairs of two strings", hint)
    pairs = [None if raw else split_pair(text) for text in texts]
    found = [pair for pair in pairs if pair]
    if len(texts) < 2 * len(found) < 2 * len(texts):
        raise UsageError(
            f"{name}: {len(found)} of {len(texts)} lines are pairs (text1||text2), "
            f"but not {texts[pairs.index(None)]!r:.90}",
            "Make all lines pairs, or none. To tune on the lines as they are, name the method: BACKBONE+mirror",
        )
    if texts:
        given = [*found] if len(found) == len(texts) else [(text,) for text in texts]
    # A tab separates the texts of a pair, so tabs in texts become spaces.
    stripped = (tuple(" ".join(text.split("\t")).strip() for text in line) for line in given)
    read = [line for line in stripped if all(line)]
    distinct = list(dict.fromkeys(read))
    n = min(HELD_OUT, int(len(distinct) * HELD_OUT_SHARE)) if held_out is None else held_out
    if n < 0:
        raise UsageError(f"{n} lines cannot be held out")
    if n == 1:  # uniformity needs two texts
        n = 0 if held_out is None else 2
    if len(distinct) - n < 2:
        problem = f"{name} holds {len(distinct)} distinct lines, of which {n} are to be held out: too few to tune on"
        raise TuningError(problem, "Tuning needs at least two lines; thousands are usual.")
    chosen = set(np.random.default_rng(seed).permutation(len(distinct))[:n].tolist())
    train = tuple(line for row, line in enumerate(distinct) if row not in chosen)
    aside = tuple(line for row, line in enumerate(distinct) if row in chosen)
    return TuningTexts(name, train, aside, len(distinct[0]) == 2, len(read), len(read) - len(distinct))


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(text, str) for text in value)
