"""How vectors are kept: the first dimensions and small numbers, against sentence-transformers' own quantisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import hamming
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import quantize_embeddings

from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.core.inputs import Array, unit
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import embedded_directory
from mirrorbench.models.transformations import Taken, Transformation, fit, split_post
from mirrorbench.runs.workspace import Workspace

RNG = np.random.default_rng(3)
CORPUS: Array = (RNG.normal(size=(500, 32)) * np.geomspace(3, 0.1, 32) + 0.2).astype(np.float32)
VECTORS: Array = (RNG.normal(size=(200, 32)) * np.geomspace(4, 0.1, 32) + 0.2).astype(np.float32)  # some lie outside


@pytest.mark.parametrize("dims", [0, 8])
def test_int8_as_sentence_transformers(dims: int) -> None:
    found = fit(CORPUS, Transformation("dims" if dims else "", dims, "int8")).apply(VECTORS)
    keep = slice(dims or None)
    theirs = quantize_embeddings(VECTORS[:, keep], "int8", calibration_embeddings=CORPUS[:, keep]).astype(float)
    assert found.shape == theirs.shape
    assert found.min() == -128
    assert found.max() == 127
    # They divide in single precision: a value on the edge between two steps may fall on the other side.
    assert np.abs(found - theirs).max() <= 1
    assert (found != theirs).mean() < 1e-3


@pytest.mark.parametrize("dims", [0, 16])
def test_binary_as_sentence_transformers(dims: int) -> None:
    """Cosines of signs are 1 - 2h, h the share of bits that differ."""
    found = Taken(dims, "binary").apply(VECTORS)
    bits = np.unpackbits(quantize_embeddings(VECTORS[:, : dims or None], "ubinary"), axis=1)
    np.testing.assert_array_equal(found, bits * 2.0 - 1)
    cosines = unit(found) @ unit(found).T
    for i, j in ((0, 1), (5, 9), (7, 7)):
        assert cosines[i, j] == pytest.approx(1 - 2 * hamming(bits[i], bits[j]), abs=1e-6)


def test_a_transformation_before_it() -> None:
    white = fit(CORPUS, Transformation("whiten", 8)).apply(VECTORS)
    signs = fit(CORPUS, Transformation("whiten", 8, "binary")).apply(VECTORS)
    np.testing.assert_array_equal(signs, np.where(white > 0, 1, -1))
    calibration = fit(CORPUS, Transformation("whiten", 8)).apply(CORPUS)
    small = fit(CORPUS, Transformation("whiten", 8, "int8")).apply(VECTORS)
    assert np.abs(small - quantize_embeddings(white, "int8", calibration_embeddings=calibration)).max() <= 1


def test_vectors_of_no_words_stay_zeros() -> None:
    none = np.zeros((2, 32), dtype=np.float32)
    for kept in (Taken(4, "binary"), Taken(4), fit(CORPUS, Transformation("", 0, "int8"))):
        assert not kept.apply(none).any()


def test_an_encoder_gives_what_sentence_transformers_truncates(tmp_path: Path) -> None:
    texts = ["a man plays the guitar", "snow", "stocks fell on monday"]
    SentenceTransformer(str(embedded_directory()), device="cpu").save(str(tmp_path / "own"))
    short = SentenceTransformer(str(tmp_path / "own"), device="cpu", truncate_dim=24).encode(texts)
    workspace = Workspace.create(tmp_path, tmp_path / "results", tmp_path / "cache", "cpu")
    for spec in ("tiny+base:pooling=mean,dims=24", f"sbert:path={tmp_path}/own,dims=24"):
        encoder = workspace.load(parse_spec(spec))[0]
        np.testing.assert_allclose(encoder.encode(texts), short, atol=1e-5)
    signs = workspace.load(parse_spec("tiny+base:pooling=mean,dims=24,type=binary"))[0].encode(texts)
    np.testing.assert_array_equal(signs, np.where(short > 0, 1, -1))
    with pytest.raises(UsageError, match="dims=300, but the vectors have 256 dimensions"):
        workspace.load(parse_spec("tiny+base:dims=300"))


def test_keys_of_a_spec() -> None:
    def post(keys: str) -> Transformation | None:
        return split_post(parse_spec(f"tiny+base:{keys}"))[1]

    assert post("dims=64") == Transformation("dims", 64)
    assert post("type=int8") == Transformation("", 0, "int8")
    assert post("dims=64,type=binary") == Transformation("dims", 64, "binary")
    assert post("post=whiten,whiten=9,type=int8") == Transformation("whiten", 9, "int8")
    assert split_post(parse_spec("tiny+static:dims=64"))[1] is None  # those of its own PCA
    titles = [post(keys).title for keys in ("dims=64", "type=int8", "dims=64,type=binary", "post=center,type=int8")]
    assert titles == ["64 dimensions", "int8", "64 dimensions, binary", "centred, int8"]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("dims=0", "not a whole number from 1"), ("dims=x", "not a whole number from 1"),
        ("post=whiten,dims=8", "dims= goes with no post="), ("post=stored,type=int8", "post=stored goes with no type="),
        ("type=int4", "unknown type"), ("post=dims,dims=8", "unknown transformation"),
        ("whiten=8,type=int8", "belongs to post=whiten, which it lacks"),
    ],
)  # fmt: skip
def test_keys_that_do_not_fit(keys: str, problem: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=problem):
        split_post(parse_spec(f"tiny+base:{keys}"))
