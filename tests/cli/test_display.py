"""What commands share: the choice of a format, and the summary of what is missing."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from mirrorbench.cli import display
from mirrorbench.cli.display import chosen_format, print_rows, print_wrapped
from mirrorbench.core.errors import UnknownNameError
from mirrorbench.core.plugins import Registry
from mirrorbench.reports.table import Table
from mirrorbench.runs.registry import Renderer


def test_format_options_follow_the_renderer_signature() -> None:
    def shout(table: Table, *, loud: bool = False, times: int = 2, word: str = "") -> str:
        return f"{loud}{times}{word}"

    known: Registry[Renderer] = Registry("renderer")
    known.add("shout", Renderer(shout, (".loud",)), "here")
    assert chosen_format("", Path("a.loud"), known) == ("shout", {})
    with pytest.raises(
        UnknownNameError, match=r"ending of an output '\.html'"
    ):  # of a plugin that is left out
        chosen_format("", Path("a.html"), known)
    found = chosen_format("shout:loud=true,times=3,word=7", Path("a.md"), known)
    assert found == ("shout", {"loud": True, "times": 3, "word": "7"})


def test_missing_network_is_summarised_in_few_lines(
    mirrorbench: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """21 cells that lack seven data sets and a model: at most 15 lines, each host that did not answer named once."""
    unknown = Mock(side_effect=socket.gaierror(-2, "Name or service not known"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub"))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between two tries of a download
    said = mirrorbench(
        "run", "--encoder", "roberta", "--tasks", "sts", "--data-dir", "data"
    ).assert_fails(
        1,
        "21 of 21 cells",
        "  models  roberta-base\n",
        "data    sts12, sts13, sts14, sts15, sts16, stsb, sick",
    )
    assert len(said.err.splitlines()) <= 15
    hosts = next(line for line in said.err.splitlines() if line.startswith("No answer from"))
    assert hosts.count("huggingface.co") == hosts.count("raw.githubusercontent.com") == 1
    fetch = ("data", "fetch", "sts", "--data-dir", "data")
    said = mirrorbench(*fetch).assert_fails(
        1, "7 of 7 could not be fetched", "mirrorbench data fetch NAME"
    )
    assert len(said.err.splitlines()) <= 15


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes standard output a terminal of so many columns."""

    def made(width: int) -> None:
        console = Console(force_terminal=True, width=width, color_system=None)
        monkeypatch.setattr(display, "console", console)

    return made


@pytest.mark.parametrize("width", [30, 50, 80, 120])
def test_names_are_never_cut_in_listings(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str], width: int
) -> None:
    terminal(width)
    rows = [
        [
            "multisimlex-english",
            "word",
            "similarity of many word pairs in English",
            "mirrorbench.tasks",
        ],
        ["x" * 29, "word", "short", "mirrorbench.training.methods"],
    ]
    print_rows(["name", "level", "description", "plugin"], rows)
    shown = capsys.readouterr()
    words = set(shown.out.split())
    assert {row[0] for row in rows} <= words
    # A column is shown with whole words, or is named as left out.
    left_out = " ".join(shown.err.split()).partition("for: ")[2].partition(";")[0].split(", ")
    for position, column in enumerate(["level", "description", "plugin"], 1):
        complete = {word for row in rows for word in row[position].split()} <= words
        assert complete != (column in left_out)


def test_commands_of_notebooks_have_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = os.openpty()  # as a notebook makes for a line that begins with !
    with os.fdopen(follower, "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert display.console.is_terminal
        monkeypatch.setenv("JPY_PARENT_PID", "1")
        assert not display.console.is_terminal
    os.close(leader)


def test_force_color_does_not_make_a_pipe_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_rows(("name", "description"), [("first", "word " * 60)])
    assert capsys.readouterr().out == f"name\tdescription\nfirst\t{'word ' * 60}\n"


def test_wrapped_text_breaks_between_words(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(40)
    print_wrapped("  data  ", "missing: bc5cdr-chemical, multisimlex-en and more")
    assert capsys.readouterr().out.splitlines() == [
        "  data  missing: bc5cdr-chemical,",
        "        multisimlex-en and more",
    ]
