"""Transformations of vectors after encoding: ``post=center``, ``zscore``, ``whiten`` or ``abtt``.

Each is fitted on the vectors of a corpus, without labels, and is one matrix and one bias; nothing is normalised after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import EncodingError, ModelUnavailableError, UsageError, unknown_name
from mirrorbench.core.identity import digest
from mirrorbench.core.inputs import Array, Encoder, TextInput
from mirrorbench.core.specs import EncoderSpec

if TYPE_CHECKING:
    import torch

TRANSFORMATIONS = ("center", "zscore", "whiten", "abtt")
STORED = "stored"
"""As fitted when ``mirrorbench tune`` wrote the encoder's directory."""
POST_KEYS = ("post", "whiten", "abtt")
CORPUS_KEYS = ("corpus", "corpus_size", "corpus_sample")
"""Of an encoder that is not tuned, the texts on which the transformation is fitted."""
WEIGHT, BIAS = "linear.weight", "linear.bias"
"""Names of the tensors in the module ``Dense`` of sentence-transformers."""
Doubles = NDArray[np.float64]

_NOISE = float(np.finfo(np.float32).eps)
_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Transformation:
    """A transformation that a spec asks for.

    Attributes:
        kind: ``center``: minus the mean. ``zscore``: also each dimension by its standard deviation. ``whiten``: on the
            principal axes, each by its standard deviation. ``abtt``: all but the top, minus the mean and without the
            first principal axes. ``stored``: read from the encoder's directory.
        number: axes that ``whiten`` keeps, 0 for all; axes that ``abtt`` removes, 0 for a hundredth of the dimensions.
    """

    kind: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind}={self.number}" if self.number else f"post={self.kind}"

    @property
    def title(self) -> str:
        """As rows of tables name it."""
        named = {"center": "centred", "zscore": "z-scored", "whiten": "whitened", "abtt": "all but the top"}
        return named.get(self.kind, "as fitted") + (f" ({self.number})" if self.number else "")

    def check(self, dimensions: int, texts: int) -> None:
        """Raise where vectors of so many dimensions, of so many texts, cannot be transformed."""
        most = min(dimensions, texts - 1) - (self.kind == "abtt")
        if texts < 2 or self.number > most:
            raise UsageError(
                f"{self} cannot be fitted on {texts:,} texts with vectors of {dimensions} dimensions",
                f"Write at most {most}." if dimensions < texts else "Name a larger corpus=NAME, or a smaller number.",
            )


