"""Opens a written directory before anybody gets it: other libraries must read the encoder's vectors from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.errors import READ_BACK, ReadBackError
from mirrorbench.models.opening import read_sentence_transformer
from mirrorbench.models.pooling import Pooling, PoolingFunction
from mirrorbench.models.transformations import Affine

if TYPE_CHECKING:
    import torch

    from mirrorbench.models.transformer_encoder import TransformerEncoder

_MOST_CHARACTERS = 10_000


@dataclass(frozen=True)
class Sample:
    """Three texts and their vectors, to compare with those read from an encoder's directory.

    Attributes:
        texts: of the user, since other ones may be unknown to the vocabulary.
        vectors: of the encoder in memory.
        tolerance: the largest distance of two vectors that rounding explains.
        pooling: of the encoder.
        kept: the precision of the frozen weights, in which everything is computed.
        device: the device on which the directory is opened.
        poolings: the registered ones.
    """

    texts: list[str]
    vectors: Array
    tolerance: float
    pooling: Pooling
    kept: str
    device: torch.device
    poolings: Mapping[str, PoolingFunction]

    @classmethod
    def of(cls, encoder: TransformerEncoder, post: Affine | None, lines: Sequence[str]) -> Sample:
        """Take a line of middle length, the longest, and all of them as one text, which is too long for the encoder."""
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        by_length, transformer = sorted(lines, key=len), encoder.transformer
        chosen = (by_length[len(lines) // 2], by_length[-1], " ".join(lines))
        texts = [text[:_MOST_CHARACTERS].strip() for text in chosen]
        vectors = TransformerEncoder(transformer, encoder.pooling, transformer.kept).encode(texts)
        near, rounding = (1e-3, 1e-5) if transformer.kept == "fp32" else (0.05, 0.02)
        tolerance = 0.0
        if post:  # which multiplies rounding errors
            tolerance = rounding * _length(vectors) * float(np.linalg.norm(post.matrix, 2))
            vectors = post.apply(vectors)
        tolerance += near * _length(vectors)
        kept, device, poolings = transformer.kept, transformer.device, transformer.poolings
        return cls(texts, vectors, tolerance, encoder.pooling, kept, device, poolings)

    def check(self, folder: Path) -> None:
        """Raise unless transformers and, where it is installed, sentence-transformers read these vectors."""
        readers: dict[str, Callable[[Path], Array]] = {"transformers": self._by_transformers}
        if find_spec("sentence_transformers"):
            readers["sentence-transformers"] = self._by_sentence_transformers
        for library, read in readers.items():
            try:
                vectors = read(folder)
            except Exception as error:  # which may be any in another library
                lines = str(error).splitlines() or [""]
                what = f"cannot read it ({type(error).__name__}: {lines[0][:300]})"
            else:
                same = vectors.shape == self.vectors.shape
                distance = _length(vectors - self.vectors) if same else np.inf
                if distance <= self.tolerance:
                    continue
                what = f"reads vectors of shape {vectors.shape} from it, not {self.vectors.shape}"
                if same:
                    what = f"reads other vectors from it, {distance:.2g} off where they are {_length(vectors):.2g} long"
            raise ReadBackError(
                f"The encoder is not written: {library} {version(library)} {what}", READ_BACK
            )

    def _by_transformers(self, folder: Path) -> Array:
        from mirrorbench.models.transformer import load_transformer
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        opened = load_transformer(folder, self.device, poolings=self.poolings, precision=self.kept)
        vectors = TransformerEncoder(opened, self.pooling, self.kept).encode(self.texts)
        dense = sorted(folder.glob("[0-9]_Dense/model.safetensors"))
        return Affine.read(dense[0]).apply(vectors) if dense else vectors

    def _by_sentence_transformers(self, folder: Path) -> Array:
        model = read_sentence_transformer(folder, str(self.device), self.kept)
        return np.asarray(
            model.encode(self.texts, batch_size=1, show_progress_bar=False), dtype=np.float32
        )


def _length(vectors: Array) -> float:
    """The largest Euclidean length of some vectors."""
    return float(np.linalg.norm(vectors, axis=1).max())
