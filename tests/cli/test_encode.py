from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import wait_until
from helpers.toy_plugin import PLUGIN

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.texts.encode import ROWS_PER_CHUNK

SLOW = """
import time
from pathlib import Path
import numpy as np
from mirrorbench import hookimpl

class Slow:
    fingerprint = "slow"
    calls = 0
    def encode(self, inputs):
        self.calls += 1
        if self.calls == 3 and not Path("go").exists():
            Path("waiting").touch()
            time.sleep(300)
        return np.array([[len(i.text), i.text.count("0"), i.text.count("1")] for i in inputs])

@hookimpl
def register_encoders(register):
    register("slow", lambda spec, context: Slow())
"""


@pytest.mark.slow
def test_killed_encode_resumes_to_identical_output(
    folder: Path, process: Callable[..., subprocess.Popen[str]], mirrorbench: Callable
) -> None:
    """While it lives, a second one to the same file is refused, and takes nothing from it."""
    (folder / "slow.py").write_text(SLOW)
    (folder / "texts.txt").write_text("".join(f"text {n}\n" for n in range(3 * ROWS_PER_CHUNK + 7)))
    command = ("encode", "texts.txt", "-e", "slow", "--plugin", "slow.py", "-o")
    first = process(*command, "v.npy")
    wait_until((folder / "waiting").exists, first)
    mirrorbench(*command, "v.npy").assert_fails(
        2, f"v.npy is being written by process {first.pid} on "
    )
    assert (folder / ".v.npy.mirrorbench" / "lease.lease").exists()
    first.kill()
    first.communicate()
    assert len(list((folder / ".v.npy.mirrorbench").rglob("*.keys.npy"))) == 2
    assert not (folder / "v.npy").exists()
    (folder / "go").touch()
    resumed = mirrorbench(*command, "v.npy").assert_works()
    assert f"{2 * ROWS_PER_CHUNK:,} of them before this run" in resumed.err
    assert not list(folder.glob(".*"))
    mirrorbench(*command, "whole.npy").assert_works()
    assert (folder / "v.npy").read_bytes() == (folder / "whole.npy").read_bytes()
    assert np.load(folder / "v.npy").shape == (3 * ROWS_PER_CHUNK + 7, 3)


@pytest.fixture
def encode(mirrorbench: Callable) -> Callable:
    return lambda *arguments: mirrorbench("encode", *arguments, "--plugin", str(PLUGIN))


def test_encode_converts_stdin_lines_to_json_rows(
    encode: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"abba\n\nzz\n")))
    said = encode("-", "-e", "letters").assert_works()
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [row[:2] for row in rows] == [[2, 2], [0, 0], [0, 0]]
    assert rows[2][25] == 2


def test_encode_writes_a_column_to_npy(encode: Callable, folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"x": 1, "body": "aa"}\n{"x": 2, "body": "b"}\n')
    said = encode("a.jsonl", "-c", "body", "-e", "letters", "-o", "v.npy").assert_works()
    assert "v.npy: 2 x 26" in said.err
    np.testing.assert_array_equal(np.load("v.npy")[:, :2], [[2, 0], [0, 1]])
    encode("a.jsonl", "-c", "body", "-e", "letters", "-o", "v.npy").assert_fails(
        2, "exists already"
    )


def test_words_in_context_are_encoded_at_their_spans(
    mirrorbench: Callable, folder: Path, random_model: Callable[[str], Path]
) -> None:
    import mirrorbench as package

    model = random_model("bert")
    (folder / "marked.txt").write_text("the [bank] of it\nhe [look]s it [up]\n")
    rows = ({"t": "the bank of it", "a": 4, "b": 8}, {"t": "he", "a": 0, "b": 2})
    (folder / "spans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("-e", str(model), "--device", "cpu", "-o")
    mirrorbench("encode", "marked.txt", "--words-in-context", *options, "m.npy").assert_works()
    mirrorbench(
        "encode", "spans.jsonl", "-c", "t", "--span-columns", "a,b", *options, "s.npy"
    ).assert_works()
    inputs = [
        TextInput("the bank of it", ((4, 8),)),
        TextInput("he looks it up", ((3, 7), (12, 14))),
    ]
    wanted = package.load(f"{model}+base:pooling=target,layers=-4:", device="cpu").encode(inputs)
    np.testing.assert_allclose(np.load("m.npy"), wanted, atol=1e-5)
    np.testing.assert_allclose(np.load("s.npy")[0], wanted[0], atol=1e-5)


def test_invalid_encode_options_are_rejected(encode: Callable, folder: Path) -> None:
    (folder / "a.txt").write_text("text\n")
    for arguments, message in (
        ("-o v.txt", "ending"),
        ("--span-columns a", "START,END"),
        ("--span-columns a,b", "--column"),
        ("-w --level word", "--level"),
    ):
        encode("a.txt", *arguments.split(), "-e", "letters").assert_fails(2, message)
    assert [p.name for p in folder.iterdir()] == ["a.txt"]
