r"""Static word vectors: files in word2vec, GloVe and fastText's text form, and fastText's binaries.

A file is read once, down to the first ``limit`` words (files list frequent words first), and kept in the cache as a
plain array that is memory-mapped from then on: loading two gigabytes again costs neither time nor memory.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from mirrorbench.core.errors import DataFormatError, ModelUnavailableError
from mirrorbench.core.files import cache_root, writing
from mirrorbench.core.identity import digest
from mirrorbench.core.inputs import Array

PARSER = 1
"""Version of the reading; raised when the same file would give other vectors, so that no old cache entry is used."""

_HEADER = re.compile(rb"(\d+) (\d+)")


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors.

    Attributes:
        words: distinct words, the most frequent first.
        vectors: shape (words, dimensions), perhaps memory-mapped.
        ngrams: fastText's vectors of character n-grams, for words beyond the vocabulary: one row for each hash bucket.
        shortest: characters of the shortest n-gram, the brackets around the word counted.
        longest: of the longest one.
    """

    words: tuple[str, ...]
    vectors: Array
    ngrams: Array | None = None
    shortest: int = 0
    longest: int = 0

    @cached_property
    def rows(self) -> dict[str, int]:
        """Where each word's vector is."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def lowercased(self) -> bool:
        """Whether no word has an upper-case letter."""
        return all(word == word.lower() for word in self.words)

    def vector(self, word: str) -> Array | None:
        """The vector of a word, the mean over its n-grams if need be; ``None`` for an unknown word."""
        if word in self.rows or self.ngrams is None:
            return self.vectors[self.rows[word]] if word in self.rows else None
        from gensim.models.fasttext import ft_ngram_hashes

        rows = ft_ngram_hashes(word, self.shortest, self.longest, len(self.ngrams))
        return np.asarray(self.ngrams[rows]).mean(axis=0, dtype=np.float32) if len(rows) else None


def file_checksum(path: Path) -> str:
    """SHA-256 of a file, remembered in the cache by the file's path, size and time of change.

    Raises:
        ModelUnavailableError: there is no such file.
    """
    if not path.is_file():
        raise ModelUnavailableError(f"there is no file of word vectors at {path}")
    stat = path.stat()
    key = digest({"path": str(path.resolve()), "size": stat.st_size, "changed": stat.st_mtime_ns})
    note = _folder() / f"{key}.sha256"
    if note.is_file():
        return note.read_text(encoding="ascii")
    with path.open("rb") as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    with writing(note) as sink:
        sink.write(checksum.encode())
    return checksum


def load_vectors(path: Path, limit: int) -> WordVectors:
    """The first ``limit`` words of a file, 0 for all.

    Names ending in ``.bin`` are fastText binaries, all others text; a ``.gz`` is unpacked while it is read. A binary
    is read whole once (as much memory as the file is large), to be kept with its n-grams.

    Raises:
        ModelUnavailableError: there is no such file, or no gensim to read a binary with.
        DataFormatError: the file does not follow its format; the message names file and line.
    """
    folder = _folder() / digest({"file": file_checksum(path), "limit": limit, "parser": PARSER})
    if not (folder / "words.json").is_file():
        read = _read_binary if path.suffix == ".bin" else read_text
        _save(read(path, limit), folder)
    about = json.loads((folder / "words.json").read_bytes().decode("utf-8", "surrogatepass"))
    words = tuple(about.pop("words"))
    ngrams = np.load(folder / "ngrams.npy", mmap_mode="r") if about else None
    return WordVectors(words, np.load(folder / "vectors.npy", mmap_mode="r"), ngrams, **about)


def _folder() -> Path:
    return cache_root() / "vectors"


def _save(vectors: WordVectors, folder: Path) -> None:
    """Keep vectors in the cache; the words come last, so that a folder without them is one that died half-written."""
    about: dict[str, Any] = {"words": vectors.words}
    arrays = {"vectors": vectors.vectors}
    if vectors.ngrams is not None:
        arrays["ngrams"] = vectors.ngrams
        about |= {"shortest": vectors.shortest, "longest": vectors.longest}
    for name, array in arrays.items():
        with writing(folder / f"{name}.npy") as sink:
            np.save(sink, np.asarray(array, dtype=np.float32))
    with writing(folder / "words.json") as sink:
        sink.write(json.dumps(about, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def read_text(path: Path, limit: int = 0) -> WordVectors:
    """Read a text file: a word and its numbers on each line, separated by spaces, after a header or none.

    A header is a first line of two whole numbers. A word may hold spaces (GloVe 840B has some): the numbers are
    counted from the end. Of a repeated word the first vector counts, bytes that are no UTF-8 become U+FFFD.

    Raises:
        DataFormatError: a line with another number of columns, something that is no finite number, no line at all, or
            fewer than the header announces.
    """
    words: dict[str, Array] = {}
    announced = dimensions = number = 0
    with _opened(path) as stream, warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how NumPy says that a text is no list of numbers
        for number, line in _lines(stream, path):
            if number == 1 and (header := _HEADER.fullmatch(line)):
                announced = int(header[1])
                continue
            word, row = _entry(line, dimensions)
            if not word or not len(row) or not np.isfinite(row).all():
                raise DataFormatError(
                    f"{path}, line {number}: expected a word and {dimensions or 'some'} finite numbers, found "
                    f"{line[:60]!r} ({line.count(b' ') + 1} columns).",
                    "Each line is a word and its numbers, separated by single spaces.",
                )
            dimensions = len(row)
            words.setdefault(word, row)
            if len(words) == limit:
                break
        else:
            if number < announced:
                raise DataFormatError(f"{path} ends at line {number}, but its header announces {announced} words.")
    if not words:
        raise DataFormatError(f"{path} holds no word vectors.", "Each line is a word and its numbers.")
    return WordVectors(tuple(words), np.stack(list(words.values())))


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _lines(stream: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers (from 1) and without their ends; blank ones are left out."""
    try:
        for number, raw in enumerate(stream, start=1):
            if line := raw.rstrip(b" \r\n").replace(b"\t", b" "):
                yield number, line
    except (OSError, EOFError) as error:
        raise DataFormatError(f"{path} cannot be read: {error}") from error


