"""A web server for the tests of the data layer, and none."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from web_server import LocalServer


class Server(LocalServer):
    """``pages`` maps paths to what is served, ``failures`` to how often it fails before; ``asked`` logs requests."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, bytes] = {}
        self.failures: dict[str, int] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()

    def answer(self, path: str, agent: str) -> tuple[int, bytes, dict[str, str]]:
        self.asked.append(path)
        self.agents.add(agent)
        if self.failures.get(path, 0) > 0:
            self.failures[path] -= 1
            return 503, b"", {}
        return (200, self.pages[path], {}) if path in self.pages else (404, b"", {})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(
        "time.sleep", lambda seconds: None
    )  # pooch waits a second before it tries again
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as running:
        yield running


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
