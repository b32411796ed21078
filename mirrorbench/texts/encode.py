"""Encodes files of any length in chunks; memory is bounded by one chunk.

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
from mirrorbench.runs.half_precision import advancing
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
"""Inputs of a chunk, and the most that an interrupted run encodes again."""
WriteChunk = Callable[[list[Line], Array], None]
"""Writes inputs and their vectors, shape (len(inputs), d)."""


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """Counts of a file that ``Session.encode`` wrote.

    Attributes:
        rows: number of inputs.
        before: number of inputs taken from an interrupted run.
        dimensions: length of a vector.
        truncation: counts of the inputs that were longer than the encoder reads; ``None`` if it cuts none.
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
    """Encode as ``Session.encode`` does; a text stream gets each vector as a line of JSON."""
    in_context = words_in_context or bool(spans)
    if in_context and level:
        raise UsageError(
            "--level does not go with words in context, which have a recipe of their own"
        )
    if isinstance(output, Path):
        check_vector_file(output)
    if keep and (not isinstance(output, Path) or output.suffix == ".npy"):
        raise UsageError("--keep: columns are kept in .parquet", "Add --output FILE.parquet.")
    kept = KeptColumns(source, keep) if keep else None
    lines = read_inputs(source, column, in_context, spans, reporter.note, keep)

    def opened() -> Encoder:
        of_level = "wic" if in_context else level or "sentence"
        encoder, _ = load_encoder(spec, of_level, plugins, folders, compute, reporter)
        reporter.stage("encoding", str(source), 0, "texts")
        return encoder

    advance = advancing(compute, reporter, "encoding", compute.precisions["encoding"], 0)
    if isinstance(output, Path):
        done = encode_file(source, lines, opened, output, advance, kept)
        _say_cut(done, source, reporter)
        return done

    def write(chunk: list[Line], vectors: Array) -> None:
        output.writelines(
            "[" + ",".join(map(str, vector)) + "]\n" for vector in vectors
        )  # shortest exact float32

    done = _encode_chunks(source, lines, opened(), write, None, advance)
    _say_cut(done, source, reporter)
    return done


def _say_cut(done: EncodedFile, source: str, reporter: Reporter) -> None:
    if done.truncation is not None and done.truncation.cut:
        name = "standard input" if source == STDIN else source
        reporter.note(f"{name}: {done.truncation.sentence}")


def check_vector_file(output: Path) -> None:
    """Raise ``UsageError`` for a file of vectors with an unknown ending, without pyarrow, or that exists."""
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
    opened: Callable[[], Encoder],
    output: Path,
    advance: Callable[[int], None],
    kept: KeptColumns | None = None,
) -> EncodedFile:
    """Encode a stream of numbered inputs into a ``.npy`` or ``.parquet`` file, resuming an interrupted run.

    Args:
        source: name of the file of the inputs, for messages.
        lines: the inputs, with the numbers of their lines or rows.
        opened: returns the encoder.
        output: the file.
        advance: called with the number of inputs of each chunk.
        kept: columns that are written beside the vectors into ``.parquet``.
    """
    with beside(output) as workplace:
        complete = workplace / "vectors"
        encoder = opened()  # now that the file can be written
        identity = {"encoder": encoder.fingerprint, "computation": COMPUTATION}
        identity |= {name: str(getattr(encoder, name, "")) for name in ("pooling", "precision")}
        chunks = workplace / "chunks"
        for left in workplace.glob(f"{TEMPORARY}*"):  # by a killed run
            left.unlink()
        with writing(complete, output) as file, _WRITERS[output.suffix](file, kept) as write:
            done = _encode_chunks(source, lines, encoder, write, chunks / digest(identity), advance)
            if not done.rows:
                raise UsageError("the input holds no text, so there is nothing to encode")
        check_vector_file(output)  # again: what appeared meanwhile is not replaced
        try:
            os.replace(complete, output)
            sync_folder(output.parent)
        except OSError as error:
            raise unwritable(f"Cannot write {output}", error, "name another output") from error
        shutil.rmtree(chunks, ignore_errors=True)
    return done


