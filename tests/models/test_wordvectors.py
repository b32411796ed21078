from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mirrorbench.core.errors import DataFormatError, ModelUnavailableError
from mirrorbench.models import wordvectors
from mirrorbench.models.wordvectors import file_checksum, load_vectors, read_text

SMALL = b"3 2\nthe 1 2\nNew York 0.5 -1e-3\ncaf\xc3\xa9 3 4 \n"


def written(tmp_path: Path, content: bytes, name: str = "a.vec") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content", [SMALL, SMALL[4:], SMALL.replace(b"\n", b"\r\n"), SMALL.replace(b"the 1 2", b"the\t1\t2"), SMALL + b"\n"]
)
def test_with_and_without_header(tmp_path: Path, content: bytes) -> None:
    vectors = read_text(written(tmp_path, content))
    assert vectors.words == ("the", "New York", "café")
    np.testing.assert_array_equal(vectors.vectors, np.array([[1, 2], [0.5, -1e-3], [3, 4]], dtype=np.float32))


@given(
    words=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")), min_size=1), min_size=2,
        unique=True,
    ),
    values=arrays(np.float32, (50, 3), elements=st.floats(-1e6, 1e6, width=32)),
    header=st.booleans(),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_what_is_written_is_read(tmp_path: Path, words: list[str], values: np.ndarray, header: bool) -> None:
    words = words[:50]
    lines = [f"{word} {' '.join(repr(float(x)) for x in row)}" for word, row in zip(words, values, strict=False)]
    start = [f"{len(words)} 3"] if header else []
    vectors = read_text(written(tmp_path, "\n".join(start + lines).encode()))
    assert vectors.words == tuple(words)
    np.testing.assert_array_equal(vectors.vectors, values[: len(words)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no word vectors"),
        (b"2 3\n", "ends at line 1, but its header announces 2 words"),
        (b"the 1 2\nof 1\n", r"line 2: expected a word and 2 finite numbers, found b'of 1' \(2 columns\)"),
        (b"the 1 2\nof 1 2 x\n", "line 2: expected a word and 2 finite numbers"),
        (b"the 1 2\n\nof 1 nan\n", "line 3: expected a word and 2 finite numbers"),
        (b"2 2\nthe 1 inf\nof 1 2\n", "line 2: expected a word"),
        (b"<html>\n<body>\n", "line 1: expected a word and some finite numbers"),
        (b"4 2\nthe 1 2\nof 1 2\n", "ends at line 3, but its header announces 4"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataFormatError, match=message) as caught:
        read_text(written(tmp_path, content))
    assert "a.vec" in caught.value.message


def test_a_limit_reads_no_further(tmp_path: Path) -> None:
    path = written(tmp_path, b"9 2\nthe 1 2\nthe 7 7\nof 3 4\nbroken\n")
    vectors = read_text(path, limit=2)
    assert vectors.words == ("the", "of")  # of a repeated word the first vector counts
    np.testing.assert_array_equal(vectors.vector("the"), [1, 2])


def test_compressed_and_damaged(tmp_path: Path) -> None:
    packed = gzip.compress(SMALL[4:] * 100)
    assert read_text(written(tmp_path, gzip.compress(SMALL), "a.vec.gz")).words[0] == "the"
    with pytest.raises(DataFormatError, match="cannot be read"):
        read_text(written(tmp_path, packed[:-20], "b.vec.gz"))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert read_text(written(tmp_path, b"the 1 2\na\xff 1 2\n")).words == ("the", "a\ufffd")


def test_the_second_time_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, SMALL)
    first = load_vectors(path, 2)
    monkeypatch.setattr(wordvectors, "read_text", None)
    again = load_vectors(path, 2)
    assert again.words == first.words == ("the", "New York")
    assert isinstance(again.vectors, np.memmap)
    np.testing.assert_array_equal(again.vectors, first.vectors)
    monkeypatch.undo()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    checksum = file_checksum(path)
    assert file_checksum(path) == checksum
    path.write_bytes(SMALL.replace(b"the", b"The"))
    os.utime(path, ns=(1, 1))
    assert file_checksum(path) != checksum
    assert load_vectors(path, 0).words[0] == "The"


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match=r"there is no file of word vectors at .*none\.vec"):
        load_vectors(tmp_path / "none.vec", 0)


def test_what_is_no_fasttext_binary(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    with pytest.raises(DataFormatError, match=r"a\.bin is no fastText binary"):
        load_vectors(written(tmp_path, SMALL * 100, "a.bin"), 0)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("gensim/lee_fasttext.vec", True),
        ("gensim/EN.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt", True),
        ("gensim/IT.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt", True),
        ("retrofitting/sample_vec.txt", False),
    ],
)
def test_real_files_as_gensim_reads_them(shared_data: Path, name: str, header: bool) -> None:
    models = pytest.importorskip("gensim.models")
    path = shared_data / "vectors" / name
    expected = models.KeyedVectors.load_word2vec_format(path, no_header=not header)
    vectors = load_vectors(path, 0)
    assert vectors.words == tuple(expected.index_to_key)
    np.testing.assert_array_equal(vectors.vectors, expected.vectors)
