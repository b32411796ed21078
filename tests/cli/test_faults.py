"""Hostile and broken input through the command line: one message, the right exit code, no traceback."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

PLUGIN = """
import mirrorbench
@mirrorbench.hookimpl
def register_tasks(register):
    register({path!r})
"""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: &x [1]\nb: *x\n", "anchors and aliases are not allowed"),
        ("a: !!python/object/apply:os.system [ls]\n", "tags are not allowed"),
        ("a: " + "[" * 300_000, "nested more than 50 levels deep"),
        ("name: toy\nname: toy\n", "stands twice"),
        ("name: ../toy\n", "is missing"),
        ("", "is empty"),
    ],
)
def test_a_card_of_a_plugin_that_is_hostile(mirrorbench: Callable, folder: Path, content: str, message: str) -> None:
    (folder / "card.yaml").write_text(content)
    (folder / "mine.py").write_text(PLUGIN.format(path=str(folder / "card.yaml")))
    said = mirrorbench("list", "tasks", "--plugin", "mine.py").assert_fails(2, "plugin mine.py failed", out="")
    assert message in " ".join(said.err.split())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('[red]boom')", "mine.py failed: RuntimeError: [red]boom"),
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("", "has no hook"),
    ],
)
def test_a_plugin_that_cannot_be_loaded(mirrorbench: Callable, folder: Path, source: str, message: str) -> None:
    (folder / "mine.py").write_text(source)
    mirrorbench("list", "tasks", "--plugin", "mine.py").assert_fails(2, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no text"),
        (b"\0\1\2", "a NUL byte"),
        (b"one\rtwo\r", "carriage return"),
        ("é\n".encode("latin1"), "not valid UTF-8"),
        (b"one line\n", "a corpus of 1 distinct strings cannot be tuned on"),
    ],
)
def test_a_corpus_that_cannot_be_tuned_on(
    toys: Callable, folder: Path, random_model: Callable[[str], Path], content: bytes, message: str
) -> None:
    (folder / "corpus.txt").write_bytes(content)
    said = toys(
        "-e", f"{random_model('bert')}+mirror", "-e", "letters", "-t", "cats", "--corpus", "./corpus.txt"
    ).assert_fails(1)
    assert message in " ".join(said.err.split())
    assert [path.parts[-3] for path in (folder / "results").rglob("seed-*.json")] == ["letters"]


def test_a_model_with_a_part_of_its_weights(toys: Callable, folder: Path, random_model: Callable[[str], Path]) -> None:
    shutil.copytree(random_model("bert"), folder / "model")
    (folder / "model" / "model.safetensors").write_bytes(b"cut off")
    toys("-e", "./model+base", "-e", "letters", "-t", "cats").assert_fails(1, "cannot be opened")
    assert [path.parts[-3] for path in (folder / "results").rglob("seed-*.json")] == ["letters"]


@pytest.mark.parametrize("encoder", ["./none", "./file", "x" * 300, "./" + "x" * 300])
def test_a_place_that_holds_no_model(toys: Callable, folder: Path, encoder: str) -> None:
    (folder / "file").write_text("x")
    toys("-e", f"{encoder}+base", "-t", "cats", "--offline").assert_fails(1, "Failed:")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', '{"schema": 99}'])
def test_a_broken_result_is_named(toys: Callable, folder: Path, content: str) -> None:
    assert toys("-e", "letters", "-t", "cats").code == 0
    broken = folder / "results" / "letters" / "dogs" / "seed-0.json"
    broken.parent.mkdir()
    broken.write_text(content)
    toys(command="leaderboard").assert_fails(1, "seed-0.json", out="")


@pytest.mark.parametrize(
    "command",
    [
        "run none.yaml", "run --plugin none.py", "run -e tiny+mirror -t quick-sts --corpus none.txt",
        "tune none.txt -e tiny -o enc", "tune none.jsonl -c a,b -e tiny -o enc", "encode none.txt -e tiny",
        "encode none.txt -e tiny -w", "leaderboard none", "leaderboard none.json", "compare tiny tiny -r none",
        "data import none", "data overlap none.txt quick-sts", "analyze isotropy -e tiny+base --texts none.txt",
        "analyze projection -e tiny+base --texts none.txt", "analyze curves none", "analyze frequency none",
        f"tune {'none' * 80} -e tiny -o enc",
    ],
)  # fmt: skip
def test_what_is_named_on_the_command_line_and_not_there(mirrorbench: Callable, folder: Path, command: str) -> None:
    mirrorbench(*command.split()).assert_fails(2, "none", out="")
    assert list(folder.iterdir()) == []


def test_damaged_archives_are_named_and_passed_over(mirrorbench: Callable, folder: Path) -> None:
    (folder / "file").write_text("x")
    mirrorbench("data", "import", "file").assert_fails(2, "no such folder")
    (folder / "in").mkdir()
    for name in ("a.zip", "b.tar.gz", "c.tgz"):
        (folder / "in" / name).write_bytes(b"PK\x03\x04 no archive at all")
    said = mirrorbench("data", "import", "in")
    assert said.code in (0, 1)
    shown = " ".join((said.out + said.err).split())
    assert all(name in shown for name in ("a.zip", "b.tar.gz", "c.tgz"))
    assert "is damaged" in shown
