"""Encoding of files of any length: a stream of inputs in, a file of vectors out, in chunks.

Memory is bounded by one chunk. Beside an unfinished output lie ``<output>.part`` and ``<output>.part.json``, which
says what was encoded by what and how far it came; the same command goes on from there. Chunks start at the same inputs
whether or not a run was interrupted, so the bytes are the same too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.files import writing
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.inputs import Encoder, TextInput, encode_checked
from mirrorbench.texts.writers import CHUNK, Sink


@dataclass(frozen=True, slots=True)
class Encoded:
    """What a stream came to.

    Attributes:
        rows: inputs.
        before: how many of them were encoded before an interruption.
        dimensions: of a vector; 0 where nothing was encoded now.
    """

    rows: int
    before: int
    dimensions: int


@dataclass(frozen=True, slots=True)
class State:
    """How far an unfinished output came.

    Attributes:
        job: hash of the encoder and of how the input is read.
        rows: rows that are safe.
        seen: hash of their inputs.
    """

    job: str
    rows: int
    seen: str


class Progress:
    """The sidecar of an unfinished output.

    Args:
        output: the output.
        job: hash of what is to be encoded, and how.
    """

    def __init__(self, output: Path, job: str) -> None:
        self.path = output.with_name(f"{output.name}.part.json")
        self.job = job

    def read(self) -> State | None:
        """What is there of this very job.

        Raises:
            UsageError: what is there belongs to another job.
        """
        if not self.path.is_file():
            return None
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            state = State(str(data["job"]), int(data["rows"]), str(data["seen"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.path} is damaged ({error})", "Delete it, or start anew with --restart.") from error
        if state.job != self.job:
            raise UsageError(
                f"{self.path} belongs to an unfinished run with another encoder or other columns",
                "Repeat that command to finish it, or start anew with --restart.",
            )
        return state

    def write(self, rows: int, seen: str) -> None:
        """Note that ``rows`` rows are safe."""
        with writing(self.path) as sink:
            sink.write(json.dumps({"job": self.job, "rows": rows, "seen": seen}).encode())

    def clear(self) -> None:
        """Forget it: the output is complete."""
        self.path.unlink(missing_ok=True)


def encode_stream(
    inputs: Iterable[TextInput],
    encoder: Encoder,
    sink: Sink,
    progress: Progress | None = None,
    advance: Callable[[int], None] = lambda n: None,
) -> Encoded:
    """Encode a stream of inputs.

    Args:
        inputs: the inputs, from the first one on also where a run is continued.
        encoder: what encodes them.
        sink: where vectors go.
        progress: the sidecar, ``None`` for a sink that cannot be continued.
        advance: called with the number of inputs that are done.

    Raises:
        UsageError: an unfinished output of another job is there.
        DataFormatError: the input is not the one that the unfinished output was made of.
        EncodingError: the encoder gave anything but finite vectors.
        StorageError: the output cannot be written.
    """
    state = progress.read() if progress else None
    if state and not sink.holds(state.rows):  # killed after the output had its name, which has gone since
        state = None
    stream, seen = iter(inputs), hashlib.sha256()
    before = rows = state.rows if state else 0
    dimensions = 0
    for _ in range(0, rows, CHUNK):
        _hash(list(islice(stream, min(CHUNK, rows))), seen)
    if state and seen.hexdigest() != state.seen:
        raise DataFormatError("the input has changed since the unfinished run began", "Start anew with --restart.")
    sink.keep(rows)
    advance(rows)
    for chunk in _chunks(stream):
        distinct = list(dict.fromkeys(chunk))
        vectors = encode_checked(encoder, distinct, "the encoder")
        if len(distinct) < len(chunk):
            place = {item: row for row, item in enumerate(distinct)}
            vectors = vectors[[place[item] for item in chunk]]
        sink.write(chunk, vectors)
        _hash(chunk, seen)
        rows, dimensions = rows + len(chunk), vectors.shape[1]
        if progress and len(chunk) == CHUNK:
            progress.write(rows, seen.hexdigest())
        advance(len(chunk))
    sink.finish()
    if progress:
        progress.clear()
    return Encoded(rows, before, dimensions)


def _chunks(stream: Iterator[TextInput]) -> Iterator[list[TextInput]]:
    while chunk := list(islice(stream, CHUNK)):
        yield chunk


def _hash(chunk: list[TextInput], seen: Any) -> None:
    seen.update(b"".join(item.key() for item in chunk))


def job_key(encoder: Encoder, reading: dict[str, Any], kind: str) -> str:
    """Hash of what decides an output: the encoder, how the input is read, and the format."""
    parts = {"encoder": encoder.fingerprint, "reading": reading, "kind": kind, "computation": COMPUTATION}
    return digest({**parts, "chunk": CHUNK})
