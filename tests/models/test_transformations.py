"""Transformations after encoding against naive computations, scikit-learn and sentence-transformers' quantisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import quantize_embeddings
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import mirrorbench
from mirrorbench.core.encoder_protocol import Array, TextInput
from mirrorbench.core.errors import (
    EncodingError,
    ModelUnavailableError,
    UnknownNameError,
    UsageError,
)
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import embedded_directory
from mirrorbench.models.transformations import (
    Affine,
    FirstDimensions,
    Transformation,
    fit,
    split_post,
    transform,
)

RNG = np.random.default_rng(7)
# 400 vectors of 12 dimensions that share a large mean and vary much more along some axes than along others.
VECTORS: Array = (
    (RNG.normal(size=(400, 12)) * np.geomspace(5, 0.05, 12)) @ RNG.normal(size=(12, 12))
    + 3 * RNG.normal(size=12)
).astype(np.float32)
FITTED: Array = (RNG.normal(size=(500, 32)) * np.geomspace(3, 0.1, 32) + 0.2).astype(np.float32)
NEW: Array = (RNG.normal(size=(200, 32)) * np.geomspace(4, 0.1, 32) + 0.2).astype(
    np.float32
)  # some lie outside


def test_center_and_zscore_equal_scikit_learn() -> None:
    for name, scaler in (("center", StandardScaler(with_std=False)), ("zscore", StandardScaler())):
        actual = fit(VECTORS, Transformation(name)).apply(VECTORS)
        assert np.abs(actual - scaler.fit_transform(VECTORS.astype(float))).max() < 1e-5
    constant = VECTORS.copy()
    constant[:, 4] = 2.5
    assert np.abs(fit(constant, Transformation("zscore")).apply(constant)[:, 4]).max() < 1e-5


@pytest.mark.parametrize("k", [0, 5, 12])
def test_whitening_equals_scikit_learn(k: int) -> None:
    actual = fit(VECTORS, Transformation("whiten", k)).apply(VECTORS)
    expected = PCA(k or None, whiten=True).fit_transform(VECTORS.astype(float))
    assert (
        np.abs(actual - expected * np.sign((expected * actual).sum(0))).max() < 1e-5
    )  # an axis has no sign


@pytest.mark.parametrize("d", [0, 3])
def test_all_but_the_top_removes_leading_components(d: int) -> None:
    """Mu and Viswanath 2018: minus the mean and the first D components; D is about d/100, here the one of 12."""
    wide = VECTORS.astype(float) - VECTORS.astype(float).mean(0)
    top = np.linalg.svd(wide, full_matrices=False)[2][: d or 1]
    assert (
        np.abs(
            fit(VECTORS, Transformation("abtt", d)).apply(VECTORS) - (wide - wide @ top.T @ top)
        ).max()
        < 1e-5
    )
    wider = np.hstack([VECTORS] * 25)  # 300 dimensions: 3 axes
    same = fit(wider, Transformation("abtt", 3)).apply(wider)
    assert np.array_equal(fit(wider, Transformation("abtt")).apply(wider), same)


def test_whitening_drops_axes_without_variance() -> None:
    """Layer-normalised vectors are in a hyperplane; along its normal there is rounding alone."""
    flat = VECTORS - VECTORS.mean(axis=1, keepdims=True)
    actual = fit(flat, Transformation("whiten")).apply(flat)
    assert actual.shape == (400, 11)
    assert np.abs(np.cov(actual.T.astype(float)) - np.eye(11)).max() < 1e-5
    with pytest.raises(UsageError, match="whiten=12 keeps more axes than the 11") as caught:
        fit(flat, Transformation("whiten", 12))
    assert "Write whiten=11" in caught.value.hint


@pytest.mark.parametrize(
    ("rows", "asked", "hint"),
    [
        (400, Transformation("whiten", 9999), "Write at most 12."),
        (6, Transformation("whiten", 6), "Name a larger corpus"),
        (400, Transformation("abtt", 12), "Write at most 11."),
        (1, Transformation("center"), "Name a larger corpus"),
    ],
)
def test_unfittable_transformation_is_refused(rows: int, asked: Transformation, hint: str) -> None:
    with pytest.raises(UsageError, match="cannot be fitted on") as caught:
        fit(VECTORS[:rows], asked)
    assert hint in caught.value.hint


def test_zero_vectors_are_ignored_and_stay_zero() -> None:
    holes = np.vstack([np.zeros((50, 12), np.float32), VECTORS])
    affine = fit(holes, Transformation("whiten"))
    assert affine.checksum == fit(VECTORS, Transformation("whiten")).checksum
    for kept in (
        affine,
        FirstDimensions(4, "binary"),
        FirstDimensions(4),
        fit(VECTORS, Transformation("", 0, "int8")),
    ):
        assert not kept.apply(holes)[:50].any()
    with pytest.raises(
        EncodingError, match="vectors of 3 dimensions do not fit a transformation of 12"
    ):
        affine.apply(VECTORS[:, :3])


def test_each_language_has_a_separate_transformation() -> None:
    inputs = [TextInput("a", (), "en"), TextInput("b", (), "fr"), TextInput("c", (), "en")]
    en, fr = (Affine(np.eye(2) * by, np.zeros(2)) for by in (2, 3))
    vectors = np.array([[1, 1], [1, 2], [3, 3]], np.float32)
    assert transform(vectors, inputs, {"fr": fr, "en": en}).tolist() == [[2, 2], [3, 6], [6, 6]]
    narrow = Affine(np.ones((2, 1)), np.zeros(1))
    with pytest.raises(EncodingError, match=r"different dimensions: \[1, 2\]"):
        transform(vectors, inputs, {"en": en, "fr": narrow})


def test_transformation_round_trips_through_dense_weights(tmp_path: Path) -> None:
    affine = fit(VECTORS, Transformation("whiten", 4))
    weights = affine.dense()
    linear = VECTORS @ weights["linear.weight"].numpy().T + weights["linear.bias"].numpy()
    save_file(weights, tmp_path / "dense")
    for actual in (affine, Affine.read(tmp_path / "dense")):
        assert np.abs(actual.apply(VECTORS) - linear).max() < 1e-4
    (tmp_path / "dense").write_bytes(b"cut")
    with pytest.raises(ModelUnavailableError, match="cannot be read"):
        Affine.read(tmp_path / "dense")


@pytest.mark.parametrize("dims", [0, 8])
def test_int8_quantisation_matches_sentence_transformers(dims: int) -> None:
    actual = fit(FITTED, Transformation("dims" if dims else "", dims, "int8")).apply(NEW)
    keep = slice(dims or None)
    theirs = quantize_embeddings(
        NEW[:, keep], "int8", calibration_embeddings=FITTED[:, keep]
    ).astype(float)
    assert actual.shape == theirs.shape
    assert actual.min() == -128
    assert actual.max() == 127
    # They divide in single precision: a value on the edge between two steps may fall on the other side.
    assert np.abs(actual - theirs).max() <= 1
    assert (actual != theirs).mean() < 1e-3


@pytest.mark.parametrize("dims", [0, 16])
def test_binary_quantisation_equals_sentence_transformers(dims: int) -> None:
    actual = FirstDimensions(dims, "binary").apply(NEW)
    bits = np.unpackbits(quantize_embeddings(NEW[:, : dims or None], "ubinary"), axis=1)
    np.testing.assert_array_equal(actual, bits * 2.0 - 1)


def test_whitening_precedes_quantisation() -> None:
    white = fit(FITTED, Transformation("whiten", 8)).apply(NEW)
    signs = fit(FITTED, Transformation("whiten", 8, "binary")).apply(NEW)
    np.testing.assert_array_equal(signs, np.where(white > 0, 1, -1))
    calibration = fit(FITTED, Transformation("whiten", 8)).apply(FITTED)
    small = fit(FITTED, Transformation("whiten", 8, "int8")).apply(NEW)
    assert (
        np.abs(small - quantize_embeddings(white, "int8", calibration_embeddings=calibration)).max()
        <= 1
    )


def test_dims_equals_truncation_of_sentence_transformers(tmp_path: Path) -> None:
    texts = ["a man plays the guitar", "snow", "stocks fell on monday"]
    SentenceTransformer(str(embedded_directory()), device="cpu").save(str(tmp_path / "own"))
    short = SentenceTransformer(str(tmp_path / "own"), device="cpu", truncate_dim=24).encode(texts)
    for spec in ("tiny+base:pooling=mean,dims=24", f"{tmp_path}/own+base:dims=24"):
        np.testing.assert_allclose(
            mirrorbench.load(spec, device="cpu").encode(texts), short, atol=1e-5
        )
    signs = mirrorbench.load("tiny+base:pooling=mean,dims=24,type=binary", device="cpu").encode(
        texts
    )
    np.testing.assert_array_equal(signs, np.where(short > 0, 1, -1))
    with pytest.raises(UsageError, match="dims=300, but the vectors have 256 dimensions"):
        mirrorbench.load("tiny+base:dims=300", device="cpu")


def test_transformation_keys_are_split_from_specs() -> None:
    spec = parse_spec("x+mirror:post=whiten,whiten=7,corpus=mine,lr=0.1")
    plain, actual = split_post(spec, tuned=True)
    assert (str(plain), actual) == ("x+mirror:corpus=mine,lr=0.1", Transformation("whiten", 7))
    assert (
        str(split_post(parse_spec("x+base:post=center,corpus=mine,corpus_size=9"))[0]) == "x+base"
    )
    assert split_post(parse_spec("x:corpus=mine")) == (parse_spec("x:corpus=mine"), None)
    assert split_post(parse_spec("x+static:dims=64"))[1] is None  # those of its own PCA
    for keys, meant, title in (
        ("post=abtt", Transformation("abtt"), ""),
        ("dims=64", Transformation("dims", 64), "64 dimensions"),
        ("type=int8", Transformation("", 0, "int8"), "int8"),
        ("dims=64,type=binary", Transformation("dims", 64, "binary"), "64 dimensions, binary"),
        ("post=center,type=int8", Transformation("center", 0, "int8"), "centred, int8"),
        ("post=whiten,whiten=9,type=int8", Transformation("whiten", 9, "int8"), ""),
    ):
        actual = split_post(parse_spec(f"x+base:{keys}"))[1]
        assert actual == meant
        assert actual.title == (title or actual.title)


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("x:abtt=3", "abtt=3 belongs to post=abtt, which is missing", "Add post=abtt"),
        ("x:whiten=3,post=abtt", "whiten=3 belongs to post=whiten, and this is post=abtt", ""),
        ("x:whiten=0,post=whiten", "whiten=0 must be a positive integer", ""),
        ("x:whiten=many,post=whiten", "whiten=many must be a positive integer", ""),
        ("x+mirror:post=stored", "these are tuned further", "Write post=center"),
        ("x:post=whitn", "unknown transformation 'whitn'", "whiten"),
        ("x:dims=0", "dims=0 must be a positive integer", ""),
        ("x:post=whiten,dims=8", "dims= and post= cannot be combined", ""),
        ("x:post=stored,type=int8", "post=stored and type= cannot be combined", ""),
        ("x:type=int4", "unknown type", ""),
        ("x:post=dims,dims=8", "unknown transformation", ""),
    ],
)
def test_invalid_transformation_keys_are_rejected(spec: str, message: str, hint: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=message) as caught:
        split_post(parse_spec(spec), tuned="mirror" in spec)
    assert hint in caught.value.hint
