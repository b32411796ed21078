"""A server on this machine that answers ``/v1/embeddings`` as a test wants, rightly or wrongly."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


@dataclass
class Reply:
    """What the server sends back; ``cut`` closes the connection instead."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


def vector(text: str, model: str = "right", dimensions: int = 6) -> list[float]:
    """Return the vector of a text by a model."""
    seed = int.from_bytes(hashlib.sha256(f"{model}/{text}".encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=dimensions).astype(np.float32).tolist()


def embeddings(
    texts: Sequence[str], model: str = "right", tokens: int = 0, counts_characters: bool = False
) -> dict[str, Any]:
    """Return a right answer; with ``tokens``, a window of so many words, after which texts are cut."""
    words = [text.split() for text in texts]
    counts = [min(len(text), tokens or len(text)) for text in words]
    read = [" ".join(text[:count]) for text, count in zip(words, counts, strict=True)]
    if counts_characters:
        counts = [len(text) for text in texts]
    data = [
        {"object": "embedding", "index": i, "embedding": vector(text, model)}
        for i, text in enumerate(read)
    ]
    usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    return {"object": "list", "model": model, "data": data, "usage": usage}


def refusal(message: str, status: int = 400) -> Reply:
    return Reply({"error": {"message": message, "type": "invalid_request_error"}}, status)


Answer = Callable[[list[str], int], Reply]
"""``(texts, number of the request from 1) -> reply``."""


@dataclass
class Server:
    """A running server: its address, and what was asked of it."""

    url: str
    requests: list[list[str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def serving(
    answer: Answer, models: Sequence[dict[str, Any]] = (), list_faults: int = 0
) -> Iterator[Server]:
    """Run a server until the end of the block, whose list of models fails a few times first."""
    running = Server("")
    faults_left = [Reply({}, 503)] * list_faults
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if faults_left:
                self.reply(faults_left.pop())
            elif models:
                self.reply(Reply({"object": "list", "data": list(models)}))
            else:
                self.reply(refusal("no such path", 404))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                running.requests.append(asked["input"])
                running.headers.append(dict(self.headers))
                number = len(running.requests)
            self.reply(answer(asked["input"], number))

        def reply(self, reply: Reply) -> None:
            if reply.cut:
                self.close_connection = True
                self.connection.close()
                return
            content = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    running.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
