"""Encode files of any length in chunks, of which only one is in memory at a time.

Chunks are first stored in an embedding cache in a hidden folder beside the output, from which an interrupted run is
resumed. Chunk boundaries do not depend on interruptions, so neither do the bytes of the output.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from mirrorbench.core.encoder_protocol import (
    Array,
    Encoder,
    check_inputs,
    encode_checked,
)
from mirrorbench.core.errors import UnreadableTextError, UsageError
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.quoting import without_texts
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.core.truncation import Truncation, truncation_of
from mirrorbench.data.readers.files import STDIN
from mirrorbench.data.readers.inputs import Line, read_inputs
from mirrorbench.data.readers.parquet import pyarrow
from mirrorbench.runs.half_precision import progress_callback
from mirrorbench.runs.single_encoder import load_encoder
from mirrorbench.storage.embedding_cache import EmbeddingCache
from mirrorbench.storage.files import TEMPORARY, sync_folder, unwritable, writing
from mirrorbench.storage.output_folders import beside
from mirrorbench.texts.kept_columns import KeptColumns

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.runs.compute import Compute
    from mirrorbench.runs.folders import Folders
    from mirrorbench.runs.outcomes import Reporter

ROWS_PER_CHUNK = 2048
"""Number of inputs in a chunk, which is also the largest number that an interrupted run encodes again. Of an encoder
that states ``texts_per_call``, it encodes no more than so many again."""
WriteChunk = Callable[[list[Line], Array], None]
"""Writes inputs and their vectors, shape (len(inputs), d)."""


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """Counts of a file that ``Session.encode`` wrote.

    Attributes:
        rows: number of inputs.
        before: how many of these an interrupted run had encoded.
        dimensions: number of dimensions of a vector.
        truncation: counts of inputs that were longer than the encoder reads; ``None`` for an encoder without a limit.
    """

    rows: int
    before: int
    dimensions: int
    truncation: Truncation | None = None


def encode_texts(
    source: str,
    spec: EncoderSpec,
    output: Path | IO[str],
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
    *,
    column: str = "",
    words_in_context: bool = False,
    spans: Sequence[str] = (),
    keep: Sequence[str] = (),
    level: str = "",
) -> EncodedFile:
    """Encode a file of texts into a file or stream, with the arguments of ``Session.encode``, and return the counts.

    Raises:
        UsageError: the arguments do not go together, or the output exists or cannot hold the columns to ``keep``.
    """
    # The columns of ``spans`` mark words in context as brackets do.
    in_context = words_in_context or bool(spans)
    if in_context and level:
        raise UsageError(
            "--level does not go with words in context, which have a recipe of their own"
        )
    if isinstance(output, Path):
        check_vector_file(output)
    if keep and (not isinstance(output, Path) or output.suffix == ".npy"):
        problem = "--keep: only a .parquet file can hold columns beside the vectors"
        raise UsageError(problem, "Add --output FILE.parquet.")
    kept = KeptColumns(source, keep) if keep else None
    lines = read_inputs(source, column, in_context, spans, reporter.note, keep)

    # The encoder is loaded only once the output is known to be writable.
    def open_encoder() -> Encoder:
        # Words in context have a recipe of their own, in place of one for a level.
        level_of_recipe = "wic" if in_context else level or "sentence"
        loaded = load_encoder(spec, level_of_recipe, plugins, folders, compute, reporter)
        encoder = loaded.encoder
        reporter.stage("encoding", str(source), 0, "texts")  # 0: their number is unknown
        return encoder

    advance = progress_callback(compute, reporter, "encoding", compute.precisions["encoding"], 0)
    if isinstance(output, Path):
        encoded = encode_file(source, lines, open_encoder, output, advance, kept)
        _note_truncation(encoded, source, reporter)
        return encoded

    def write(chunk: list[Line], vectors: Array) -> None:
        for vector in vectors:
            # ``str`` returns the shortest text from which the same float32 is read.
            numbers = ",".join(map(str, vector))
            output.write(f"[{numbers}]\n")

    # A stream cannot be resumed, so it has no cache.
    encoded = _encode_chunks(source, lines, open_encoder(), write, None, advance)
    _note_truncation(encoded, source, reporter)
    return encoded


def _note_truncation(encoded: EncodedFile, source: str, reporter: Reporter) -> None:
    """Report how many texts were cut, if any."""
    if encoded.truncation is not None and encoded.truncation.sentence:
        name = "standard input" if source == STDIN else source
        reporter.note(f"{name}: {encoded.truncation.sentence}")


def check_vector_file(output: Path) -> None:
    """Raise ``UsageError`` for an output that exists, has an unknown ending, or needs pyarrow, which is missing."""
    if output.suffix not in _WRITERS:
        hint = "Endings: .npy (NumPy), .parquet. Without --output: JSON lines on standard output."
        raise UsageError(f"--output {output}: unknown ending", hint)
    if output.suffix != ".npy":
        pyarrow()
    if os.path.lexists(output):
        raise UsageError(f"{output} exists already", "Remove it, or name another --output.")


def encode_file(
    source: str,
    lines: Iterable[Line],
    open_encoder: Callable[[], Encoder],
    output: Path,
    advance: Callable[[int], None],
    kept: KeptColumns | None = None,
) -> EncodedFile:
    """Encode a stream of numbered inputs into a ``.npy`` or ``.parquet`` file, resuming an interrupted run.

    Args:
        source: name of the file of the inputs, for messages.
        lines: the inputs, with the numbers of their lines or rows.
        open_encoder: returns the encoder; called once the output is known to be writable.
        output: the file to write.
        advance: called with the number of inputs of each chunk.
        kept: columns to write beside the vectors, into ``.parquet``.
    """
    # The vectors are written in a folder beside the output, and moved to it when they are complete.
    with beside(output) as workplace:
        vectors_file = workplace / "vectors"
        encoder = open_encoder()
        # Chunks of an interrupted run are used only for the same encoder in the same precision.
        identity = {
            "encoder": encoder.fingerprint,
            "computation": COMPUTATION,
            "pooling": str(getattr(encoder, "pooling", "")),
            "precision": str(getattr(encoder, "precision", "")),
        }
        chunks_folder = workplace / "chunks"
        for remnant_of_killed_run in workplace.glob(f"{TEMPORARY}*"):
            remnant_of_killed_run.unlink()
        with (
            writing(vectors_file, output) as file,
            _WRITERS[output.suffix](file, kept) as write,
        ):
            cache_folder = chunks_folder / digest(identity)
            encoded = _encode_chunks(source, lines, encoder, write, cache_folder, advance)
            if not encoded.rows:
                raise UsageError("the input holds no text, so there is nothing to encode")
        check_vector_file(output)  # a file that appeared meanwhile is not replaced
        try:
            os.replace(vectors_file, output)
            sync_folder(output.parent)
        except OSError as error:
            raise unwritable(f"Cannot write {output}", error, "name another output") from error
        shutil.rmtree(chunks_folder, ignore_errors=True)
    return encoded


def _encode_chunks(
    source: str,
    lines: Iterable[Line],
    encoder: Encoder,
    write: WriteChunk,
    cache_folder: Path | None,
    advance: Callable[[int], None],
) -> EncodedFile:
    """Encode a stream of inputs chunk by chunk, write the vectors, and return the counts.

    ``cache_folder`` holds an embedding cache for each chunk; ``None`` for an output that cannot be resumed.
    """
    rows = 0
    # Rows that an interrupted run had encoded.
    rows_before = 0
    dimensions = 0
    truncation: Truncation | None = None
    for number, lines_of_chunk in enumerate(_chunks(_checked_inputs(source, lines, encoder))):
        inputs = [line.input for line in lines_of_chunk]
        distinct = list(dict.fromkeys(inputs))
        texts_per_call = getattr(encoder, "texts_per_call", ROWS_PER_CHUNK)
        parts = []
        was_encoded = False
        for start in range(0, len(distinct), texts_per_call):
            called = distinct[start : start + texts_per_call]
            cache = (
                EmbeddingCache(cache_folder / f"{number:08}-{start:04}") if cache_folder else None
            )
            if cache and not cache.missing(called):
                parts.append(cache.get(called))
                continue
            # The texts of an incomplete call are encoded again together: the last digits of a vector may depend on
            # the other texts of its batch.
            was_encoded = True
            with _naming_lines(source, lines_of_chunk):
                parts.append(encode_checked(encoder, called, "the encoder"))
            if cache:
                shutil.rmtree(cache.folder, ignore_errors=True)
                cache.put(called, parts[-1])
        vectors = np.concatenate(parts)
        if not was_encoded:
            rows_before += len(inputs)
        truncation = Truncation.total([truncation, truncation_of(encoder, inputs)])
        # Not in the first chunk, before which the number of dimensions is unknown.
        if rows and vectors.shape[1] != dimensions:
            raise UsageError(
                f"the encoder's vectors have {vectors.shape[1]} and {dimensions} dimensions"
            )
        # Repeated inputs were encoded once, and are written each in its place.
        rows_of_inputs = {text_input: row for row, text_input in enumerate(distinct)}
        write(lines_of_chunk, vectors[[rows_of_inputs[text_input] for text_input in inputs]])
        rows += len(inputs)
        dimensions = vectors.shape[1]
        advance(len(inputs))
    return EncodedFile(rows, rows_before, dimensions, truncation)


def _chunks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the inputs of a stream in lists of ``ROWS_PER_CHUNK``."""
    stream = iter(lines)
    while chunk := list(islice(stream, ROWS_PER_CHUNK)):
        yield chunk


