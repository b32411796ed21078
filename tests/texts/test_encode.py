"""Streams of texts to files of vectors."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.random_models import Models
from helpers.recording_reporter import Log
from helpers.toy_plugin import ToyEncoder, ToyPlugin
from helpers.workspace_parts import parts

import mirrorbench
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import EncodingError, StorageError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.core.truncation import Truncation
from mirrorbench.data.readers.inputs import Line
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.texts import encode
from mirrorbench.texts.encode import EncodedFile, check_vector_file

CHUNK = 64
N = 2 * CHUNK + 10


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "ROWS_PER_CHUNK", CHUNK)


@pytest.fixture(params=["npy", "parquet"])
def suffix(request: pytest.FixtureRequest) -> str:
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return str(request.param)


def stream(n: int = N, cut_at: int = -1) -> Iterator[TextInput]:
    for number in range(n):
        if number == cut_at:
            raise KeyboardInterrupt
        yield TextInput(f"text {number} " + "abc"[number % 3] * (number % 5))


def encode_file(inputs: Iterable[TextInput], encoder: ToyEncoder, output: Path) -> EncodedFile:
    check_vector_file(output)
    lines = (Line(number, item) for number, item in enumerate(inputs, start=1))
    return encode.encode_file("texts.txt", lines, lambda: encoder, output, lambda n: None)


def interrupted(output: Path, cut_at: int, encoder: ToyEncoder | None = None) -> None:
    with pytest.raises(KeyboardInterrupt):
        encode_file(stream(cut_at=cut_at), encoder or ToyEncoder(), output)
    assert not output.exists()


def check(output: Path, inputs: Iterable[TextInput]) -> None:
    """It holds the vectors of all inputs, and nothing else is in its folder."""
    np.testing.assert_array_equal(np.load(output), ToyEncoder().encode(list(inputs)))
    assert [path.name for path in output.parent.iterdir()] == [output.name]


def test_encoding_holds_one_chunk_in_memory(tmp_path: Path) -> None:
    drawn: list[TextInput] = []
    seen: list[int] = []

    def counted() -> Iterator[TextInput]:
        for item in stream():
            drawn.append(item)
            yield item

    class Watching(ToyEncoder):
        def encode(self, inputs: Sequence[TextInput]) -> Any:
            seen.append(len(drawn))
            return super().encode(inputs)

    output = tmp_path / "deep" / "v.npy"
    done = encode_file(counted(), Watching(), output)
    assert (done.rows, done.before, done.dimensions) == (N, 0, 26)
    check(output, stream())
    assert np.load(output, mmap_mode="r").dtype == np.float32
    assert seen == [CHUNK, 2 * CHUNK, N]
    repeating = ToyEncoder()  # a text that repeats in a chunk is encoded once
    encode_file(
        [TextInput(text) for text in ("a", "b", "a", "", "a")], repeating, tmp_path / "w.npy"
    )
    assert repeating.asked == ["a", "b", ""]
    np.testing.assert_array_equal(np.load(tmp_path / "w.npy")[:, 0], [1, 0, 1, 0, 1])


@pytest.mark.parametrize("cut_at", [10, CHUNK, 2 * CHUNK + 5])
def test_interrupted_encoding_resumes_to_identical_bytes(
    tmp_path: Path, suffix: str, cut_at: int
) -> None:
    whole, output = tmp_path / f"whole.{suffix}", tmp_path / f"v.{suffix}"
    encode_file(stream(), ToyEncoder(), whole)
    interrupted(output, cut_at)
    encoder = ToyEncoder()
    done = encode_file(stream(), encoder, output)
    assert done.before == cut_at // CHUNK * CHUNK
    assert len(encoder.asked) == N - done.before
    assert output.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"v.{suffix}", f"whole.{suffix}"]


def test_calls_of_an_interrupted_chunk_are_kept(tmp_path: Path) -> None:
    class Failing(ToyEncoder):
        texts_per_call = 16

        def encode(self, inputs: Sequence[TextInput]) -> Any:
            if len(self.asked) == self.n_left:
                raise KeyboardInterrupt
            return super().encode(inputs)

    output = tmp_path / "v.npy"
    first, second = Failing(), Failing()
    first.n_left, second.n_left = CHUNK + 32, -1
    with pytest.raises(KeyboardInterrupt):
        encode_file(stream(), first, output)
    encode_file(stream(), second, output)
    assert len(second.asked) == N - CHUNK - 32
    check(output, stream())


def test_damaged_chunks_are_encoded_again(tmp_path: Path) -> None:
    output = tmp_path / "v.npy"
    interrupted(output, 2 * CHUNK + 5)
    (tmp_path / ".v.npy.mirrorbench" / ".part-killed").write_bytes(b"half an output")
    first, second = sorted((tmp_path / ".v.npy.mirrorbench").glob("chunks/*/*"))
    (vectors,) = (p for p in first.glob("*.npy") if not p.name.endswith(".keys.npy"))
    vectors.write_bytes(vectors.read_bytes()[:-1] + b"\x01")
    next(second.glob("*.keys.npy")).unlink()
    assert encode_file(stream(), ToyEncoder(), output).before == 0
    check(output, stream())


def test_chunks_of_other_encoders_or_texts_are_ignored(tmp_path: Path) -> None:
    output = tmp_path / "v.npy"
    interrupted(output, CHUNK + 5)
    interrupted(output, CHUNK + 5, other := ToyEncoder("letters-2"))
    assert len(other.asked) == CHUNK
    changed = [TextInput("inserted"), *stream()]
    done = encode_file(changed, ToyEncoder(), output)
    assert (done.rows, done.before) == (N + 1, 0)
    check(output, changed)


def test_vector_file_is_flushed_before_its_rename(
    tmp_path: Path, disk: list[tuple[str, str]]
) -> None:
    encode_file(stream(), ToyEncoder(), tmp_path / "v.npy")
    renamed = disk.index(("rename", str(tmp_path / "v.npy")))
    assert disk[renamed + 1] == ("flush", str(tmp_path))
    written = disk.index(("rename", str(tmp_path / ".v.npy.mirrorbench" / "vectors")))
    assert disk[written - 1][0] == "flush"


def test_output_created_during_encoding_is_not_overwritten(tmp_path: Path) -> None:
    output = tmp_path / "v.npy"

    def meanwhile() -> Iterator[TextInput]:
        yield from stream()
        output.write_text("years of work")

    with pytest.raises(UsageError, match="exists already"):
        encode_file(meanwhile(), ToyEncoder(), output)
    assert output.read_text() == "years of work"
    output.unlink()
    assert (
        encode_file(stream(), ToyEncoder(), output).before == N
    )  # nothing of it is computed again


def test_parquet_holds_texts_targets_and_vectors(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    items = [TextInput("the bank", ((4, 8),)), TextInput("look it up", ((0, 4), (8, 10)))]
    encode_file(items, ToyEncoder(), tmp_path / "v.parquet")
    table = parquet.read_table(tmp_path / "v.parquet").to_pydict()
    assert table["text"] == ["the bank", "look it up"]
    assert table["target"] == [[[4, 8]], [[0, 4], [8, 10]]]
    np.testing.assert_array_equal(np.array(table["vector"]), ToyEncoder().encode(items))


def test_columns_are_kept_beside_resumed_vectors(tmp_path: Path, plugins: Plugins) -> None:
    """In the types that fit all rows, of which those of the first chunk hold less."""
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"text": f"t {n}", "id": n, "size": None, "mixed": n} for n in range(N)]
    rows[-1] |= {"size": 2.5, "mixed": "x"}
    file = tmp_path / "a.jsonl"
    file.write_text("\n\n".join(map(json.dumps, rows)))
    plugins.add(ToyPlugin({"toy": ToyEncoder()}), "toy")
    workspace, output = Workspace(Settings(data_dir=tmp_path), plugins), tmp_path / "v.parquet"
    done = encode.encode_texts(
        str(file),
        EncoderSpec("toy"),
        output,
        *parts(workspace),
        column="text",
        keep=("id", "mixed", "size"),
    )
    table = parquet.read_table(output)
    assert (done.rows, table.column_names) == (N, ["id", "mixed", "size", "text", "vector"])
    assert table["id"].to_pylist() == list(range(N))
    assert table["size"].to_pylist() == [None] * (N - 1) + [2.5]
    assert table["mixed"].to_pylist() == [*map(str, range(N - 1)), "x"]
    assert table["text"].to_pylist() == [f"t {n}" for n in range(N)]
    other = tmp_path / "other"
    other.write_text("".join(json.dumps({**row, "id": 0}) + "\n" for row in rows))

    class Replacing(ToyEncoder):
        """The file is replaced after the first chunk: what is written are the rows that were encoded."""

        def encode(self, inputs: Sequence[TextInput]) -> Any:
            if other.exists():
                other.replace(file)
            return super().encode(inputs)

    plugins.add(ToyPlugin({"replacing": Replacing()}), "replacing")
    encode.encode_texts(
        str(file),
        EncoderSpec("replacing"),
        tmp_path / "w.parquet",
        *parts(workspace),
        column="text",
        keep=("id",),
    )
    assert parquet.read_table(tmp_path / "w.parquet")["id"].to_pylist() == list(range(N))
    for target in (tmp_path / "v.npy", io.StringIO()):
        with pytest.raises(UsageError, match=r"only a \.parquet file can hold columns"):
            encode.encode_texts(
                str(file),
                EncoderSpec("toy"),
                target,
                *parts(workspace),
                column="text",
                keep=("id",),
            )


def test_number_of_cut_texts_is_said_once(random_model: Models, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(["short", *["dog " * 100] * (2 * CHUNK)]))
    log = Log()
    session = mirrorbench.Session(device="cpu", offline=True, reporter=log)
    done = session.encode(str(file), f"{random_model('bert')}:max_length=30", tmp_path / "v.npy")
    assert done.truncation == Truncation(2 * CHUNK, 2 * CHUNK + 1, 30, 80)
    assert [line for line in log.lines if "cut" in line] == [f"{file}: {done.truncation.sentence}"]


def test_vectors_printed_as_json_are_exact(tmp_path: Path, plugins: Plugins) -> None:
    vectors = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    (tmp_path / "a.txt").write_text("a\nb\nc\nd\ne\n")
    plugins.add(ToyPlugin({"toy": ToyEncoder(broken=vectors)}), "exact")
    workspace, output = Workspace(Settings(data_dir=tmp_path), plugins), io.StringIO()
    done = encode.encode_texts(
        str(tmp_path / "a.txt"), EncoderSpec("toy"), output, *parts(workspace)
    )
    assert done == EncodedFile(5, 0, 7)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    np.testing.assert_array_equal(np.array(lines, dtype=np.float32), vectors)


def test_failed_encoding_writes_no_file(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(UsageError, match="no text"):
        encode_file([], ToyEncoder(), tmp_path / f"v.{suffix}")
    (tmp_path / "file").touch()
    encoder = ToyEncoder()
    with pytest.raises(StorageError, match="Cannot write"):
        encode_file(stream(3), encoder, tmp_path / "file" / f"v.{suffix}")
    assert encoder.asked == []  # it is told before anything is encoded
    with pytest.raises(EncodingError):
        encode_file(stream(3), ToyEncoder(broken=np.full((3, 2), np.nan)), tmp_path / f"v.{suffix}")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
