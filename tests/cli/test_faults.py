"""Hostile and broken input through the command line: one message, the right exit code, no traceback."""

from __future__ import annotations

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


@pytest.mark.parametrize("command", [
    "run none.yaml", "run --plugin none.py", "run -e tiny+mirror -t quick-sts --corpus none.txt",
    "tune none.txt -e tiny -o enc", "tune none.jsonl -c a,b -e tiny -o enc", "encode none.txt -e tiny",
    "encode none.txt -e tiny -w", "leaderboard none", "leaderboard none.json", "compare tiny tiny -r none",
    "data import none", "data overlap none.txt quick-sts", "analyze isotropy -e tiny+base --texts none.txt",
    "analyze projection -e tiny+base --texts none.txt", "analyze curves none", "analyze frequency none",
    f"tune {'none' * 80} -e tiny -o enc",
])  # fmt: skip
def test_what_is_named_on_the_command_line_and_not_there(mirrorbench: Callable, folder: Path, command: str) -> None:
    mirrorbench(*command.split()).assert_fails(2, "none", out="")
    assert list(folder.iterdir()) == []


def test_damaged_archives_are_named_and_passed_over(mirrorbench: Callable, folder: Path) -> None:
    (folder / "file").write_text("x")
    mirrorbench("data", "import", "file").assert_fails(2, "no such folder")
    (folder / "in").mkdir()
    names = ("a.zip", "b.tar.gz", "c.tgz")
    for name in names:
        (folder / "in" / name).write_bytes(b"PK\x03\x04 no archive at all")
    said = mirrorbench("data", "import", "in")
    assert said.code in (0, 1)
    shown = " ".join((said.out + said.err).split())
    assert [part for part in (*names, "is damaged") if part not in shown] == []
