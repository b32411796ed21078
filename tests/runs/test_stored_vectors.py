"""Vectors that were computed elsewhere, looked up by their texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirrorbench import Session
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import MirrorbenchError, UsageError
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.encoder_systems import EncoderContext
from mirrorbench.runs.stored_vectors import StoredVectors, create_stored_vectors

TEXTS = ["a cat", "", "the dog", " a cat"]
VECTORS = np.random.default_rng(0).normal(size=(4, 3))


def written(folder: Path, vectors: Any = VECTORS, name: str = "v.npy") -> Path:
    path = folder / name
    np.save(path, vectors)
    return path


def written_texts(folder: Path, texts: list[str] = TEXTS, name: str = "texts.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def opened(notes: list[str] | None = None, **params: object) -> StoredVectors:
    texts_of_params = tuple((key, str(value)) for key, value in params.items())
    notes = [] if notes is None else notes
    return create_stored_vectors(
        EncoderSpec("vectors", params=texts_of_params), EncoderContext(note=notes.append)
    )


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i1", "u2"])
def test_texts_get_the_vectors_of_their_lines(tmp_path: Path, dtype: str) -> None:
    array = np.asfortranarray((VECTORS * 50).round().clip(0).astype(dtype))
    encoder = opened(path=written(tmp_path, array), texts=written_texts(tmp_path))
    vectors = encoder.encode(["the dog", TextInput("", role="query"), "the dog", " a cat"])
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, array[[2, 1, 2, 3]].astype(np.float32))


@pytest.mark.parametrize("fixed_size", [True, False])
def test_parquet_brings_its_own_texts_unless_others_are_named(
    tmp_path: Path, fixed_size: bool
) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    number_type = arrow.list_(arrow.float64(), 3 if fixed_size else -1)
    table = {
        "text": TEXTS,
        "title": ["A", "B", "C", "D"],
        "vector": arrow.array(VECTORS.tolist(), number_type),
    }
    path = tmp_path / "v.parquet"
    parquet.write_table(arrow.table(table), path, row_group_size=3)
    for params, text in (
        ({}, "the dog"),
        ({"column": "title"}, "C"),
        ({"texts": written_texts(tmp_path, ["1", "2", "3", "4"])}, "3"),
    ):
        vectors = opened(path=path, **params).encode([text])
        np.testing.assert_array_equal(vectors, VECTORS[2:3].astype(np.float32))


def test_column_of_a_table_of_texts_can_be_chosen(tmp_path: Path) -> None:
    table = written_texts(tmp_path, ["id,name", "7,cat", "8,dog"], "texts.csv")
    encoder = opened(path=written(tmp_path, VECTORS[:2]), texts=table, column="name")
    np.testing.assert_array_equal(encoder.encode(["dog"]), VECTORS[1:2].astype(np.float32))


def test_first_vector_of_a_repeated_text_counts(tmp_path: Path) -> None:
    texts = ["a", "b", "a", "b", "a", "zero", "zero"]
    vectors = np.array([[1, 2], [3, 4], [1, 2.001], [4, 3], [1, 2], [0, 0], [0, 0]])
    notes: list[str] = []
    encoder = opened(notes, path=written(tmp_path, vectors), texts=written_texts(tmp_path, texts))
    np.testing.assert_array_equal(encoder.encode(["b", "a"]), [[3, 4], [1, 2]])
    (note,) = notes
    assert "1 repeated texts have different vectors" in note


def test_missing_texts_are_counted_and_quoted_unless_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = opened(path=written(tmp_path), texts=written_texts(tmp_path))
    with pytest.raises(UsageError, match="no vector of 2 of 3 texts, such as 'a cow'"):
        encoder.encode(["a cat", "a cow", "a hen"])
    monkeypatch.setenv("MIRRORBENCH_NO_TEXTS", "1")
    with pytest.raises(UsageError, match="a text of 5 characters"):
        encoder.encode(["a cat", "a cow", "a hen"])


def test_words_in_context_are_refused(tmp_path: Path) -> None:
    encoder = opened(path=written(tmp_path), texts=written_texts(tmp_path))
    with pytest.raises(UsageError, match="vectors of whole texts"):
        encoder.encode([TextInput("a cat", ((2, 5),))])


def test_fingerprint_depends_on_content_and_not_on_paths(tmp_path: Path) -> None:
    def fingerprint(name: str, vectors: Any, texts: list[str]) -> str:
        path = written(tmp_path, vectors, f"{name}.npy")
        return opened(path=path, texts=written_texts(tmp_path, texts, f"{name}.txt")).fingerprint

    first = fingerprint("a", VECTORS, TEXTS)
    assert fingerprint("b", VECTORS, TEXTS) == first
    assert fingerprint("a", VECTORS[::-1], TEXTS) != first
    assert fingerprint("a", VECTORS, TEXTS[::-1]) != first


@pytest.mark.parametrize(
    ("texts", "hint"),
    [(["header", *TEXTS], "header"), (TEXTS[1:], "header"), (TEXTS[2:], "blank lines")],
)
def test_other_number_of_texts_is_refused(tmp_path: Path, texts: list[str], hint: str) -> None:
    with pytest.raises(
        UsageError, match=rf"has 4 vectors, but .* has {len(texts)} texts"
    ) as caught:
        opened(path=written(tmp_path), texts=written_texts(tmp_path, texts))
    assert hint in caught.value.hint


def test_transposed_vectors_are_recognised(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(8)]
    transposed = np.random.default_rng(0).normal(size=(5, len(texts)))
    with pytest.raises(UsageError) as caught:
        opened(path=written(tmp_path, transposed), texts=written_texts(tmp_path, texts))
    assert "seems to be a column" in caught.value.hint


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.array([[1, np.nan], [1, 2], [1e300, 1]]),
            "2 of 3 vectors are not finite, first vector 1",
        ),
        (np.ones(4), r"an array of shape \(4,\)"),
        (np.ones((0, 4)), "is empty"),
        (np.ones((4, 0)), "is empty"),
        (np.array([{}] * 4), "cannot be read as an array of NumPy: .*objects"),
        (np.array([["1", "2"]] * 4), "values of type <U1, not numbers"),
        (np.ones((4, 2), complex), "not numbers"),
    ],
)
def test_arrays_that_are_no_vectors_are_refused(tmp_path: Path, array: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        opened(path=written(tmp_path, array), texts=written_texts(tmp_path))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([[1.0, 2.0], [1.0]], "different lengths"),
        ([[1.0, 2.0], None], "missing"),
        ([[1.0, 2.0], [1.0, None]], "1 of 2 vectors are not finite, first vector 2"),
        ([[], []], "is empty"),
        ([1.0, 2.0], "type double, not lists of numbers"),
    ],
)
def test_parquet_columns_that_are_no_vectors_are_refused(
    tmp_path: Path, column: Any, message: str
) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    if column == [[], []]:
        column = arrow.array(column, arrow.list_(arrow.float32()))
    path = tmp_path / "v.parquet"
    parquet.write_table(arrow.table({"text": ["a", "b"], "vector": column}), path)
    with pytest.raises(UsageError, match=message):
        opened(path=path)


def test_missing_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    texts = written_texts(tmp_path)
    (tmp_path / "text.npy").write_text("1 2 3\n")
    cut = tmp_path / "cut.npy"
    cut.write_bytes(path.read_bytes()[:-1])
    for params, message in (
        ({"texts": texts}, "names no file of vectors"),
        ({"path": path}, "names no texts"),
        ({"path": tmp_path / "none.npy", "texts": texts}, "no file of vectors at"),
        ({"path": path, "texts": tmp_path / "none.txt"}, "no file of texts at"),
        ({"path": path, "texts": "-"}, "no file of texts at -"),
        ({"path": texts, "texts": texts}, "unknown ending"),
        ({"path": tmp_path / "text.npy", "texts": texts}, "cannot be read as an array"),
        ({"path": cut, "texts": texts}, "cannot be read as an array"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            opened(**params)
        assert caught.value.hint


def test_parquet_without_texts_or_vectors_is_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "v.parquet"
    for columns, message in (
        ({"vector": [[1.0]]}, r"names no texts, and v\.parquet has no column 'text'"),
        ({"text": ["a"]}, "needs one column 'vector'"),
    ):
        parquet.write_table(arrow.table(columns), path)
        with pytest.raises(UsageError, match=message):
            opened(path=path)
    path.write_text("1 2 3")
    with pytest.raises(UsageError, match="cannot be read as Parquet"):
        opened(path=path)


def test_stored_vectors_score_as_their_encoder(tmp_path: Path) -> None:
    texts = [f"{noun} number {n}" for n in range(12) for noun in ("a cat", "the old bridge")]
    pairs = [f"{texts[n]},{texts[(5 * n + 1) % 24]},{n * 7 % 5}" for n in range(24)]
    data = written_texts(tmp_path, ["sentence1,sentence2,score", *pairs], "pairs.csv")
    source = written_texts(tmp_path, texts)
    session = Session(tmp_path / "results", cache=tmp_path / "cache", device="cpu", offline=True)
    session.encode(str(source), "tiny", tmp_path / "v.npy")
    stored = f"vectors:path={tmp_path / 'v.npy'},texts={source}"

    board = session.evaluate(["tiny", stored, f"{stored},dims=8", "tiny:dims=8"], [str(data)])
    own, looked_up, shortened, own_shortened = (row.scores[0].mean for row in board.table.rows)
    assert looked_up == pytest.approx(own, abs=1e-9)
    assert shortened == pytest.approx(own_shortened, abs=1e-9)
    assert shortened != pytest.approx(own, abs=1e-6)
    # post= is fitted on the texts of the data, which all have vectors.
    centred = session.evaluate([f"{stored},post=center,type=int8"], [str(data)])
    assert not centred.failures

    # Vectors of all texts come back, and no others.
    session.encode(str(source), stored, tmp_path / "copy.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "copy.npy"), np.load(tmp_path / "v.npy"))
    others = written_texts(tmp_path, ["a cow", *texts], "others.txt")
    with pytest.raises(MirrorbenchError, match="no vector of 1 of 25 texts, such as 'a cow'"):
        session.encode(str(others), stored, tmp_path / "none.npy")
