"""``vectors``: vectors that were computed elsewhere, as an encoder that looks each text up.

Spec keys: ``path`` (``.npy`` of shape (n, d), or ``.parquet`` with a column ``vector``), ``texts`` (the file of the n
texts in the same order, read as ``mirrorbench encode`` reads it; by default the column ``text`` of the Parquet file)
and ``column`` (the column of the texts, as ``encode --column``).

A text is found if every character is the same. Its vector does not depend on language or role. Of a repeated text the
first vector counts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import Array, TextInput, as_inputs
from mirrorbench.core.errors import UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import digest
from mirrorbench.core.quoting import shown
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.core.vectors import unit
from mirrorbench.data.readers.folders import exists, is_rereadable
from mirrorbench.data.readers.inputs import read_inputs
from mirrorbench.data.readers.parquet import pyarrow
from mirrorbench.models.encoder_systems import EncoderContext, checked_params
from mirrorbench.storage.checksums import kept_checksum, state

TEXT_COLUMN = "text"
VECTOR_COLUMN = "vector"
"""Columns of a Parquet file, as ``mirrorbench encode`` writes them."""
EQUAL_COSINE = 0.9999
"""Cosine from which vectors of a repeated text count as equal: services return them with rounding errors."""
_PARQUET_ENDINGS = (".parquet", ".pq")
_HINT_ON_SHAPE = "Write one vector of numbers for each text: an array of shape (texts, dimensions)."
_ROWS_AT_ONCE = 8192
"""Vectors that are read and checked together."""


class StoredVectors:
    """Vectors of texts, looked up by the text.

    Args:
        path: the file of the vectors, for messages.
        texts: the texts, in the order of the vectors.
        vectors: finite vectors, shape (len(texts), dimensions), possibly memory-mapped.
        fingerprint: identity of texts and vectors.
    """

    refuses_texts = True
    """Whether ``check_inputs`` may find a text without a vector."""

    def __init__(
        self, path: Path, texts: Sequence[str], vectors: NDArray[Any], fingerprint: str
    ) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self._vectors = vectors
        self._rows: dict[str, int] = {}
        for row, text in enumerate(texts):
            self._rows.setdefault(text, row)

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Any] = ()) -> None:
        """Raise a ``UsageError`` if an input is a word in a text, or if texts have no vector."""
        if any(item.spans for item in inputs):
            raise UsageError(
                f"{self.path} has vectors of whole texts, and this task needs those of a word in "
                "a text",
                "Choose another task, or the model itself.",
            )
        missing_texts = [item.text for item in inputs if item.text not in self._rows]
        if missing_texts:
            raise UsageError(
                f"{self.path} has no vector of {len(missing_texts):,} of {len(inputs):,} texts, "
                f"such as {shown(missing_texts[0])}",
                "Add vectors of these texts; a text is found if every character is the same.",
            )

    def encode(self, inputs: Sequence[TextInput | str]) -> Array:
        """Return the vectors of texts, float32 of shape (n, dimensions); errors are those of ``check_inputs``."""
        items = as_inputs(inputs)
        self.check_inputs(items)
        rows = [self._rows[item.text] for item in items]
        vectors: Array = np.asarray(self._vectors[rows], dtype=np.float32)
        return vectors


@hookimpl
def register_encoders(register: Register) -> None:
    """Register ``vectors``."""
    register(
        "vectors",
        create_stored_vectors,
        "vectors computed elsewhere: path=FILE.npy,texts=FILE, or path=FILE.parquet",
    )


def create_stored_vectors(spec: EncoderSpec, context: EncoderContext) -> StoredVectors:
    """Create the encoder of a ``vectors`` spec; notes say if a repeated text has different vectors.

    Raises:
        UsageError: a key or a file is missing, the vectors cannot be read or are not finite, their number is not that
            of the texts, or the file changed while it was read.
        DataFormatError: as ``read_inputs`` for the texts.
    """
    params = checked_params(spec, path=str, texts=str, column=str)
    if "path" not in params:
        raise UsageError(
            f"{spec} names no file of vectors",
            "Write vectors:path=FILE.npy,texts=FILE.txt, or vectors:path=FILE.parquet",
        )
    path = Path(params["path"]).expanduser()
    # Unlike Path.is_file, it does not raise for a name that is too long.
    if not os.path.isfile(path):
        raise UsageError(f"there is no file of vectors at {path}", "Write path=FILE.npy.")

    state_before = state([("", path)])
    vectors = read_vectors(path)
    texts_source = params.get("texts", "")
    texts_column = params.get("column", "")
    if not texts_source:
        texts_source = str(path)
        texts_column = texts_column or TEXT_COLUMN
        _check_text_column(spec, path, texts_column)
    texts = _read_texts(texts_source, texts_column, context)
    _check_counts(path, vectors, texts_source, len(texts))
    identity = {"vectors": kept_checksum(path), "texts": _texts_checksum(texts)}
    if state([("", path)]) != state_before:
        raise UsageError(f"{path} changed while it was read", "Run the command again.")

    n_differing = count_differing_repeats(texts, vectors)
    if n_differing:
        context.note(
            f"{path}: {n_differing:,} repeated texts have different vectors; the first vector of "
            "each counts"
        )
    return StoredVectors(path, texts, vectors, digest(identity))


def read_vectors(path: Path) -> NDArray[Any]:
    """Return the vectors of a ``.npy`` file, memory-mapped, or of the column ``vector`` of a Parquet file.

    Raise a ``UsageError`` for a file that cannot be read or does not hold finite vectors, shape (n, dimensions).
    """
    ending = path.suffix.lower()
    if ending == ".npy":
        vectors = _read_npy(path)
    elif ending in _PARQUET_ENDINGS:
        vectors = _read_parquet(path)
    else:
        raise UsageError(
            f"path={path}: unknown ending", "Endings: .npy (NumPy), .parquet. Convert the file."
        )
    if vectors.dtype.kind not in "fiub":
        raise UsageError(
            f"{path} holds values of type {vectors.dtype}, not numbers", _HINT_ON_SHAPE
        )
    if vectors.ndim != 2:
        raise UsageError(
            f"{path} holds an array of shape {vectors.shape}, not vectors of texts", _HINT_ON_SHAPE
        )
    if vectors.size == 0:
        raise UsageError(f"{path} is empty: its shape is {vectors.shape}", _HINT_ON_SHAPE)
    _check_finite(path, vectors)
    return vectors


def _read_npy(path: Path) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, memory-mapped; arrays of Python objects are refused."""
    try:
        # As np.load with mmap_mode, but its error for any other file advises to unpickle it.
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{path} cannot be read as an array of NumPy: {error}",
            "Write it by numpy.save(FILE, vectors), as an array of numbers.",
        ) from error
    return array


