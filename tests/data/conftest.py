"""A web server for the tests of the data layer, and none."""

from __future__ import annotations

import socket

import pytest
from helpers.small_wordnet import wordnet_files
from helpers.web_server import server

__all__ = ["server", "wordnet_files"]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
