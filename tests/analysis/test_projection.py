from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from mirrorbench.analysis.geometry import examples_of, project, read_examples, silhouette
from mirrorbench.core.errors import DataFormatError, UnknownNameError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import Disambiguation, Occurrence, SenseContexts


def clusters(n: int = 12) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(6)[:3] * 4, n, axis=0)
    return centres + rng.normal(0, 0.3, size=centres.shape), [name for name in "abc" for _ in range(n)]


def test_components_of_a_singular_value_decomposition() -> None:
    vectors, _ = clusters()
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = rows - rows.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    found = project(vectors, "pca")
    np.testing.assert_allclose(np.abs(found), np.abs(left[:, :2] * values[:2]), atol=1e-8)


@pytest.mark.parametrize("method", ["tsne", "pca"])
def test_clusters_stay_clusters(method: str) -> None:
    vectors, names = clusters()
    plane = project(vectors, method, seed=1)
    assert plane.shape == (36, 2)
    assert silhouette_score(plane, names) > 0.5
    np.testing.assert_array_equal(plane, project(vectors, method, seed=1))


def test_few_contexts_and_wrong_methods() -> None:
    vectors, _ = clusters(2)
    assert project(vectors[:4], "tsne").shape == (4, 2)
    with pytest.raises(UsageError, match="4 contexts"):
        project(vectors[:3])
    with pytest.raises(UnknownNameError, match="tsnee"):
        project(vectors, "tsnee")


@pytest.mark.skipif(find_spec("umap") is not None, reason="UMAP is installed here")
def test_umap_is_asked_for_politely() -> None:
    with pytest.raises(UsageError, match="UMAP is not installed") as found:
        project(clusters()[0], "umap")
    assert "umap-learn" in found.value.hint


def test_silhouette_by_cosine() -> None:
    vectors, names = clusters()
    assert silhouette(vectors * 7, names) == pytest.approx(silhouette_score(vectors, names, metric="cosine"))
    assert silhouette(vectors, ["a"] * 36) is None
    assert silhouette(vectors[:3], list("abc")) is None


def test_examples_inside_the_package() -> None:
    found = read_examples()
    assert len(found.inputs) == len(set(found.inputs)) == 36
    assert {name: found.senses.count(name) for name in set(found.senses)} == {"season": 12, "coil": 12, "water": 12}
    for item in found.inputs:
        ((start, end),) = item.spans
        assert item.text[start:end].lower() == "spring"


def test_a_file_of_contexts(tmp_path: Path) -> None:
    path = tmp_path / "bank.tsv"
    path.write_text("money\tthe <t>bank</t> lent it\n\nriver\ton the <t>bank</t> of the river\n", encoding="utf-8")
    found = read_examples(str(path))
    assert found.inputs == (TextInput("the bank lent it", ((4, 8),)), TextInput("on the bank of the river", ((7, 11),)))
    assert found.senses == ("money", "river")


@pytest.mark.parametrize("line", ["no tab", "sense\tno mark", "\tthe <t>bank</t>", "sense the <t>bank</t>"])
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bank.tsv"
    path.write_text(f"money\tthe <t>bank</t> lent it\n{line}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 2"):
        read_examples(str(path))


def test_examples_of_a_data_set() -> None:
    def context(text: str) -> TextInput:
        start = text.index("bank")
        return TextInput(text, ((start, start + 4),))

    keys = ("bank%1:14:00::", "bank%1:17:01::", "cat%1:05:00::")
    senses = {
        key: SenseContexts((context(f"example bank {key}"),), context(f"bank means {key}")) for key in keys
    }  # fmt: skip
    words = (
        Occurrence("1", context("my bank"), keys[:2], frozenset({keys[0]}), "x"),
        Occurrence("2", context("a river bank"), keys[:2], frozenset({keys[1]}), "x"),
    )
    found = examples_of("bank", Disambiguation(words, senses), "wsd")
    assert dict(zip((i.text for i in found.inputs), found.senses, strict=True)) == {
        "my bank": keys[0],
        "a river bank": keys[1],
        f"example bank {keys[0]}": keys[0],
        f"example bank {keys[1]}": keys[1],
    }
    with pytest.raises(UsageError, match="1 senses of 'cat'"):
        examples_of("cat", Disambiguation(words, senses), "wsd")
