"""``fasttext`` and ``static``: word vectors as text encoders; a text's vector is the mean over its words.

Files: the text formats of word2vec, GloVe and fastText, or fastText binaries. Spec keys: ``path`` (a file; ``{lang}``
stands for the text's language), ``limit`` (number of words, 0 for all), ``lower`` (lower-case texts; by default if the
vocabulary is lower-cased), ``language`` (of texts without one; by default the task's), ``sif`` (1e-3: rare words weigh
more; by default all weigh the same).

A text is looked up whole; if unknown, it is split at spaces, and punctuation around each piece is removed; an unknown
piece is split at the punctuation in it. Unknown words are omitted, unless the file has vectors of character n-grams
(fastText binaries); a text without known words has a zero vector. A word in context is encoded without its context.
"""

from __future__ import annotations

import gzip
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mirrorbench.core.encoder_protocol import Array, TextInput, as_inputs
from mirrorbench.core.errors import (
    DataFormatError,
    ModelUnavailableError,
    UsageError,
    not_installed,
)
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import digest
from mirrorbench.core.quoting import shown
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.encoder_systems import EncoderContext, checked_params
from mirrorbench.storage.checksums import kept_checksum, kept_folder
from mirrorbench.storage.files import cache_root

PARSER_VERSION = 1
"""Version of the parser, part of cache keys; raised when the vectors of a file change."""

DEFAULT_WORDS = 200_000
"""Words read from a file: as many as Glavaš et al. (2019), whose dictionaries Mirror-BERT uses (section 3)."""

_LANGUAGE = "{lang}"
_HEADER = re.compile(rb"(\d+) (\d+)")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_INSIDE = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class WordVectors:
    """Distinct words, most frequent first, and their vectors, possibly memory-mapped."""

    words: tuple[str, ...]
    vectors: Array
    ngrams: Array | None = None
    """Vectors of character n-grams for out-of-vocabulary words (fastText): one row per hash bucket."""
    shortest: int = 0
    """Length of the shortest n-gram in characters, counting the brackets around a word."""
    longest: int = 0
    """Length of the longest n-gram."""
    weights: Array | None = None
    """Weights of the words, in their order; ``None`` if all weigh the same."""

    @cached_property
    def rows(self) -> dict[str, int]:
        """Row of each word's vector."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def lowercased(self) -> bool:
        """Whether no word has an upper-case letter."""
        return all(word == word.lower() for word in self.words)

    def vector(self, word: str) -> Array | None:
        """Return the vector of a known word, else the mean over its n-grams; ``None`` without n-grams."""
        vector: Array
        row = self.rows.get(word)
        if row is not None:
            vector = self.vectors[row]
            return vector
        if self.ngrams is None:
            return None
        from gensim.models.fasttext import ft_ngram_hashes

        buckets = ft_ngram_hashes(word, self.shortest, self.longest, len(self.ngrams))
        if len(buckets) == 0:
            return None
        vector = np.asarray(self.ngrams[buckets]).mean(axis=0, dtype=np.float32)
        return vector

    def of_text(self, text: str) -> Array:
        """Average the vectors of a text's known words, shape (dimensions,); zeros without any.

        A word that only has n-grams gets the weight of the rarest word.
        """
        weighted_vectors: list[Array] = []
        for word in self._split(text.strip()):
            vector = self.vector(word)
            if vector is None:
                continue
            if self.weights is not None:
                # Words are in descending order of frequency, so -1 is the row of the rarest one.
                row = self.rows.get(word, -1)
                vector = vector * self.weights[row]
            weighted_vectors.append(vector)
        if not weighted_vectors:
            return np.zeros(self.vectors.shape[1], np.float32)
        mean: Array = np.mean(weighted_vectors, axis=0, dtype=np.float32)
        return mean

    def count_words(self, text: str) -> tuple[int, int]:
        """Return the number of a text's words, and of those with a vector; unknown punctuation is not counted."""
        n_words = 0
        n_with_vector = 0
        for word in self._split(text.strip()):
            if self.vector(word) is not None:
                n_words += 1
                n_with_vector += 1
            elif any(map(str.isalnum, word)):
                n_words += 1
        return n_words, n_with_vector

    def _split(self, text: str) -> Iterator[str]:
        """Yield the text itself if it has a vector, or else its words, unknown ones split at their punctuation."""
        if text in self.rows:
            yield text
            return
        for piece in text.split():
            word = _EDGES.sub("", piece) or piece
            if word in self.rows or self.ngrams is not None:
                yield word
            else:
                yield from _INSIDE.split(word)


