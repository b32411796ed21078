"""Verify a written encoder by loading it again: other libraries must compute its vectors from the directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.errors import READ_BACK_HINT, ReadBackError
from mirrorbench.models.opening import read_sentence_transformer
from mirrorbench.models.pooling import Pooling, PoolingFunction
from mirrorbench.models.transformations import Affine

if TYPE_CHECKING:
    import torch

    from mirrorbench.models.transformer_encoder import TransformerEncoder

_MOST_CHARACTERS = 10_000
"""Length at which a text of the sample is cut."""


@dataclass(frozen=True)
class Sample:
    """Three texts and their vectors, to compare with those computed from an encoder's directory.

    Attributes:
        texts: texts of the user, since the vocabulary may lack the words of other texts.
        vectors: their vectors by the encoder in memory.
        tolerance: the largest distance of two vectors that rounding explains.
        pooling: pooling of the encoder.
        precision: precision of the frozen weights, in which everything is computed.
        device: the device on which the directory is opened.
        poolings: the registered poolings.
    """

    texts: list[str]
    vectors: Array
    tolerance: float
    pooling: Pooling
    precision: str
    device: torch.device
    poolings: Mapping[str, PoolingFunction]

    @classmethod
    def of(cls, encoder: TransformerEncoder, post: Affine | None, lines: Sequence[str]) -> Sample:
        """Encode three texts: a line of middle length, the longest line, and all lines as one text, which is cut."""
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        transformer = encoder.transformer
        by_length = sorted(lines, key=len)
        chosen = (by_length[len(lines) // 2], by_length[-1], " ".join(lines))
        texts = [text[:_MOST_CHARACTERS].strip() for text in chosen]
        vectors = TransformerEncoder(
            transformer, encoder.pooling, transformer.matrix_precision
        ).encode(texts)

        # Other libraries round differently: by little in float32, by more in half precision.
        if transformer.matrix_precision == "fp32":
            relative_tolerance = 1e-3
            rounding_error = 1e-5
        else:
            relative_tolerance = 0.05
            rounding_error = 0.02
        tolerance = 0.0
        if post:
            # A transformation multiplies rounding errors.
            largest_factor = float(np.linalg.norm(post.matrix, 2))
            tolerance = rounding_error * _largest_length(vectors) * largest_factor
            vectors = post.apply(vectors)
        tolerance += relative_tolerance * _largest_length(vectors)
        return cls(
            texts,
            vectors,
            tolerance,
            encoder.pooling,
            transformer.matrix_precision,
            transformer.device,
            transformer.poolings,
        )

    def check(self, folder: Path) -> None:
        """Raise ``ReadBackError`` unless transformers and sentence-transformers, if installed, compute these vectors."""
        readers: dict[str, Callable[[Path], Array]] = {"transformers": self._by_transformers}
        if find_spec("sentence_transformers"):
            readers["sentence-transformers"] = self._by_sentence_transformers
        for library, read in readers.items():
            try:
                vectors = read(folder)
            except Exception as error:  # another library may raise anything
                lines = str(error).splitlines() or [""]
                problem = f"cannot read it ({type(error).__name__}: {lines[0][:300]})"
            else:
                problem = self._difference(vectors)
            if problem:
                raise ReadBackError(
                    f"The encoder is not written: {library} {version(library)} {problem}",
                    READ_BACK_HINT,
                )

    def _difference(self, vectors: Array) -> str:
        """Describe how the vectors of a library differ from those of the sample; empty if they do not."""
        if vectors.shape != self.vectors.shape:
            return f"reads vectors of shape {vectors.shape} from it, not {self.vectors.shape}"
        distance = _largest_length(vectors - self.vectors)
        if distance <= self.tolerance:
            return ""
        length = _largest_length(vectors)
        return f"reads other vectors from it, {distance:.2g} off at a length of {length:.2g}"

    def _by_transformers(self, folder: Path) -> Array:
        from mirrorbench.models.transformer import load_transformer
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        transformer = load_transformer(
            folder, self.device, poolings=self.poolings, precision=self.precision
        )
        vectors = TransformerEncoder(transformer, self.pooling, self.precision).encode(self.texts)
        transformations = sorted(folder.glob("[0-9]_Dense/model.safetensors"))
        if transformations:
            vectors = Affine.read(transformations[0]).apply(vectors)
        return vectors

    def _by_sentence_transformers(self, folder: Path) -> Array:
        model = read_sentence_transformer(folder, str(self.device), self.precision)
        vectors = model.encode(self.texts, batch_size=1, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)


def _largest_length(vectors: Array) -> float:
    """Return the largest Euclidean length of some vectors."""
    return float(np.linalg.norm(vectors, axis=1).max())