def _encode_chunks(
    source: str,
    lines: Iterable[Line],
    encoder: Encoder,
    write: WriteChunk,
    store: Path | None,
    advance: Callable[[int], None],
) -> EncodedFile:
    """Encode and write a stream; ``store`` is a folder for an embedding cache of each chunk."""
    stream, number = _checked(source, lines, encoder), 0
    rows = before = dimensions = 0
    truncation: Truncation | None = None
    while numbered := list(islice(stream, ROWS_PER_CHUNK)):
        chunk = [item for _, item, _ in numbered]
        distinct = list(dict.fromkeys(chunk))
        cache = EmbeddingCache(store / f"{number:08}") if store else None
        if cache and not cache.missing(distinct):
            vectors = cache.get(distinct)
            before += len(chunk)
        else:
            with _naming_lines(source, numbered):
                vectors = encode_checked(encoder, distinct, "the encoder")
            if cache:  # whole chunks only: the last digits of a vector may depend on the other texts of its batch
                shutil.rmtree(cache.folder, ignore_errors=True)
                cache.put(distinct, vectors)
        truncation = Truncation.total([truncation, truncation_of(encoder, chunk)])
        if rows and vectors.shape[1] != dimensions:
            raise UsageError(
                f"the encoder's vectors have {vectors.shape[1]} and {dimensions} dimensions"
            )
        positions = {item: row for row, item in enumerate(distinct)}
        write(numbered, vectors[[positions[item] for item in chunk]])
        rows, dimensions, number = rows + len(chunk), vectors.shape[1], number + 1
        advance(len(chunk))
    return EncodedFile(rows, before, dimensions, truncation)


def _checked(source: str, lines: Iterable[Line], encoder: Encoder) -> Iterator[Line]:
    """Return a stream of numbered inputs, of which an encoder that refuses texts has seen all: they are kept for that."""
    if not getattr(encoder, "refuses_texts", False):
        return iter(lines)
    kept = list(lines)
    with _naming_lines(source, kept):
        check_inputs(encoder, [item for _, item, _ in kept])
    return iter(kept)


@contextmanager
def _naming_lines(source: str, lines: Sequence[Line]) -> Iterator[None]:
    """Name the line of a text that the encoder cannot read."""
    try:
        yield
    except UnreadableTextError as error:
        number = next((number for number, item, _ in lines if item.text == error.text), None)
        if number is None:  # a plugin's encoder changed the text
            raise
        raise error.at(f"{source}, line {number}") from error


@contextmanager
def _npy(file: IO[bytes], kept: KeptColumns | None) -> Iterator[WriteChunk]:
    """A ``.npy`` file of float32, shape (n, d), without columns; its header, which leaves room for n, is rewritten at the end."""
    rows = dimensions = 0

    def write(numbered: list[Line], vectors: Array) -> None:
        nonlocal rows, dimensions
        if not rows:
            head(vectors.shape)
        rows, dimensions = rows + len(vectors), vectors.shape[1]
        file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

    def head(shape: tuple[int, ...]) -> None:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": shape}
        )

    yield write
    file.seek(0)
    head((rows, dimensions))


@contextmanager
def _parquet(file: IO[bytes], kept: KeptColumns | None) -> Iterator[WriteChunk]:
    """A Parquet table of kept columns, texts, targets if there are any, and vectors; a row group for each chunk."""
    parquet, arrow = pyarrow()
    writer = None

    def write(numbered: list[Line], vectors: Array) -> None:
        nonlocal writer
        inputs = [line.item for line in numbered]
        flat = arrow.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        columns = kept.arrays([line.kept for line in numbered]) if kept else {}
        if not without_texts():
            columns["text"] = arrow.array([item.text for item in inputs], arrow.string())
        if any(item.spans for item in inputs):
            spans = [[list(span) for span in item.spans] for item in inputs]
            columns["target"] = arrow.array(spans, arrow.list_(arrow.list_(arrow.int32())))
        columns["vector"] = arrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        table = arrow.table(columns)
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer:
            writer.close()


_WRITERS = {".npy": _npy, ".parquet": _parquet, ".pq": _parquet}
