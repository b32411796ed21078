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
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core.errors import ModelUnavailableError, UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import digest
from mirrorbench.core.inputs import TextInput, as_inputs
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.systems import EncoderContext, checked_params
from mirrorbench.models.wordvectors import WordVectors, file_checksum, load_vectors

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array

DEFAULT_WORDS = 200_000
"""Words read from a file: as many as Glavaš et al. (2019) keep, whose dictionaries paper 1 takes (section 3)."""
_LANGUAGE = "{lang}"

_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_INSIDE = re.compile(r"[\W_]+")


class StaticEncoder:
    """Mean word vectors; the file is only checksummed until the first text comes.

    Args:
        path: the file, perhaps with ``{lang}`` in it.
        limit: words read from it, 0 for all.
        lower: whether texts are lower-cased, ``None`` for what suits the vocabulary.
        language: of inputs that name none.

    Raises:
        ModelUnavailableError: there is no such file.
    """

    def __init__(self, path: Path, limit: int = DEFAULT_WORDS, lower: bool | None = None, language: str = "") -> None:
        self.path = path
        self.limit = limit
        self.lower = lower
        self.language = language
        checksums = {file.name: file_checksum(file) for file in self._files()}
        self.fingerprint = digest({"files": checksums, "limit": limit, "lower": lower, "language": language})
        self._loaded: dict[Path, WordVectors] = {}

    def encode(self, inputs: Sequence[TextInput | str]) -> Array:
        """Vectors of texts, float32 of shape (n, dimensions); zero where no word is known.

        Raises:
            DataFormatError: the file does not follow its format.
            UsageError: the path has ``{lang}`` and an input's language is not known, or the files of two languages
                have different dimensions.
        """
        rows = [self._vector(item) for item in as_inputs(inputs)]
        if len({len(row) for row in rows}) > 1:
            raise UsageError(f"the files of {self.path} have different dimensions")
        return np.stack(rows)

    def vocabulary(self, language: str) -> tuple[str, ...]:
        """The words of the file, or of the language's file, the most frequent first: at most ``limit``.

        Raises:
            DataFormatError: the file does not follow its format.
        """
        return self._vectors(language).words

    def _vector(self, item: TextInput) -> Array:
        vectors = self._vectors(item.language)
        text = " ".join(item.text[start:end] for start, end in item.spans) or item.text
        lower = vectors.lowercased if self.lower is None else self.lower
        found = list(_lookups(text.lower() if lower else text, vectors))
        return np.mean(found, axis=0, dtype=np.float32) if found else np.zeros(vectors.vectors.shape[1], np.float32)

    def _vectors(self, language: str) -> WordVectors:
        path = self._path(language or self.language)
        if path not in self._loaded:
            self._loaded[path] = load_vectors(path, self.limit)
        return self._loaded[path]

    def _path(self, language: str) -> Path:
        if _LANGUAGE in str(self.path) and not language:
            raise UsageError(
                f"{self.path}: which language {_LANGUAGE} stands for is not known",
                "Add language=en to the encoder spec.",
            )
        return Path(str(self.path).replace(_LANGUAGE, language))

    def _files(self) -> list[Path]:
        """The file, or all files that the path can stand for."""
        if _LANGUAGE not in self.path.name:
            return [self._path(self.language)]
        found = sorted(self.path.parent.glob(self.path.name.replace(_LANGUAGE, "*")))
        if not found:
            raise ModelUnavailableError(f"there is no file of word vectors at {self.path}, whatever the language")
        return found


def _lookups(text: str, vectors: WordVectors) -> Iterator[Array]:
    """The vectors of a text's words."""
    text = text.strip()
    if text in vectors.rows:
        yield vectors.vectors[vectors.rows[text]]
        return
    for piece in text.split():
        word = _EDGES.sub("", piece) or piece
        whole = word in vectors.rows or vectors.ngrams is not None
        for part in [word] if whole else _INSIDE.split(word):
            vector = vectors.vector(part)
            if vector is not None:
                yield vector


def create_static(spec: EncoderSpec, context: EncoderContext) -> StaticEncoder:
    """The encoder of a spec.

    Raises:
        UsageError: a key that is not known, a value of the wrong type, or no path.
        ModelUnavailableError: there is no such file.
    """
    params: dict[str, Any] = checked_params(spec, path=str, limit=int, lower=bool, language=str)
    if "path" not in params:
        raise UsageError(
            f"{spec} names no file",
            f"Write {spec.backbone}:path=cc.en.300.vec; vectors are at https://fasttext.cc/docs/en/crawl-vectors.html",
        )
    if params.get("limit", 0) < 0:
        raise UsageError(f"limit={params['limit']} is not a number of words")
    return StaticEncoder(**{**params, "path": Path(params["path"]).expanduser()})


@hookimpl
def register_encoders(register: Register) -> None:
    """Word vectors, under the name of the paper's baseline and under a name for all others."""
    register("fasttext", create_static, "fastText vectors (.vec or .bin): mean over a text's words")
    register("static", create_static, "any word vectors as text (word2vec, GloVe): mean over a text's words")
