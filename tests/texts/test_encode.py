"""Streams of texts to files of vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from toys import ToyEncoder

from mirrorbench.core.errors import DataFormatError, EncodingError, StorageError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.texts.encode import Progress, encode_stream, job_key
from mirrorbench.texts.writers import CHUNK, LinesSink, NpySink, ParquetSink, open_sink

N = 2 * CHUNK + 100


class Cut(Exception):
    """Ends a stream in the middle."""


def stream(n: int = N, cut_at: int = -1) -> Iterator[TextInput]:
    for number in range(n):
        if number == cut_at:
            raise Cut
        yield TextInput(f"text {number} " + "abc"[number % 3] * (number % 5))


def expected(n: int = N) -> np.ndarray:
    return ToyEncoder().encode(list(stream(n))).astype(np.float32)


def test_npy(tmp_path: Path) -> None:
    output = tmp_path / "deep" / "v.npy"
    done = encode_stream(stream(), ToyEncoder(), NpySink(output), Progress(output, "job"))
    assert (done.rows, done.before, done.dimensions) == (N, 0, 26)
    np.testing.assert_array_equal(np.load(output), expected())
    assert np.load(output, mmap_mode="r").dtype == np.float32
    assert [p.name for p in output.parent.iterdir()] == ["v.npy"]


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
@pytest.mark.parametrize("cut_at", [10, CHUNK, CHUNK + 5, 2 * CHUNK + 50])
def test_an_interrupted_run_goes_on_to_the_same_bytes(tmp_path: Path, suffix: str, cut_at: int) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    whole, output = tmp_path / f"whole.{suffix}", tmp_path / f"v.{suffix}"
    encode_stream(stream(), ToyEncoder(), open_sink(whole), Progress(whole, "job"))
    with pytest.raises(Cut):
        encode_stream(stream(cut_at=cut_at), ToyEncoder(), open_sink(output), Progress(output, "job"))
    assert not output.exists()
    encoder = ToyEncoder()
    done = encode_stream(stream(), encoder, open_sink(output), Progress(output, "job"))
    assert done.before == cut_at // CHUNK * CHUNK
    assert len(encoder.asked) == N - done.before
    assert output.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"v.{suffix}", f"whole.{suffix}"]


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_what_was_killed_as_it_ended_starts_anew_once_its_output_has_gone(tmp_path: Path, suffix: str) -> None:
    """The output had its name, and the sidecar was still there."""
    if suffix == "parquet":
        pytest.importorskip("pyarrow")

    class Killed(Progress):
        def clear(self) -> None:
            raise Cut

    output = tmp_path / f"v.{suffix}"
    with pytest.raises(Cut):
        encode_stream(stream(), ToyEncoder(), open_sink(output), Killed(output, "job"))
    whole = output.read_bytes()
    output.unlink()
    done = encode_stream(stream(), ToyEncoder(), open_sink(output), Progress(output, "job"))
    assert (done.rows, done.before) == (N, 0)
    assert output.read_bytes() == whole


def test_all_of_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, disk: list[tuple[str, str]]) -> None:
    encode_stream(stream(), ToyEncoder(), NpySink(tmp_path / "v.npy"))
    assert disk[-3:] == [
        ("flush", str(tmp_path / "v.npy.part")), ("rename", str(tmp_path / "v.npy")), ("flush", str(tmp_path)),
    ]  # fmt: skip


def test_half_a_chunk_that_was_written_is_cut_off(tmp_path: Path) -> None:
    output = tmp_path / "v.npy"
    with pytest.raises(Cut):
        encode_stream(stream(cut_at=CHUNK + 1), ToyEncoder(), NpySink(output), Progress(output, "job"))
    with (tmp_path / "v.npy.part").open("ab") as part:
        part.write(b"\x01" * 1001)  # killed in the middle of a write
    encode_stream(stream(), ToyEncoder(), NpySink(output), Progress(output, "job"))
    np.testing.assert_array_equal(np.load(output), expected())


def test_another_job_or_another_input_is_not_continued(tmp_path: Path) -> None:
    output = tmp_path / "v.npy"
    with pytest.raises(Cut):
        encode_stream(stream(cut_at=CHUNK + 1), ToyEncoder(), NpySink(output), Progress(output, "job"))
    with pytest.raises(UsageError, match="another encoder"):
        encode_stream(stream(), ToyEncoder(), NpySink(output), Progress(output, "other job"))
    other = (TextInput(item.text.upper()) for item in stream())
    with pytest.raises(DataFormatError, match="changed"):
        encode_stream(other, ToyEncoder(), NpySink(output), Progress(output, "job"))
    sidecar = tmp_path / "v.npy.part.json"
    assert json.loads(sidecar.read_text())["rows"] == CHUNK
    sidecar.write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        encode_stream(stream(), ToyEncoder(), NpySink(output), Progress(output, "job"))


def test_the_job_is_what_changes_the_file() -> None:
    base = job_key(ToyEncoder("a"), {"column": ""}, ".npy")
    assert base == job_key(ToyEncoder("a"), {"column": ""}, ".npy")
    others = [job_key(ToyEncoder("b"), {"column": ""}, ".npy"), job_key(ToyEncoder("a"), {"column": "x"}, ".npy"),
              job_key(ToyEncoder("a"), {"column": ""}, ".parquet")]  # fmt: skip
    assert len({base, *others}) == 4


def test_only_a_chunk_is_in_memory(tmp_path: Path) -> None:
    drawn = 0

    def counted() -> Iterator[TextInput]:
        nonlocal drawn
        for item in stream():
            drawn += 1
            yield item

    most = []

    class Watching(ToyEncoder):
        def encode(self, inputs):
            most.append(drawn - sum(most))
            return super().encode(inputs)

    encode_stream(counted(), Watching(), NpySink(tmp_path / "v.npy"))
    assert most == [CHUNK, CHUNK, 100]


def test_a_text_that_repeats_in_a_chunk_is_encoded_once(tmp_path: Path) -> None:
    encoder = ToyEncoder()
    texts = [TextInput(text) for text in ("a", "b", "a", "", "a")]
    encode_stream(texts, encoder, NpySink(tmp_path / "v.npy"))
    assert encoder.asked == ["a", "b", ""]
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy")[:, 0], [1, 0, 1, 0, 1])


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    output = tmp_path / "v.parquet"
    items = [TextInput("the bank", ((4, 8),)), TextInput("look it up", ((0, 4), (8, 10)))]
    encode_stream(items, ToyEncoder(), ParquetSink(output))
    table = parquet.read_table(output).to_pydict()
    assert table["text"] == ["the bank", "look it up"]
    assert table["target"] == [[[4, 8]], [[0, 4], [8, 10]]]
    np.testing.assert_array_equal(np.array(table["vector"]), ToyEncoder().encode(items))


def test_lines_are_exact() -> None:
    vectors = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    lines: list[str] = []
    encode_stream([TextInput(str(n)) for n in range(5)], ToyEncoder(broken=vectors), LinesSink(lines.append))
    np.testing.assert_array_equal(np.array([json.loads(line) for line in lines], dtype=np.float32), vectors)


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_nothing_to_encode(tmp_path: Path, suffix: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    with pytest.raises(UsageError, match="no text"):
        encode_stream([], ToyEncoder(), open_sink(tmp_path / f"v.{suffix}"))
    assert list(tmp_path.iterdir()) == []


def test_what_goes_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.txt"):
        open_sink(tmp_path / "v.txt")
    encoder = ToyEncoder()
    (tmp_path / "file").touch()
    for suffix in ("npy", "parquet"):
        with pytest.raises(StorageError, match="Cannot write"):
            encode_stream(stream(3), encoder, open_sink(tmp_path / "file" / f"v.{suffix}"))
    assert encoder.asked == []  # it is told before anything is encoded
    with pytest.raises(EncodingError):
        encode_stream(stream(3), ToyEncoder(broken=np.full((3, 2), np.nan)), NpySink(tmp_path / "v.npy"))