def sif_weights(n: int, sif: float) -> Array:
    """Return weights a / (a + p) of n words, most frequent first, with a = ``sif``; weights of 1 for ``sif=0``.

    Arora, Liang and Ma (ICLR 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", section 3). Neither
    files nor vocabularies state the probability p of a word; it is that of Zipf's law, in proportion to 1 / (rank + 1),
    as in model2vec. The paper's other step, the removal of the first component, is ``post=abtt,abtt=1``.
    """
    if not sif:
        return np.ones(n, dtype=np.float32)
    inverse_ranks = 1 / np.arange(2, n + 2)
    probabilities = inverse_ranks / inverse_ranks.sum()
    weights: Array = (sif / (sif + probabilities)).astype(np.float32)
    return weights


def checked_sif(sif: float) -> float:
    """Return the value of the spec key ``sif``; raise a ``UsageError`` if it is out of range."""
    if not 0 <= sif < 1:
        raise UsageError(
            f"sif={sif:g} is out of range",
            "It is between 0 (no weights) and 1; papers use 1e-3 or 1e-4.",
        )
    return sif


def plain_text(item: TextInput) -> str:
    """Return the target of an input without its context, or the whole text of an input without a target."""
    return " ".join(item.text[start:end] for start, end in item.spans) or item.text


class StaticEncoder:
    """Mean word vectors of a file, or of one file per language; checksummed at once, loaded at the first text.

    ``lower``: whether to lower-case texts; ``None`` does so if the vocabulary is lower-cased. ``language``: language of
    inputs without one. ``sif``: as in ``sif_weights``, 0 for none.
    """

    def __init__(
        self,
        path: Path,
        limit: int = DEFAULT_WORDS,
        lower: bool | None = None,
        language: str = "",
        sif: float = 0.0,
    ) -> None:
        self.path = path
        self.limit = limit
        self.lower = lower
        self.language = language
        self.sif = sif
        self._checksums = {file: file_checksum(file) for file in self._files()}
        checksums_by_name = {file.name: checksum for file, checksum in self._checksums.items()}
        identity: dict[str, Any] = {
            "files": checksums_by_name,
            "limit": limit,
            "lower": lower,
            "language": language,
        }
        if sif:
            identity["sif"] = sif
        self.fingerprint = digest(identity)
        self._loaded: dict[Path, WordVectors] = {}

    def encode(self, inputs: Sequence[TextInput | str]) -> Array:
        """Encode texts as float32 of shape (n, dimensions); zeros for a text without known words.

        Files of different dimensions raise a ``UsageError``.
        """
        rows = []
        for item in as_inputs(inputs):
            vectors = self._vectors(item.language)
            rows.append(vectors.of_text(self._cased_text(item, vectors)))
        if len({len(row) for row in rows}) > 1:
            raise UsageError(f"the files of {self.path} have different dimensions")
        return np.stack(rows)

    def count_words(self, inputs: Sequence[TextInput]) -> list[tuple[int, int]]:
        """Return for each input the number of its words, and of those with a vector."""
        counts = []
        for item in inputs:
            vectors = self._vectors(item.language)
            counts.append(vectors.count_words(self._cased_text(item, vectors)))
        return counts

    def _cased_text(self, item: TextInput, vectors: WordVectors) -> str:
        """Return the text of an input, lower-cased if the vectors need it."""
        lower = vectors.lowercased if self.lower is None else self.lower
        text = plain_text(item)
        return text.lower() if lower else text

    def vocabulary(self, language: str) -> tuple[str, ...]:
        """Return the first ``limit`` words of a language's file, most frequent first."""
        return self._vectors(language).words

    def _vectors(self, language: str) -> WordVectors:
        """Return the vectors of a language, loaded once; raise a ``ModelUnavailableError`` if it has no file."""
        path = self._path(language or self.language)
        if path not in self._loaded:
            if path not in self._checksums:
                raise ModelUnavailableError(f"there is no file of word vectors at {path}")
            vectors = load_vectors(path, self.limit, self._checksums[path])
            if self.sif:
                weights = sif_weights(len(vectors.words), self.sif)
                vectors = replace(vectors, weights=weights)
            self._loaded[path] = vectors
        return self._loaded[path]

    def _path(self, language: str) -> Path:
        """Return the path of a language's file; raise a ``UsageError`` if it depends on an unknown one."""
        if _LANGUAGE in str(self.path) and not language:
            raise UsageError(
                f"{self.path}: the language for {_LANGUAGE} is not known",
                "Add language=en to the encoder spec.",
            )
        return Path(str(self.path).replace(_LANGUAGE, language))

    def _files(self) -> list[Path]:
        """Return the files of all languages; raise a ``ModelUnavailableError`` if there are none."""
        if _LANGUAGE not in self.path.name:
            return [self._path(self.language)]
        paths = sorted(self.path.parent.glob(self.path.name.replace(_LANGUAGE, "*")))
        if not paths:
            raise ModelUnavailableError(
                f"there is no file of word vectors at {self.path}, whatever the language"
            )
        return paths


