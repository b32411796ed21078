"""Transformations of vectors after encoding: ``post=center``, ``zscore``, ``whiten`` or ``abtt``; ``dims=``; ``type=``.

Those of ``post`` are fitted on the vectors of a corpus, without labels, as a matrix and a bias. ``dims=256`` keeps the
first dimensions, for models trained for it (Matryoshka; Kusupati et al. 2022). ``type=binary`` keeps signs;
``type=int8`` divides the range of each dimension in the corpus into 256 steps: both as ``quantize_embeddings`` of
sentence-transformers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import (
    Array,
    Encoder,
    TextInput,
    check_inputs,
    check_vectors,
)
from mirrorbench.core.errors import EncodingError, ModelUnavailableError, UsageError, unknown_name
from mirrorbench.core.identity import digest
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.core.truncation import Truncation, truncation_of
from mirrorbench.core.unknown_words import count_words

if TYPE_CHECKING:
    import torch

TRANSFORMATIONS = ("center", "zscore", "whiten", "abtt")
STORED = "stored"
"""Transformation in the encoder's directory, fitted by ``mirrorbench tune``."""
DIMS = "dims"
INT8 = "int8"
BINARY = "binary"
POST_KEYS = ("post", "whiten", "abtt", DIMS, "type")
CORPUS_KEYS = ("corpus", "corpus_size", "corpus_sample")
"""Keys of the corpus for the transformation of an untuned encoder."""
WEIGHT = "linear.weight"
BIAS = "linear.bias"
"""Names of the tensors in the module ``Dense`` of sentence-transformers."""
Doubles = NDArray[np.float64]

_NOISE = float(np.finfo(np.float32).eps)
"""Relative deviation below which a dimension does not vary."""
_ROWS = 8192
"""Vectors transformed at a time."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """The transformation of vectors that a spec asks for."""

    name: str
    """``center``: minus the mean. ``zscore``: also each dimension by its standard deviation. ``whiten``: on principal
    axes, each by its standard deviation. ``abtt`` (all but the top): minus the mean, without the first principal axes.
    ``stored``: from the encoder's directory. ``dims``: the first dimensions. Empty: none."""
    number: int = 0
    """Axes kept by ``whiten`` (0: all), axes removed by ``abtt`` (0: a hundredth), or dimensions kept by ``dims``."""
    type: str = ""
    """Type of the numbers: ``int8``, ``binary``, or empty for the encoder's own."""

    def __str__(self) -> str:
        parts = []
        if self.number:
            parts.append(f"{self.name}={self.number}")
        elif self.name:
            parts.append(f"post={self.name}")
        if self.type:
            parts.append(f"type={self.type}")
        return ",".join(parts)

    @property
    def is_fitted(self) -> bool:
        """Whether it depends on the vectors of a corpus."""
        return self.name in TRANSFORMATIONS or self.type == INT8

    @property
    def title(self) -> str:
        """Name in rows of tables."""
        titles = {
            "center": "centred",
            "zscore": "z-scored",
            "whiten": "whitened",
            "abtt": "all but the top",
            "": "",
            DIMS: f"{self.number} dimensions",
        }
        title = titles.get(self.name, "as fitted")
        if self.number and self.name != DIMS:
            title += f" ({self.number})"
        return ", ".join(filter(None, (title, self.type)))

    def check(self, dimensions: int, n_texts: int) -> None:
        """Raise a ``UsageError`` if vectors have too few ``dimensions``, or the corpus has too few texts to fit on."""
        # Neither the first dimensions nor a type alone (no name) is fitted on axes.
        if self.name in (DIMS, ""):
            _check_dims(self.number, dimensions)
            return
        # n texts have n - 1 axes around their mean.
        max_number = min(dimensions, n_texts - 1)
        if self.name == "abtt":
            # One axis has to remain.
            max_number -= 1
        if n_texts < 2 or self.number > max_number:
            # A larger corpus does not help if the dimensions are the limit.
            if dimensions < n_texts:
                hint = f"Write at most {max_number}."
            else:
                hint = "Name a larger corpus=NAME, or a smaller number."
            raise UsageError(
                f"{self} cannot be fitted on {n_texts:,} texts with vectors of {dimensions} dimensions",
                hint,
            )


def _check_dims(number: int, dimensions: int) -> None:
    """Raise a ``UsageError`` if vectors have fewer dimensions than ``dims`` keeps."""
    if number > dimensions:
        raise UsageError(
            f"dims={number}, but the vectors have {dimensions} dimensions",
            f"Write at most {dimensions}.",
        )


