"""A real model behind real servers: its vectors and scores are those of the model on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import helpers
import mirrorbench_endpoint
import numpy as np
import pytest

import mirrorbench
from mirrorbench.plugin import describe_model, load_plugins

pytestmark = [pytest.mark.full, pytest.mark.real]
KEY = "sk-of-the-server"
PATIENCE = 120.0
"""Seconds for a server to load its model."""
INFINITY = ("infinity-emb[server,torch]==0.0.78", "numpy<2")
"""What the environment of the server infinity needs; it is not installed beside mirrorbench, which needs a newer numpy."""


@dataclass(frozen=True)
class RunningServer:
    """A server with MiniLM that demands ``KEY``.

    Attributes:
        url: its address.
        tells_cut_texts: whether its counts of tokens tell which texts it cuts.
    """

    url: str
    tells_cut_texts: bool


@pytest.fixture
def model_folder() -> Path:
    folder = describe_model("minilm").folder
    if folder is None:
        pytest.skip("minilm is not installed")
    return folder


@pytest.fixture(scope="session")
def infinity_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server infinity in an environment of its own."""
    folder = tmp_path_factory.mktemp("infinity") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "-q", *INFINITY]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"infinity-emb cannot be installed: {installed.stderr[-300:]}")
    return folder / "bin" / "infinity_emb"


@pytest.fixture(params=["sentence-transformers", "infinity"])
def server(
    request: pytest.FixtureRequest, model_folder: Path, tmp_path: Path
) -> Iterator[RunningServer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if request.param == "infinity":
        program = request.getfixturevalue("infinity_program")
        command = [str(program), "v2", "--model-id", str(model_folder)]
        command += ["--served-model-name", "minilm", "--device", "cpu", "--no-bettertransformer"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--api-key", KEY]
        running = RunningServer(f"http://127.0.0.1:{port}", tells_cut_texts=False)
    else:
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
        script = Path(helpers.__file__).with_name("sentence_server.py")
        command = [sys.executable, str(script), str(model_folder), str(port), KEY]
        running = RunningServer(f"http://127.0.0.1:{port}/v1", tells_cut_texts=True)
    with started(command, port, tmp_path):
        yield running


@contextmanager
def started(command: Sequence[str], port: int, folder: Path) -> Iterator[None]:
    """Run a server until the end of the block."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while socket.socket().connect_ex(("127.0.0.1", port)):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
            yield
        finally:
            process.kill()


def test_scores_equal_those_of_the_model_itself(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    plugins = load_plugins(discover=False)
    plugins.add(mirrorbench_endpoint, "endpoint")
    session = mirrorbench.Session(
        tmp_path / "results", plugins=plugins, cache=tmp_path / "cache", device="cpu"
    )
    spec = f"endpoint:url={server.url},model=minilm,key_env=SERVER_KEY"
    texts = ["a cat", "the river " * 400, "the bridge " * 300, "Москва", ""]
    served = session.load(spec)
    local = session.load("minilm")
    first, second = served.encode(texts), local.encode(texts)
    cosines = (
        (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    )
    assert cosines.min() > 0.9999
    if server.tells_cut_texts:
        assert served.count_cut(texts).cut == local.count_cut(texts).cut == 2
    else:
        assert served.count_cut(texts).unknown
    board = session.run([spec, "minilm"], "quick-sts,quick-simlex")
    scores = [[score.mean for score in row.scores] for row in board.table.rows if row.spec]
    np.testing.assert_allclose(scores[0], scores[1], atol=5e-4)