@hookimpl
def register_encoders(register: Register) -> None:
    """Register files of word vectors, as ``fasttext`` (the paper's baseline) and ``static``."""
    register("fasttext", create_static, "fastText vectors (.vec or .bin): mean over a text's words")
    register(
        "static",
        create_static,
        "any word vectors as text (word2vec, GloVe): mean over a text's words",
    )


def create_static(spec: EncoderSpec, context: EncoderContext) -> StaticEncoder:
    """Create the encoder of a ``fasttext`` or ``static`` spec; raise a ``UsageError`` for invalid keys."""
    params = checked_params(spec, path=str, limit=int, lower=bool, language=str, sif=float)
    if "path" not in params:
        raise UsageError(
            f"{spec} names no file",
            f"Write {spec.backbone}:path=cc.en.300.vec; vectors are at https://fasttext.cc/docs/en/crawl-vectors.html",
        )
    if params.get("limit", 0) < 0:
        raise UsageError(f"limit={params['limit']} is not a number of words")
    checked_sif(params.get("sif", 0))
    params["path"] = Path(params["path"]).expanduser()
    return StaticEncoder(**params)


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file of word vectors; raise a ``ModelUnavailableError`` if it is missing."""
    if not path.is_file():
        raise ModelUnavailableError(f"there is no file of word vectors at {path}")
    return kept_checksum(path)


def load_vectors(path: Path, limit: int, checksum: str) -> WordVectors:
    """Load the vectors of the first ``limit`` words of a file, of all for 0; files list frequent words first.

    A file is parsed once and cached as memory-mapped arrays. Files whose names end in ``.bin`` are fastText binaries,
    for which parsing needs as much memory as the file is large; others are text, those in ``.gz`` compressed. Raise a
    ``ModelUnavailableError`` if the file does not have the ``checksum`` when it has been parsed.
    """

    def parse_into(folder: Path) -> None:
        if path.suffix == ".bin":
            vectors = _read_binary(path, limit)
        else:
            vectors = read_text(path, limit)
        if file_checksum(path) != checksum:
            raise ModelUnavailableError(
                f"{path} changed while it was read", "Run the command again."
            )
        _save(vectors, folder)

    key = digest({"file": checksum, "limit": limit, "parser": PARSER_VERSION})
    amount = f"the first {limit:,}" if limit else "all"
    description = f"{amount} words of {path.name}"
    folder = kept_folder(cache_root() / "vectors" / key, parse_into, description)
    # Open what ``parse_into`` has written, now or earlier.
    settings = json.loads((folder / "words.json").read_bytes().decode("utf-8", "surrogatepass"))
    words = tuple(settings.pop("words"))
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    # Apart from the words, the settings hold the lengths of n-grams, if the file has n-grams.
    ngrams = None
    if settings:
        ngrams = np.load(folder / "ngrams.npy", mmap_mode="r")
    return WordVectors(words, vectors, ngrams, **settings)


def _save(vectors: WordVectors, folder: Path) -> None:
    """Write the files of a cached folder, which ``load_vectors`` reads."""
    settings: dict[str, Any] = {"words": vectors.words}
    arrays = {"vectors": vectors.vectors}
    if vectors.ngrams is not None:
        arrays["ngrams"] = vectors.ngrams
        settings |= {"shortest": vectors.shortest, "longest": vectors.longest}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.asarray(array, dtype=np.float32))
    text = json.dumps(settings, ensure_ascii=False)
    (folder / "words.json").write_bytes(text.encode("utf-8", "surrogatepass"))


def read_text(path: Path, limit: int = 0) -> WordVectors:
    """Read the vectors of the first ``limit`` words of a text file, or of all words for 0.

    Each line is a word and its numbers, separated by spaces; the first line may be a header of two integers instead. A
    word may contain spaces (as in GloVe 840B): the numbers are counted from the end. The first vector of a repeated
    word counts; bytes that are not UTF-8 become U+FFFD. Any other line, or fewer lines than announced, raise a
    ``DataFormatError``.
    """
    words: dict[str, Array] = {}
    announced = 0
    dimensions = 0
    n_vectors = 0
    is_at_limit = False
    try:
        with _open(path) as stream, warnings.catch_warnings():
            # NumPy's warning of a text that is not a list of numbers becomes an error, which `_numbers` catches.
            warnings.simplefilter("error", DeprecationWarning)
            for line_number, raw in enumerate(stream, start=1):
                line = raw.rstrip(b" \r\n").replace(b"\t", b" ")
                if not line:
                    continue
                header = _HEADER.fullmatch(line) if line_number == 1 else None
                if header:
                    announced = int(header[1])
                    continue
                # The first word's vector decides the dimensions, which are 0 until then.
                word, vector = _entry(line, dimensions)
                if not word or not len(vector) or not np.isfinite(vector).all():
                    raise DataFormatError(
                        f"{path}, line {line_number}: expected a word and {dimensions or 'some'} finite numbers, found "
                        f"{shown(line.decode(errors='replace'))} ({line.count(b' ') + 1} columns).",
                        "Each line is a word and its numbers, separated by single spaces.",
                    )
                dimensions = len(vector)
                n_vectors += 1
                words.setdefault(word, vector)
                is_at_limit = len(words) == limit
                if is_at_limit:
                    break
    except (OSError, EOFError) as error:
        raise DataFormatError(f"{path} cannot be read: {error}") from error
    # The whole file was read.
    if not is_at_limit and n_vectors < announced:
        raise DataFormatError(
            f"{path} ends after {n_vectors} words, but its header announces {announced}."
        )
    if not words:
        raise DataFormatError(
            f"{path} holds no word vectors.", "Each line is a word and its numbers."
        )
    return WordVectors(tuple(words), np.stack(list(words.values())))


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    """Open a file for reading; one in ``.gz`` is decompressed."""
    if path.suffix == ".gz":
        return gzip.open(path)
    return path.open("rb")


def _entry(line: bytes, dimensions: int) -> tuple[str, Array]:
    """Return the word and the numbers of a line; no numbers unless there are ``dimensions`` of them (0: any number)."""
    word, _, rest = line.partition(b" ")
    row = _numbers(rest)
    if dimensions and len(row) != dimensions:
        # Perhaps the word contains spaces.
        word, *fields = line.rsplit(b" ", dimensions)
        row = _numbers(b" ".join(fields))
        if len(row) != dimensions:
            row = row[:0]
    return word.decode("utf-8", "replace"), row


def _numbers(text: bytes) -> Array:
    """Return numbers separated by spaces; none for any other text."""
    try:
        return np.fromstring(text, dtype=np.float32, sep=" ")
    except (DeprecationWarning, ValueError):
        return np.empty(0, dtype=np.float32)


def _read_binary(path: Path, limit: int) -> WordVectors:
    """Read the first ``limit`` words (0: all) and all n-grams of a fastText binary.

    Raise a ``ModelUnavailableError`` without gensim, and a ``DataFormatError`` for any other file.
    """
    try:
        from gensim.models.fasttext import load_facebook_vectors
    except ImportError as error:
        alternative = "\nor use the .vec file, which needs nothing."
        raise not_installed(
            ModelUnavailableError, "fastText binaries need", "gensim", "static", alternative
        ) from error
    try:
        model = load_facebook_vectors(str(path))
    except (
        OSError,
        EOFError,
        ValueError,
        AssertionError,
        NotImplementedError,
        UnicodeDecodeError,
    ) as error:
        raise DataFormatError(
            f"{path} is not a fastText binary that gensim can read: {error}"
        ) from error
    words = tuple(model.index_to_key[: limit or None])
    vectors = model.vectors[: len(words)]
    if model.max_n <= 0:
        return WordVectors(words, vectors)
    return WordVectors(
        words, vectors, model.vectors_ngrams, shortest=model.min_n, longest=model.max_n
    )