def post_keys(spec: EncoderSpec) -> tuple[str, ...]:
    """Return the keys that describe a transformation in a spec."""
    if spec.method == "static":
        # There dims= belongs to the method.
        return tuple(key for key in POST_KEYS if key != DIMS)
    return POST_KEYS


def split_post(spec: EncoderSpec, tuned: bool = False) -> tuple[EncoderSpec, Transformation | None]:
    """Split a spec into the spec without the keys of its transformation, and the transformation.

    A spec without such keys is returned unchanged, with ``None``. Corpus keys leave the other specs too, unless the
    spec is ``tuned``: then they belong to the tuning.

    Raises:
        UsageError: keys of a transformation that do not fit together, or a number that is not a positive integer.
        UnknownNameError: an unknown transformation.
    """
    params = dict(spec.params)
    post_params = {key: params.pop(key) for key in post_keys(spec) if key in params}
    if not post_params:
        return spec, None
    # The name is that of post=, or dims, or for a type alone empty.
    name = str(post_params.get("post", DIMS if DIMS in post_params else ""))
    type_ = str(post_params.get("type", ""))
    _check_name(spec, name, type_, tuned)
    if DIMS in post_params and "post" in post_params:
        raise UsageError(
            f"{spec}: dims= and post= cannot be combined",
            "Write post=whiten,whiten=256 or dims=256.",
        )
    # Each other key is a number under the name of its transformation, such as whiten=256 or dims=256.
    numbers = {key: value for key, value in post_params.items() if key not in ("post", "type")}
    for key, value in numbers.items():
        if not name:
            raise UsageError(
                f"{spec}: {key}={value} belongs to post={key}, which is missing", f"Add post={key}."
            )
        if key != name:
            raise UsageError(
                f"{spec}: {key}={value} belongs to post={key}, and this is post={name}"
            )
        if type(value) is not int or value < 1:
            raise UsageError(f"{spec}: {key}={value} must be a positive integer")
    transformation = Transformation(name, int(numbers.get(name, 0)), type_)
    if not tuned:
        params = {key: value for key, value in params.items() if key not in CORPUS_KEYS}
    return replace(spec, params=tuple(params.items())), transformation


def _check_name(spec: EncoderSpec, name: str, type_: str, tuned: bool) -> None:
    """Raise an error for an unknown transformation or type, or for ``stored`` where it is not possible."""
    if "post" in dict(spec.params) and name not in (*TRANSFORMATIONS, STORED):
        raise unknown_name("transformation", name, list(TRANSFORMATIONS))
    if type_ and type_ not in (INT8, BINARY):
        raise unknown_name("type", type_, [INT8, BINARY])
    if type_ and name == STORED:
        raise UsageError(
            f"{spec}: post=stored and type= cannot be combined", "Leave one of them out."
        )
    if tuned and name == STORED:
        problem = f"{spec}: post=stored is fitted on the vectors of the directory, and these are tuned further"
        raise UsageError(problem, "Write post=center, zscore, whiten or abtt.")


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """A fitted transformation: ``vectors @ matrix + bias``, of shape (d, k) and (k,), in double precision."""

    matrix: Doubles
    bias: Doubles
    type: str = ""

    def apply(self, vectors: Array) -> Array:
        """Return transformed vectors, float32 of shape (n, k); rows of zeros (texts of unknown words) remain zeros.

        Vectors of other dimensions raise an ``EncodingError``.
        """
        if vectors.shape[1] != len(self.matrix):
            problem = f"vectors of {vectors.shape[1]} dimensions do not fit a transformation of {len(self.matrix)}"
            raise EncodingError(problem)
        transformed = np.zeros((len(vectors), len(self.bias)), dtype=np.float32)
        for start in range(0, len(vectors), _ROWS):
            block = vectors[start : start + _ROWS]
            # In double precision, since mean and vectors nearly cancel out.
            transformed_block = _typed(block @ self.matrix + self.bias, self.type)
            is_nonzero = block.any(axis=1, keepdims=True)
            np.copyto(
                transformed[start : start + _ROWS], transformed_block, "same_kind", is_nonzero
            )
        return transformed

    @property
    def checksum(self) -> str:
        """Checksum of matrix, bias and type."""
        identity = {"matrix": self.matrix.tobytes().hex(), "bias": self.bias.tobytes().hex()}
        if self.type:
            identity["type"] = self.type
        return digest(identity)

    def dense(self) -> dict[str, torch.Tensor]:
        """Return matrix and bias as the weights of a ``Dense`` of sentence-transformers."""
        import torch

        weight = torch.from_numpy(self.matrix).T.float().contiguous()
        bias = torch.from_numpy(self.bias).float()
        return {WEIGHT: weight, BIAS: bias}

    @classmethod
    def read(cls, file: Path) -> Affine:
        """Read the weights of a ``Dense`` from a file; raise a ``ModelUnavailableError`` if that fails."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            tensors = load_file(file)
            matrix = np.ascontiguousarray(tensors[WEIGHT].T, dtype=float)
            bias = tensors[BIAS].astype(float)
        except (OSError, KeyError, SafetensorError) as error:
            raise ModelUnavailableError(
                f"the transformation in {file} cannot be read: {error}", "Tune the encoder again."
            ) from error
        return cls(matrix, bias)


@dataclass(frozen=True, slots=True)
class FirstDimensions:
    """A transformation that needs no corpus: keep the first dimensions, as numbers of a type."""

    number: int
    """Dimensions kept; 0 for all."""
    type: str = ""
    """``binary``, or empty for the encoder's numbers."""

    def apply(self, vectors: Array) -> Array:
        """Return transformed vectors, float32 of shape (n, number); rows of zeros remain zeros."""
        _check_dims(self.number, vectors.shape[1])
        transformed = _typed(vectors[:, : self.number or None], self.type)
        is_nonzero = vectors.any(axis=1, keepdims=True)
        return np.asarray(transformed * is_nonzero, dtype=np.float32)

    @property
    def checksum(self) -> str:
        """Checksum of number and type."""
        return digest({"number": self.number, "type": self.type})


