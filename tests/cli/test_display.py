"""What commands share: the choice of a format, and the summary of what is missing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from mirrorbench.cli.display import chosen_format
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
    said = mirrorbench(*fetch).assert_fails(1, "7 of 7 data sets", "mirrorbench data fetch NAME")
    assert len(said.err.splitlines()) <= 15