def _entry(line: bytes, dimensions: int) -> tuple[str, Array]:
    """A line's word and numbers; no numbers if they are not ``dimensions`` many (0: not known yet)."""
    word, _, rest = line.partition(b" ")
    row = _numbers(rest)
    if dimensions and len(row) != dimensions:  # perhaps a word that holds spaces
        word, *fields = line.rsplit(b" ", dimensions)
        row = _numbers(b" ".join(fields))
    return word.decode("utf-8", "replace"), row if dimensions in (0, len(row)) else row[:0]


def _numbers(text: bytes) -> Array:
    try:
        return np.fromstring(text, dtype=np.float32, sep=" ")
    except (DeprecationWarning, ValueError):
        return np.empty(0, dtype=np.float32)


def _read_binary(path: Path, limit: int) -> WordVectors:
    """A fastText binary: its first words, and all of its n-grams."""
    try:
        from gensim.models.fasttext import load_facebook_vectors
    except ImportError as error:
        raise ModelUnavailableError(
            "fastText binaries need the package gensim, which is not installed",
            "Install it: pip install 'mirrorbench[static]'\nor use the text file (.vec), which needs nothing.",
        ) from error
    try:
        model = load_facebook_vectors(str(path))
    except (OSError, EOFError, ValueError, AssertionError, NotImplementedError, UnicodeDecodeError) as error:
        raise DataFormatError(f"{path} is no fastText binary that gensim reads: {error}") from error
    words = tuple(model.index_to_key[: limit or None])
    ngrams = (model.vectors_ngrams, model.min_n, model.max_n) if model.max_n > 0 else ()
    return WordVectors(words, model.vectors[: len(words)], *ngrams)