def _checked_inputs(source: str, lines: Iterable[Line], encoder: Encoder) -> Iterable[Line]:
    """Return the inputs of a stream, if necessary after checking all of them.

    They are checked, and held in memory, for an encoder that refuses some texts: the error comes before the first text
    is encoded.
    """
    if not getattr(encoder, "refuses_texts", False):
        return lines
    lines = list(lines)
    with _naming_lines(source, lines):
        check_inputs(encoder, [line.input for line in lines])
    return lines


@contextmanager
def _naming_lines(source: str, lines: Sequence[Line]) -> Iterator[None]:
    """Add the number of the line to an error about a text that the encoder cannot read."""
    try:
        yield
    except UnreadableTextError as error:
        for line in lines:
            if line.input.text == error.text:
                raise error.at(f"{source}, line {line.number}") from error
        # The encoder of a plugin changed the text, so its line is unknown.
        raise


@contextmanager
def _npy_writer(file: IO[bytes], kept: KeptColumns | None) -> Iterator[WriteChunk]:
    """Yield a function that appends vectors to a ``.npy`` file of float32, shape (n, d).

    The format has no columns for texts, and ``kept`` is ``None``.

    The header has room for any n; it is written again at the end, when n is known.
    """
    rows = 0
    dimensions = 0

    def write(lines: list[Line], vectors: Array) -> None:
        nonlocal rows, dimensions
        if not rows:
            write_header(vectors.shape)
        rows += len(vectors)
        dimensions = vectors.shape[1]
        file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    def write_header(shape: tuple[int, ...]) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)

    yield write
    file.seek(0)
    write_header((rows, dimensions))


