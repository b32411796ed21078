"""A web server for the tests of the data layer, and none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


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