def _read_parquet(path: Path) -> NDArray[Any]:
    """Return the vectors of a Parquet file as float32."""
    parquet, arrow = pyarrow()
    blocks: list[NDArray[Any]] = []
    try:
        with parquet.ParquetFile(path) as file:
            _check_vector_column(path, file.schema_arrow, arrow)
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=[VECTOR_COLUMN]):
                blocks.append(_batch_vectors(path, batch.column(VECTOR_COLUMN)))
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"{path} cannot be read as Parquet: {reason}", "Write it again."
        ) from error
    dimensions = {block.shape[1] for block in blocks}
    if len(dimensions) > 1:
        raise _unequal_lengths(path)
    return np.concatenate(blocks) if blocks else np.empty((0, 0), np.float32)


def _check_vector_column(path: Path, schema: Any, arrow: Any) -> None:
    """Raise a ``UsageError`` unless a Parquet file has a column of lists of numbers for the vectors."""
    if schema.names.count(VECTOR_COLUMN) != 1:
        raise UsageError(
            f"{path} needs one column {VECTOR_COLUMN!r}", f"It has: {', '.join(schema.names)}"
        )
    column_type = schema.field(VECTOR_COLUMN).type
    number_type = getattr(column_type, "value_type", None)
    if number_type is None or not (
        arrow.types.is_floating(number_type) or arrow.types.is_integer(number_type)
    ):
        raise UsageError(
            f"{path}: the column {VECTOR_COLUMN!r} is of type {column_type}, not lists of numbers",
            _HINT_ON_SHAPE,
        )


def _batch_vectors(path: Path, column: Any) -> NDArray[Any]:
    """Return a batch of a column of lists as float32, shape (rows, dimensions); missing numbers become NaN."""
    from pyarrow import compute

    lengths = compute.list_value_length(column).to_pylist()
    # The length of a missing list is None.
    if None in lengths or len(set(lengths)) > 1:
        raise _unequal_lengths(path)
    numbers = column.flatten().to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        block: NDArray[Any] = numbers.astype(np.float32).reshape(len(lengths), lengths[0])
    return block