@contextmanager
def _parquet_writer(file: IO[bytes], kept: KeptColumns | None) -> Iterator[WriteChunk]:
    """Yield a function that appends a row group for each chunk to a Parquet table.

    The columns are those to keep, texts (unless MIRRORBENCH_NO_TEXTS is set), targets of words in context, and vectors.
    """
    parquet, arrow = pyarrow()
    writer = None

    def write(lines: list[Line], vectors: Array) -> None:
        """Write the inputs and vectors of a chunk as a row group; the first chunk gives the table's columns."""
        nonlocal writer
        inputs = [line.input for line in lines]
        columns = {}
        if kept:
            columns = kept.arrays([line.kept for line in lines])
        if not without_texts():
            columns["text"] = arrow.array([item.text for item in inputs], arrow.string())
        # Either all inputs of a file have targets or none has.
        if any(item.spans for item in inputs):
            targets = [list(map(list, item.spans)) for item in inputs]
            columns["target"] = arrow.array(targets, arrow.list_(arrow.list_(arrow.int32())))
        # Arrow takes the numbers of all vectors in a row, and their length.
        numbers = arrow.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        columns["vector"] = arrow.FixedSizeListArray.from_arrays(numbers, vectors.shape[1])
        table = arrow.table(columns)
        if writer is None:
            writer = parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer:
            writer.close()


_WRITERS = {".npy": _npy_writer, ".parquet": _parquet_writer, ".pq": _parquet_writer}
