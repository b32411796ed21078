"""A real model behind a server: its vectors and scores are those of the model on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import mirrorbench_endpoint
import numpy as np
import pytest

import mirrorbench
from mirrorbench.plugin import describe_model, load_plugins

pytestmark = [pytest.mark.full, pytest.mark.real]
PATIENCE = 120.0
"""Seconds for the server to load its model."""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the server of sentence_server.py, which demands a key."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    model = describe_model("minilm").folder
    if model is None:
        pytest.skip("minilm is not installed")
    monkeypatch.setenv("SERVER_KEY", "sk-of-the-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("sentence_server.py")
    command = [sys.executable, str(script), str(model), str(port), "sk-of-the-server"]
    with subprocess.Popen(command, cwd=tmp_path) as server:
        try:
            deadline = time.monotonic() + PATIENCE
            while socket.socket().connect_ex(("127.0.0.1", port)):
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


def test_scores_equal_those_of_the_model_itself(url: str, tmp_path: Path) -> None:
    plugins = load_plugins(discover=False)
    plugins.add(mirrorbench_endpoint, "endpoint")
    session = mirrorbench.Session(
        tmp_path / "results", plugins=plugins, cache=tmp_path / "cache", device="cpu"
    )
    spec = f"endpoint:url={url},model=minilm,key_env=SERVER_KEY"
    texts = ["a cat", "the river " * 400, "Москва", ""]
    served = session.load(spec)
    local = session.load("minilm")
    first, second = served.encode(texts), local.encode(texts)
    cosines = (
        (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    )
    assert cosines.min() > 0.9999
    assert served.count_cut(texts).cut == local.count_cut(texts).cut == 1
    board = session.run([spec, "minilm"], "quick-sts,quick-simlex")
    scores = [[score.mean for score in row.scores] for row in board.table.rows if row.spec]
    np.testing.assert_allclose(scores[0], scores[1], atol=5e-4)