def _unequal_lengths(path: Path) -> UsageError:
    """Return the error for lists of different lengths, or missing ones."""
    return UsageError(
        f"{path}: vectors in the column {VECTOR_COLUMN!r} are missing or have different lengths",
        _HINT_ON_SHAPE,
    )


def _check_finite(path: Path, vectors: NDArray[Any]) -> None:
    """Raise a ``UsageError`` that counts the vectors that are not finite as float32."""
    n_wrong = 0
    first_wrong = 0
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        with np.errstate(over="ignore"):
            block = np.asarray(vectors[start : start + _ROWS_AT_ONCE], dtype=np.float32)
        wrong_rows = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(wrong_rows) and not n_wrong:
            first_wrong = start + int(wrong_rows[0]) + 1
        n_wrong += len(wrong_rows)
    if n_wrong:
        raise UsageError(
            f"{path}: {n_wrong:,} of {len(vectors):,} vectors are not finite, "
            f"first vector {first_wrong:,}",
            "Compute them again, perhaps in a higher precision.",
        )


def _check_text_column(spec: EncoderSpec, path: Path, column: str) -> None:
    """Raise a ``UsageError`` if a spec without ``texts`` names a file of vectors without a column of texts."""
    problem = f"{spec} names no texts"
    if path.suffix.lower() in _PARQUET_ENDINGS:
        parquet, _ = pyarrow()
        if column in parquet.read_schema(path).names:
            return
        problem += f", and {path.name} has no column {column!r}"
    raise UsageError(
        problem,
        f"Write vectors:path={path},texts=FILE: the texts of the vectors in the same order.",
    )


def _read_texts(source: str, column: str, context: EncoderContext) -> list[str]:
    """Return the texts of a file, blank ones too; a missing file, or one that cannot be read twice, is an error."""
    path = Path(source).expanduser()
    # The processes of a run open the encoder again.
    if not exists(path) or not is_rereadable(path):
        raise UsageError(
            f"there is no file of texts at {source}",
            "Write texts=FILE; standard input and pipes cannot be read twice.",
        )
    return [line.input.text for line in read_inputs(source, column, note=context.note)]


def _check_counts(path: Path, vectors: Array, texts_source: str, n_texts: int) -> None:
    """Raise a ``UsageError`` if the number of vectors is not that of the texts."""
    n_vectors, n_dimensions = vectors.shape
    if n_vectors == n_texts:
        return
    hint = "The first vector is that of the first text, and so on; blank lines count as texts."
    if n_texts == n_dimensions:
        hint = "Each vector is a row of the array; here it seems to be a column (vectors.T is the other way)."
    if n_texts == n_vectors + 1:
        hint = "Perhaps the first line is a header that is read as a text, the last is blank, or a vector is missing."
    if n_vectors == n_texts + 1:
        hint = "Perhaps the first text is read as a header, or a header has a vector."
    raise UsageError(
        f"{path} has {n_vectors:,} vectors, but {texts_source} has {n_texts:,} texts", hint
    )


def _texts_checksum(texts: Sequence[str]) -> str:
    """Return the SHA-256 of texts in their order; the length before each text shows where it ends."""
    hashed = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        hashed.update(f"{len(content)} ".encode())
        hashed.update(content)
    return hashed.hexdigest()


def count_differing_repeats(texts: Sequence[str], vectors: NDArray[Any]) -> int:
    """Return the number of distinct texts that occur again with another vector than the first time.

    Vectors differ if their cosine is below ``EQUAL_COSINE``.
    """
    first_rows: dict[str, int] = {}
    # Rows of repeated texts, and for each of them the row where the text occurred first.
    repeats: list[int] = []
    origins: list[int] = []
    for row, text in enumerate(texts):
        first_row = first_rows.setdefault(text, row)
        if first_row != row:
            repeats.append(row)
            origins.append(first_row)

    differing: set[int] = set()
    for start in range(0, len(repeats), _ROWS_AT_ONCE):
        chunk_origins = np.array(origins[start : start + _ROWS_AT_ONCE])
        first_vectors = vectors[chunk_origins]
        other_vectors = vectors[repeats[start : start + _ROWS_AT_ONCE]]
        cosines = (unit(first_vectors) * unit(other_vectors)).sum(axis=1)
        # Zero vectors are equal, though their cosine is 0.
        is_equal = (first_vectors == other_vectors).all(axis=1) | (cosines >= EQUAL_COSINE)
        differing.update(chunk_origins[~is_equal].tolist())
    return len(differing)
