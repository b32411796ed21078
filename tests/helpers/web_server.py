"""A web server on 127.0.0.1, for tests of what is fetched."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import pytest


class LocalServer:
    """Serves what ``answer`` returns, at ``url``, until the end of a ``with`` block."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                code, body, headers = server.answer(
                    self.path.partition("?")[0], self.headers["User-Agent"]
                )
                self.send_response(code)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, path: str, agent: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers for a path without its query."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()


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