def split_post(spec: EncoderSpec, tuned: bool = False) -> tuple[EncoderSpec, Transformation | None]:
    """A spec without its transformation, and that; the corpus keys stay with a tuning.

    Raises:
        UsageError: a number without ``post``, or one that is not a number of axes.
        UnknownNameError: another transformation.
    """
    params = dict(spec.params)
    kind, numbers = params.pop("post", None), {key: params.pop(key) for key in POST_KEYS[1:] if key in params}
    if kind is None:
        if numbers:
            key, value = next(iter(numbers.items()))
            raise UsageError(f"{spec}: {key}={value} belongs to post={key}, which it lacks", f"Add post={key}.")
        return spec, None
    if kind not in (*TRANSFORMATIONS, STORED):
        raise unknown_name("transformation", str(kind), list(TRANSFORMATIONS))
    for key, value in numbers.items():
        if key != kind:
            raise UsageError(f"{spec}: {key}={value} belongs to post={key}, and this is post={kind}")
        if type(value) is not int or value < 1:
            raise UsageError(f"{spec}: {key}={value} is not a whole number from 1 on")
    if tuned and kind == STORED:
        problem = f"{spec}: post=stored is fitted on the vectors of the directory, and these are tuned further"
        raise UsageError(problem, "Write post=center, zscore, whiten or abtt.")
    number = numbers.get(str(kind), 0)
    left = {key: value for key, value in params.items() if tuned or key not in CORPUS_KEYS}
    return replace(spec, params=tuple(left.items())), Transformation(str(kind), int(number))


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """A fitted transformation: ``vectors @ matrix + bias``, of shape (d, k) and (k,), in double precision."""

    matrix: Doubles
    bias: Doubles

    def apply(self, vectors: Array) -> Array:
        """Vectors, float32 of shape (n, k); one of zeros, of a text without known words, stays one of zeros."""
        if vectors.shape[1] != len(self.matrix):
            problem = f"vectors of {vectors.shape[1]} dimensions do not fit a transformation of {len(self.matrix)}"
            raise EncodingError(problem)
        found = np.zeros((len(vectors), len(self.bias)), dtype=np.float32)
        for start in range(0, len(vectors), _ROWS):  # in double precision, since mean and vectors nearly cancel out
            some = vectors[start : start + _ROWS]
            known = some.any(axis=1, keepdims=True)
            np.copyto(found[start : start + _ROWS], some @ self.matrix + self.bias, "same_kind", known)
        return found

    @property
    def checksum(self) -> str:
        """Of matrix and bias."""
        return digest({"matrix": self.matrix.tobytes().hex(), "bias": self.bias.tobytes().hex()})

    def dense(self) -> dict[str, torch.Tensor]:
        """The weights of a ``Dense`` of sentence-transformers."""
        import torch

        weight, bias = torch.from_numpy(self.matrix), torch.from_numpy(self.bias)
        return {WEIGHT: weight.T.float().contiguous(), BIAS: bias.float()}

    @classmethod
    def read(cls, file: Path) -> Affine:
        """Read the file of such weights."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            tensors = load_file(file)
            return cls(np.ascontiguousarray(tensors[WEIGHT].T, dtype=float), tensors[BIAS].astype(float))
        except (OSError, KeyError, SafetensorError) as error:
            raise ModelUnavailableError(
                f"the transformation in {file} cannot be read: {error}", "Tune the encoder again."
            ) from error


def fit(vectors: Array, transformation: Transformation) -> Affine:
    """Fit a transformation, in double precision.

    ``whiten``: Su et al. 2021 ("Whitening Sentence Representations for Better Semantics and Faster Retrieval"): the
    eigenvectors of the covariance, each divided by the root of its eigenvalue, the first k of them. All means those on
    which the vectors vary at all: after a layer normalisation they do not along one axis.

    ``abtt``: Mu and Viswanath 2018 ("All-but-the-Top", section 1: "choosing D around d/100"): the centred vectors
    without their first D principal axes.

    Args:
        vectors: of the corpus, shape (n, d). Those of zeros, of texts without known words, are left out.
        transformation: what to fit.

    Raises:
        UsageError: the vectors have fewer axes than asked for.
    """
    known = vectors[vectors.any(axis=1)].astype(np.float64)
    (n, d), number = known.shape, transformation.number
    transformation.check(d, n)
    mean = known.mean(axis=0)
    if transformation.kind == "center":
        matrix = np.eye(d)
    elif transformation.kind == "zscore":
        deviation = known.std(axis=0)
        matrix = np.diag(1 / np.where(deviation > np.abs(known).max() * _NOISE, deviation, 1))
    else:
        deviations, axes = _principal_axes(known - mean)
        if transformation.kind == "abtt":
            top = axes[:, : number or max(1, d // 100)]
            matrix = np.eye(d) - top @ top.T
        else:
            rank = int((deviations > deviations[0] * d * _NOISE).sum())
            if number > rank:
                raise UsageError(
                    f"whiten={number} keeps more axes than the {rank} on which the vectors of the corpus vary",
                    f"Write whiten={rank}, post=whiten alone for all of them, or name a larger corpus=NAME.",
                )
            keep = number or rank
            matrix = axes[:, :keep] / deviations[:keep]
    return Affine(matrix, -mean @ matrix)


def _principal_axes(centred: Doubles) -> tuple[Doubles, Doubles]:
    """Standard deviations along the principal axes, the largest first, and the axes as columns."""
    values, axes = np.linalg.eigh(centred.T @ centred / (len(centred) - 1))
    axes = axes[:, ::-1]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return np.sqrt(np.maximum(values[::-1], 0)), axes * np.sign(largest)  # a sign that depends on no library


def transform(vectors: Array, inputs: Sequence[TextInput], affines: Mapping[str, Affine]) -> Array:
    """Vectors of inputs after the transformation of each one's language, or after the one under ``""``."""
    if "" in affines:
        return affines[""].apply(vectors)
    rows = {language: [i for i, item in enumerate(inputs) if item.language == language] for language in affines}
    if len(sizes := {len(affine.bias) for affine in affines.values()}) > 1:
        raise EncodingError(
            f"the whitened vectors of the languages have different dimensions: {sorted(sizes)}",
            f"Keep as many in each: post=whiten,whiten={min(sizes)}",
        )
    found = np.empty((len(inputs), *sizes), dtype=np.float32)
    for language, own in rows.items():
        found[own] = affines[language].apply(vectors[own])
    return found


@dataclass(eq=False)
class TransformedEncoder:
    """An encoder whose vectors are transformed.

    Attributes:
        encoder: gives the vectors.
        affines: by language, or one under ``""``.
    """

    encoder: Encoder
    affines: Mapping[str, Affine]

    @property
    def fingerprint(self) -> str:
        """Identity of the encoder, its readout and the transformation."""
        fitted = {language: affine.checksum for language, affine in self.affines.items()}
        read = [str(getattr(self.encoder, name, "")) for name in ("pooling", "precision")]
        return digest({"encoder": self.encoder.fingerprint, "read": read, "post": fitted})

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Vectors of texts, float32 of shape (n, k)."""
        return transform(np.asarray(self.encoder.encode(inputs), dtype=np.float32), inputs, self.affines)
