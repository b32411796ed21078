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
    [("a: !!python/object/apply:os.system [ls]\n", "tags are not allowed"), ("name: ../toy\n", "is missing")],
)
def test_a_card_of_a_plugin_that_is_hostile(mirrorbench: Callable, folder: Path, content: str, message: str) -> None:
    (folder / "card.yaml").write_text(content)
    (folder / "mine.py").write_text(PLUGIN.format(path=str(folder / "card.yaml")))
    said = mirrorbench("list", "tasks", "--plugin", "mine.py").assert_fails(2, "plugin mine.py failed", out="")
    assert message in " ".join(said.err.split())
    (folder / "mine.py").write_text("raise RuntimeError('[red]boom')")
    mirrorbench("list", "tasks", "--plugin", "mine.py").assert_fails(2, "mine.py failed: RuntimeError: [red]boom")


def test_what_cannot_be_opened_or_tuned_on_stops_no_other(
    toys: Callable, folder: Path, random_model: Callable[[str], Path]
) -> None:
    (folder / "corpus.txt").write_bytes(b"\0\1\2")
    model = shutil.copytree(random_model("bert"), folder / "model")
    (model / "model.safetensors").write_bytes(b"cut off")
    encoders = (f"{random_model('bert')}+mirror", "./model+base", "./none+base", f"./{'x' * 300}+base", "letters")
    named = [part for encoder in encoders for part in ("-e", encoder)]
    said = toys(*named, "-t", "cats", "--corpus", "./corpus.txt", "--offline")
    said.assert_fails(1, "a NUL byte", "cannot be opened", "there is no such directory", "too long", "Failed:")
    assert [path.parts[-3] for path in (folder / "results").rglob("seed-*.json")] == ["letters"]


def test_a_broken_result_is_named(toys: Callable, folder: Path) -> None:
    toys("-e", "letters", "-t", "cats").assert_works()
    (folder / "results" / "letters" / "cats" / "seed-0.json").write_text('{"schema": 99}')
    toys(command="leaderboard").assert_fails(1, "seed-0.json has schema 99", out="")


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
