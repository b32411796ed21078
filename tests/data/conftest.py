"""Cards, files and a web server made up for the tests of the data layer."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mirrorbench.data.cards import Card, DataFile, Source


class Server:
    """A web server on 127.0.0.1: ``pages`` maps paths to what is served, ``asked`` logs the requests."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.failures: dict[str, int] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.agents.add(self.headers["User-Agent"])
                if server.failures.get(self.path, 0) > 0:
                    server.failures[self.path] -= 1
                    self.send_error(503)
                elif self.path in server.pages:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(server.pages[self.path])))
                    self.end_headers()
                    self.wfile.write(server.pages[self.path])
                else:
                    self.send_error(404)

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # pooch waits a second before it tries again
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = Server()
    yield running
    running.close()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


@pytest.fixture
def make_file() -> Callable[..., DataFile]:
    def make(content: bytes, *sources: Source, path: str = "a.txt", split: str = "") -> DataFile:
        return DataFile(path, hashlib.sha256(content).hexdigest(), len(content), split, sources)

    return make


@pytest.fixture
def make_card() -> Callable[..., Card]:
    def make(*files: DataFile, **changes: Any) -> Card:
        values: dict[str, Any] = {
            "name": "toy",
            "kind": "pair-similarity",
            "title": "a toy",
            "level": "sentence",
            "languages": ("en",),
            "metric": "spearman",
            "parser": "sts",
            "files": files,
            "licence": "CC0",
            "licence_url": "https://example.org/cc0",
            "redistributable": True,
            "citation": "@misc{toy}",
            "homepage": "https://example.org",
            "version": 1,
        }
        return Card(**(values | changes))

    return make
