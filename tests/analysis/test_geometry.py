"""Measures of vectors against explicit loops."""

from __future__ import annotations

import math
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.naive_measures import mean_of_pairs, naive_log
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score

from mirrorbench.analysis import geometry
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, UnknownNameError, UsageError


def space(n: int = 30, d: int = 6, shift: float = 0.5) -> np.ndarray:
    """Vectors around a point that is not the origin, with unequal variances."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, d)) * np.linspace(0.2, 1, d) + shift).astype(np.float32)


def test_isotropy_measures_equal_explicit_loops() -> None:
    vectors = space(n=20)
    measures = geometry.measure_isotropy(vectors)
    assert measures["log_isotropy"] == pytest.approx(naive_log(vectors), abs=1e-9)
    assert measures["isotropy"] == pytest.approx(math.exp(naive_log(vectors)))
    assert (measures["n"], measures["dimensions"]) == vectors.shape
    assert measures["mean_vector_norm"] == pytest.approx(np.linalg.norm(vectors.mean(axis=0)))
    assert measures["mean_cosine"] == pytest.approx(mean_of_pairs(vectors))
    v = vectors.astype(np.float64)
    # Rows of the eigenvector matrix, as in the posted script.
    sums = np.exp(np.dot(v, geometry.directions(v).T)).sum(axis=0)
    assert measures["row_isotropy"] == pytest.approx(sums.min() / sums.max())
    assert measures["row_isotropy"] > measures["isotropy"]


def test_directions_are_eigenvectors_in_descending_order() -> None:
    vectors = space().astype(np.float64)
    gram = vectors.T @ vectors
    directions = geometry.directions(vectors)
    values = np.diag(directions.T @ gram @ directions)
    np.testing.assert_allclose(gram @ directions, directions * values, atol=1e-8)
    assert (np.diff(values) < 0).all()


def test_isotropy_of_large_vectors_does_not_overflow() -> None:
    measures = geometry.measure_isotropy(space(shift=40.0) * 50)
    assert -math.inf < measures["log_isotropy"] < -1000
    assert measures["isotropy"] == 0


def test_isotropy_handles_fewer_vectors_than_dimensions() -> None:
    vectors = space(n=3, d=8)
    v = vectors.astype(np.float64)
    _, _, right = np.linalg.svd(v, full_matrices=True)
    sums = [np.exp(sign * (v @ c)).sum() for c in right for sign in (1, -1)]
    assert geometry.log_isotropy(vectors) == pytest.approx(math.log(min(sums) / max(sums)))


def test_isotropy_is_independent_of_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = geometry.log_isotropy(space(d=7))
    monkeypatch.setattr("mirrorbench.training.held_out._BLOCK", 2)
    assert geometry.log_isotropy(space(d=7)) == pytest.approx(whole)


def test_isotropy_handles_degenerate_vectors() -> None:
    symmetric = np.vstack([np.eye(5), -np.eye(5)])
    assert geometry.measure_isotropy(symmetric)["isotropy"] == pytest.approx(1)
    assert geometry.mean_cosine(np.array([[1.0, 0], [0, 0], [1, 0]])) == pytest.approx(1 / 3)
    assert geometry.measure_isotropy(np.array([[1.0, 2.0]]))["mean_cosine"] is None
    for wrong in (np.empty((0, 3)), np.ones(3)):
        with pytest.raises(ValueError, match="shape"):
            geometry.measure_isotropy(wrong)


def clusters(n: int = 12) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(6)[:3] * 4, n, axis=0)
    vectors = centres + rng.normal(0, 0.3, size=centres.shape)
    names = [name for name in "abc" for _ in range(n)]
    return vectors, names


def test_principal_components_equal_sklearn() -> None:
    vectors, _ = clusters()
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = PCA(2).fit_transform(rows)
    np.testing.assert_allclose(
        np.abs(geometry.project(vectors, "pca")), np.abs(expected), atol=1e-8
    )


def test_tsne_separates_clusters_and_silhouette_equals_sklearn() -> None:
    vectors, names = clusters(6)
    plane = geometry.project(vectors, "tsne", seed=1)
    assert plane.shape == (18, 2)
    assert silhouette_score(plane, names) > 0.5
    np.testing.assert_array_equal(plane, geometry.project(vectors, "tsne", seed=1))
    assert geometry.silhouette(vectors * 7, names) == pytest.approx(
        silhouette_score(vectors, names, metric="cosine")
    )
    assert geometry.silhouette(vectors, ["a"] * 18) is None
    assert geometry.silhouette(vectors[:3], list("abc")) is None


def test_projection_rejects_few_contexts_and_unknown_methods() -> None:
    vectors, _ = clusters(2)
    assert geometry.project(vectors[:4], "tsne").shape == (4, 2)
    with pytest.raises(UsageError, match="4 contexts"):
        geometry.project(vectors[:3])
    with pytest.raises(UnknownNameError, match="tsnee"):
        geometry.project(vectors, "tsnee")
    if not find_spec("umap"):
        with pytest.raises(UsageError, match="UMAP is not installed") as caught:
            geometry.project(vectors, "umap")
        assert "umap-learn" in caught.value.hint


def test_packaged_examples_have_balanced_senses() -> None:
    """The two words of MirrorWiC's Figure 3: "different senses of spring and summer under different models"."""
    for word, other_senses in (("spring", ("coil", "water")), ("summer", ("person", "beam"))):
        examples = geometry.bundled_examples(word)
        assert len(examples.inputs) == len(set(examples.inputs)) == 36
        assert Counter(examples.senses) == dict.fromkeys(("season", *other_senses), 12)
        assert all(item.text[slice(*item.spans[0])].lower() == word for item in examples.inputs)
        assert geometry.task_examples(word, None, "quick-wic") == examples  # a task without senses
    with pytest.raises(UsageError, match="only of spring and summer"):
        geometry.bundled_examples("autumn")


def test_context_files_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "bank.tsv"
    path.write_text(
        "money\tthe <t>bank</t> lent it\n\nriver\ton the <t>bank</t> of the river\n",
        encoding="utf-8",
    )
    examples = geometry.read_examples(str(path))
    assert examples.inputs == (
        TextInput("the bank lent it", ((4, 8),)),
        TextInput("on the bank of the river", ((7, 11),)),
    )
    assert examples.senses == ("money", "river")
    for line in ("no tab", "sense\tno mark", "\tthe <t>bank</t>", "sense the <t>bank</t>"):
        path.write_text(f"money\tthe <t>bank</t> lent it\n{line}\n", encoding="utf-8")
        with pytest.raises(DataFormatError, match="line 2"):
            geometry.read_examples(str(path))


def test_data_set_examples_keep_their_senses() -> None:
    senses = {
        TextInput("my bank", ((3, 7),)): "money",
        TextInput("a river bank", ((8, 12),)): "river",
    }
    examples = geometry.task_examples("bank", senses, "wsd")
    assert (examples.inputs, examples.senses) == (tuple(senses), ("money", "river"))
    with pytest.raises(UsageError, match="0 senses of 'cat'"):
        geometry.task_examples("cat", {}, "wsd")
