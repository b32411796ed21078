"""``fasttext`` and ``static``: word vectors as text encoders, a text's vector being the mean over its words.

Spec keys: ``path`` (a file; ``{lang}`` in it stands for the language of the text), ``limit`` (words read from it, 0
for all), ``lower`` (whether texts are lower-cased; by default, if the vocabulary is), ``language`` (of texts that name
none; by default the task's).

How a text becomes words: it is looked up whole; if unknown, it is cut at spaces, and the punctuation around each piece
is taken off; a piece that is unknown is cut at the punctuation inside it. Unknown words are left out, unless the file
has vectors of character n-grams (fastText binaries), and a text without any known word gets a zero vector. A word in
context is encoded without its context.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.errors import ModelUnavailableError, UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import EncoderSpec

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array, TextInput
    from mirrorbench.models.systems import EncoderContext
    from mirrorbench.models.wordvectors import WordVectors

KEYS = ("path", "limit", "lower", "language")
DEFAULT_LIMIT = 200_000
"""Words read from a file: as many as Glavaš et al. (2019) keep, whose dictionaries paper 1 takes (section 3)."""
LANGUAGE = "{lang}"

_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_INSIDE = re.compile(r"[\W_]+")


class StaticEncoder:
    """Mean word vectors.

    Args:
        path: the file, perhaps with ``{lang}`` in it.
        limit: words read from it, 0 for all.
        lower: whether texts are lower-cased, ``None`` for what suits the vocabulary.
        language: of inputs that name none.

    Raises:
        ModelUnavailableError: there is no such file.
    """

    def __init__(self, path: Path, limit: int = DEFAULT_LIMIT, lower: bool | None = None, language: str = "") -> None:
        from mirrorbench.core.identity import digest
        from mirrorbench.models.wordvectors import file_checksum

        self.path = path
        self.limit = limit
        self.lower = lower
        self.language = language
        checksums = {file.name: file_checksum(file) for file in self._files()}
        self.fingerprint = digest({"files": checksums, "limit": limit, "lower": lower, "language": language})
        self._opened: dict[str, WordVectors] = {}

    def __str__(self) -> str:
        return self.path.name

    def encode(self, inputs: Sequence[TextInput | str]) -> Array:
        """Vectors of texts, float32 of shape (n, dimensions); zero where no word is known.

        Raises:
            DataFormatError: the file does not follow its format.
            UsageError: the path has ``{lang}`` and an input's language is not known, or the files of two languages
                have different dimensions.
        """
        rows = []
        for item in inputs:
            text, language = (item, "") if isinstance(item, str) else (_target(item), item.language)
            rows.append(self._vector(text, self._vectors(language)))
        if len({len(row) for row in rows}) > 1:
            raise UsageError(f"the files of {self.path} have different dimensions")
        return np.stack(rows)

    def vocabulary(self, language: str) -> tuple[str, ...]:
        """The words of the file, or of the language's file, the most frequent first: at most ``limit``.

        Raises:
            DataFormatError: the file does not follow its format.
        """
        return self._vectors(language).words

    def _vector(self, text: str, vectors: WordVectors) -> Array:
        lower = vectors.lowercased if self.lower is None else self.lower
        found = list(_lookups(text.lower() if lower else text, vectors))
        return np.mean(found, axis=0, dtype=np.float32) if found else np.zeros(vectors.vectors.shape[1], np.float32)

    def _vectors(self, language: str) -> WordVectors:
        from mirrorbench.models.wordvectors import load_vectors

        path = self._path(language or self.language)
        if str(path) not in self._opened:
            self._opened[str(path)] = load_vectors(path, self.limit)
        return self._opened[str(path)]

    def _path(self, language: str) -> Path:
        if LANGUAGE not in str(self.path):
            return self.path
        if not language:
            raise UsageError(
                f"{self.path}: which language {LANGUAGE} stands for is not known",
                "Add language=en to the encoder spec.",
            )
        return Path(str(self.path).replace(LANGUAGE, language))

    def _files(self) -> list[Path]:
        """The file, or all files that the path can stand for."""
        if LANGUAGE not in self.path.name:
            return [self._path(self.language)]
        found = sorted(self.path.parent.glob(self.path.name.replace(LANGUAGE, "*")))
        if not found:
            raise ModelUnavailableError(f"there is no file of word vectors at {self.path}, whatever the language")
        return found


def _target(item: TextInput) -> str:
    """The target word without its context, or the whole text where there is none."""
    return " ".join(item.text[start:end] for start, end in item.spans) or item.text


def _lookups(text: str, vectors: WordVectors) -> Iterator[Array]:
    """The vectors of a text's words."""
    text = text.strip()
    whole = vectors.known(text)
    if whole is not None:
        yield whole
        return
    for piece in text.split():
        word = _EDGES.sub("", piece) or piece
        parts = [word] if vectors.known(word) is not None or vectors.subwords else _INSIDE.split(word)
        for part in parts:
            vector = vectors.vector(part)
            if vector is not None:
                yield vector


def open_static(spec: EncoderSpec, context: EncoderContext) -> StaticEncoder:
    """The encoder of a spec; the file is only checksummed until the first text comes.

    Raises:
        UsageError: a key that is not known, a value of the wrong type, or no path.
        ModelUnavailableError: there is no such file.
    """
    params = dict(spec.params)
    for key in params:
        if key not in KEYS:
            raise unknown_name(f"key of {spec.backbone}", key, list(KEYS))
    if "path" not in params:
        raise UsageError(
            f"{spec} names no file",
            f"Write {spec.backbone}:path=cc.en.300.vec; vectors are at https://fasttext.cc/docs/en/crawl-vectors.html",
        )
    limit, lower = params.get("limit", DEFAULT_LIMIT), params.get("lower")
    if type(limit) is not int or limit < 0:
        raise UsageError(f"limit={limit} is not a number of words")
    if not (lower is None or isinstance(lower, bool)):
        raise UsageError(f"lower={lower} is neither true nor false")
    return StaticEncoder(Path(str(params["path"])).expanduser(), limit, lower, str(params.get("language", "")))


@hookimpl
def register_encoders(register: Register) -> None:
    """Word vectors, under the name of the paper's baseline and under a name for all others."""
    register("fasttext", open_static, "fastText vectors (.vec or .bin): mean over a text's words")
    register("static", open_static, "any word vectors as text (word2vec, GloVe): mean over a text's words")
