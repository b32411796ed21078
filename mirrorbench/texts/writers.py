"""Files of vectors, written chunk by chunk: NumPy, Parquet, or JSON lines on a stream."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.core.files import sync_folder, writing
from mirrorbench.core.inputs import Array, TextInput
from mirrorbench.texts.readers import pyarrow

CHUNK = 2048
"""Inputs encoded at a time, and what a killed run has to encode again at most."""


class Sink(Protocol):
    """Where vectors go. Of an unfinished sink only what ``keep`` is told stays."""

    def holds(self, rows: int) -> bool:
        """Whether the first ``rows`` rows (whole chunks) of an earlier run are here."""

    def keep(self, rows: int) -> None:
        """Start, with the first ``rows`` rows (whole chunks) of an earlier run."""

    def write(self, inputs: list[TextInput], vectors: Array) -> None:
        """Add a chunk of vectors, shape (len(inputs), d)."""

    def finish(self) -> None:
        """Everything is written: the output takes its name."""


class NpySink:
    """A ``.npy`` file of float32, shape (n, d), written chunk by chunk; NumPy's header leaves room for n to grow.

    Args:
        output: the file.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.part = output.with_name(f"{output.name}.part")
        self._rows = 0
        self._dimensions = 0

    def holds(self, rows: int) -> bool:
        """Whether the unfinished file is long enough."""
        try:
            with self.part.open("rb") as file:
                shape, data = _header_of(file)
                return file.seek(0, os.SEEK_END) >= data + 4 * rows * shape[1]
        except (OSError, ValueError):
            return False

    def keep(self, rows: int) -> None:
        """Cut the unfinished file to ``rows`` rows."""
        _make_folder(self.output)
        if not rows:
            self.part.unlink(missing_ok=True)
            return
        with _telling(self.output), self.part.open("r+b") as file:
            shape, data = _header_of(file)
            self._dimensions, self._rows = shape[1], rows
            file.truncate(data + 4 * rows * self._dimensions)

    def write(self, inputs: list[TextInput], vectors: Array) -> None:
        """Append vectors."""
        with _telling(self.output):
            if not self._rows:
                self._dimensions = vectors.shape[1]
                with self.part.open("wb") as file:
                    _write_header(file, 0, self._dimensions)
            if vectors.shape[1] != self._dimensions:
                raise UsageError(f"the encoder's vectors have {vectors.shape[1]} and {self._dimensions} dimensions")
            with self.part.open("ab") as file:
                file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
                _sync(file)
        self._rows += len(vectors)

    def finish(self) -> None:
        """Write the final number of rows into the header, and rename."""
        with _telling(self.output):
            if not self._rows:
                raise UsageError("the input holds no text, so there is nothing to encode")
            with self.part.open("r+b") as file:
                _write_header(file, self._rows, self._dimensions)
                _sync(file)
            os.replace(self.part, self.output)
            sync_folder(self.output.parent)


class ParquetSink:
    """A Parquet table of texts, their targets where they have any, and vectors; each chunk is a row group.

    An unfinished Parquet file cannot be continued, so chunks lie beside it, a file each, until all are there.

    Args:
        output: the file.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.parts = output.with_name(f"{output.name}.part")
        self._parquet, self._arrow = pyarrow()
        self._n = 0

    def holds(self, rows: int) -> bool:
        """Whether their chunks are all here."""
        return all(self._part(number).is_file() for number in range(rows // CHUNK))

    def keep(self, rows: int) -> None:
        """Keep the chunks of ``rows`` rows."""
        _make_folder(self.output)
        self._n = rows // CHUNK
        kept = {self._part(number) for number in range(self._n)}
        for file in self.parts.glob("*.parquet"):
            if file not in kept:
                file.unlink()

    def _part(self, number: int) -> Path:
        return self.parts / f"{number:08}.parquet"

    def write(self, inputs: list[TextInput], vectors: Array) -> None:
        """Add a chunk."""
        arrow = self._arrow
        flat = arrow.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        columns = {"text": arrow.array([item.text for item in inputs], arrow.string())}
        if any(item.spans for item in inputs):
            kind = arrow.list_(arrow.list_(arrow.int32()))
            columns["target"] = arrow.array([[list(span) for span in item.spans] for item in inputs], kind)
        columns["vector"] = arrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        with _telling(self.output), writing(self._part(self._n)) as file:
            self._parquet.write_table(arrow.table(columns), file)
        self._n += 1

    def finish(self) -> None:
        """Join the chunks."""
        files = sorted(self.parts.glob("*.parquet"))
        if not files:
            raise UsageError("the input holds no text, so there is nothing to encode")
        schema = self._parquet.read_schema(files[0])
        with _telling(self.output), writing(self.output) as out, self._parquet.ParquetWriter(out, schema) as writer:
            for file in files:
                writer.write_table(self._parquet.read_table(file))
        shutil.rmtree(self.parts)


class LinesSink:
    """JSON lines on a stream: the numbers of one vector a line, as short as float32 allows.

    Args:
        write_line: takes a line.
    """

    def __init__(self, write_line: Callable[[str], object]) -> None:
        self._write_line = write_line

    def holds(self, rows: int) -> bool:
        """Nothing is here."""
        return False

    def keep(self, rows: int) -> None:
        """Nothing is kept."""

    def write(self, inputs: list[TextInput], vectors: Array) -> None:
        """Write a line for each vector."""
        for row in vectors.astype(np.float32):
            self._write_line("[" + ",".join(map(str, row)) + "]\n")

    def finish(self) -> None:
        """Nothing."""


def open_sink(output: Path) -> Sink:
    """The sink that a file's name asks for.

    Raises:
        UsageError: an unknown ending, or Parquet without pyarrow.
    """
    if output.suffix == ".npy":
        return NpySink(output)
    if output.suffix in (".parquet", ".pq"):
        return ParquetSink(output)
    raise UsageError(
        f"--output {output}: what is to be written follows from the name's ending",
        "Endings: .npy (NumPy), .parquet. Without --output: JSON lines on standard output.",
    )


def _write_header(file: Any, rows: int, dimensions: int) -> None:
    file.seek(0)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimensions)}
    np.lib.format.write_array_header_1_0(file, header)


def _header_of(file: Any) -> tuple[tuple[int, int], int]:
    """Shape, and where the numbers begin."""
    np.lib.format.read_magic(file)
    shape, _, _ = np.lib.format.read_array_header_1_0(file)
    return (int(shape[0]), int(shape[1])), file.tell()


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _make_folder(output: Path) -> None:
    """Make the output's folder before anything is encoded, so that a wrong name is told at once."""
    with _telling(output):
        output.parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def _telling(output: Path) -> Iterator[None]:
    """Turns errors of the disk into ours."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"Cannot write {output}: {error.strerror or error}.", hint="Free some space, or name another file."
        ) from error