def _typed(values: NDArray[Any], type_: str) -> NDArray[Any]:
    """Return values as numbers of a type: unchanged for none, rounded down for ``int8``, signs for ``binary``."""
    if type_ == INT8:
        values = np.clip(np.floor(values), -128, 127)
    elif type_ == BINARY:
        values = np.where(values > 0, 1.0, -1.0)
    return values


def fit(vectors: Array, transformation: Transformation) -> Affine:
    """Fit a transformation in double precision on the vectors of a corpus, shape (n, d), except for rows of zeros.

    ``whiten``: Su et al. 2021 ("Whitening Sentence Representations for Better Semantics and Faster Retrieval"): the
    first k eigenvectors of the covariance, each divided by the root of its eigenvalue. Without k, all with a variance
    are kept; after a layer normalisation one axis has none. ``abtt``: Mu and Viswanath 2018 ("All-but-the-Top",
    section 1: "choosing D around d/100"): the centred vectors without their first D principal axes.

    Raises:
        UsageError: there are too few vectors, dimensions or axes for the transformation.
    """
    nonzero = vectors[vectors.any(axis=1)].astype(np.float64)
    n, d = nonzero.shape
    transformation.check(d, n)
    mean = nonzero.mean(axis=0)
    number = transformation.number
    # First the matrix of the transformation; a type alone has no name.
    if transformation.name in ("center", ""):
        matrix = np.eye(d)
    elif transformation.name == DIMS:
        matrix = np.eye(d)[:, :number]
    elif transformation.name == "zscore":
        deviations = nonzero.std(axis=0)
        # Dimensions that do not vary stay as they are.
        noise = np.abs(nonzero).max() * _NOISE
        matrix = np.diag(1 / np.where(deviations > noise, deviations, 1))
    elif transformation.name == "abtt":
        _, axes = _principal_axes(nonzero - mean)
        # Without a number, a hundredth of the axes is removed.
        top = axes[:, : number or max(1, d // 100)]
        matrix = np.eye(d) - top @ top.T
    else:
        matrix = _whitening(nonzero - mean, number)

    # Then the bias: the vectors are centred, except by ``dims`` and for a type alone.
    if transformation.name in (DIMS, ""):
        bias = np.zeros(matrix.shape[1])
    else:
        bias = -mean @ matrix
    if transformation.type == INT8:
        # Last, divide the range of each dimension into 256 steps, from -128 to 127.
        transformed = nonzero @ matrix + bias
        lowest = transformed.min(axis=0)
        steps = np.ptp(transformed, axis=0) / 255
        steps[steps == 0] = 1  # for dimensions that do not vary
        matrix = matrix / steps
        bias = (bias - lowest) / steps - 128
    return Affine(matrix, bias, transformation.type)


def _whitening(centred: Doubles, number: int) -> Doubles:
    """Return the first ``number`` principal axes as columns, divided by their deviations; all that vary for 0."""
    deviations, axes = _principal_axes(centred)
    rank = int((deviations > deviations[0] * len(axes) * _NOISE).sum())
    if number > rank:
        raise UsageError(
            f"whiten={number} keeps more axes than the {rank} on which the vectors of the corpus vary",
            f"Write whiten={rank}, post=whiten alone for all of them, or name a larger corpus=NAME.",
        )
    n_axes = number or rank
    matrix: Doubles = axes[:, :n_axes] / deviations[:n_axes]
    return matrix


def _principal_axes(centred: Doubles) -> tuple[Doubles, Doubles]:
    """Return the standard deviations along the principal axes, the largest first, and the axes as columns."""
    variances, axes = np.linalg.eigh(centred.T @ centred / (len(centred) - 1))
    variances = variances[::-1]
    axes = axes[:, ::-1]
    deviations = np.sqrt(np.maximum(variances, 0))
    # The largest component of each axis becomes positive, since libraries choose different signs.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return deviations, axes * np.sign(largest)


def transform(
    vectors: Array, inputs: Sequence[TextInput], affines: Mapping[str, Affine | FirstDimensions]
) -> Array:
    """Transform each input's vector by the transformation of its language, or all by the one under ``""``.

    ``affines``: the transformations by language, one for each language of the inputs.

    Raises:
        EncodingError: the transformations lead to different numbers of dimensions.
    """
    source = "the transformation of the vectors"
    if "" in affines:
        return check_vectors(affines[""].apply(vectors), len(inputs), source)
    # Transform the rows of each language, then put them back into the order of the inputs.
    rows: dict[str, list[int]] = {language: [] for language in affines}
    for row, item in enumerate(inputs):
        rows[item.language].append(row)
    parts = {
        language: affines[language].apply(vectors[rows_of_language])
        for language, rows_of_language in rows.items()
    }
    dimensions = {part.shape[1] for part in parts.values()}
    if len(dimensions) > 1:
        raise EncodingError(
            f"the whitened vectors of the languages have different dimensions: {sorted(dimensions)}",
            f"Keep as many in each: post=whiten,whiten={min(dimensions)}",
        )
    transformed = np.empty((len(inputs), *dimensions), dtype=np.float32)
    for language, rows_of_language in rows.items():
        transformed[rows_of_language] = parts[language]
    return check_vectors(transformed, len(inputs), source)


@dataclass(eq=False)
class TransformedEncoder:
    """An encoder with transformed vectors."""

    encoder: Encoder
    affines: Mapping[str, Affine | FirstDimensions]
    """Transformations by language, or one under ``""``."""

    @property
    def fingerprint(self) -> str:
        """Identity of the encoder, its readout and the transformation."""
        pooling = str(getattr(self.encoder, "pooling", ""))
        precision = str(getattr(self.encoder, "precision", ""))
        return digest(
            {
                "encoder": self.encoder.fingerprint,
                "read": [pooling, precision],
                "post": {language: affine.checksum for language, affine in self.affines.items()},
            }
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the encoder for results."""
        return tuple(getattr(self.encoder, "notes", ()))

    @property
    def refuses_texts(self) -> bool:
        """Whether ``check_inputs`` may find a text that the encoder cannot read."""
        return bool(getattr(self.encoder, "refuses_texts", False))

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Any] = ()) -> None:
        """Raise an ``UnreadableTextError`` for the first text that the encoder cannot read."""
        check_inputs(self.encoder, inputs, poolings)

    def count_cut(self, inputs: Sequence[TextInput], pooling: Any = None) -> Truncation | None:
        """Count the inputs that are longer than the encoder reads."""
        return truncation_of(self.encoder, inputs, pooling)

    def count_words(self, inputs: Sequence[TextInput]) -> list[tuple[int, int]] | None:
        """Return for each input the number of its words, and of those with a vector, as ``core.unknown_words`` does."""
        return count_words(self.encoder, inputs)

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Return the vectors of texts, float32 of shape (n, k)."""
        vectors = np.asarray(self.encoder.encode(inputs), dtype=np.float32)
        return transform(vectors, inputs, self.affines)
