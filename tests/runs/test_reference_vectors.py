"""Encoders whose vectors of fixed texts identify them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import numpy as np
import pytest
from numpy.typing import NDArray

from mirrorbench import Session
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.encoder_systems import EncoderContext
from mirrorbench.plugin import Register, hookimpl, load_plugins
from mirrorbench.runs.reference_vectors import identified


class Service:
    """A model behind a name: vectors vary by rounding, and another model may take its place."""

    fingerprint = "the-name"

    def __init__(self, model: int, rounding: float = 0.0) -> None:
        self.model = model
        self.rounding = rounding
        self.n_encoded = 0

    def encode(self, inputs: Sequence[TextInput]) -> NDArray[np.float32]:
        self.n_encoded += len(inputs)
        vectors = [self._vector(item.text) for item in inputs]
        return np.array(vectors, dtype=np.float32) * (1 + self.rounding)

    def _vector(self, text: str) -> NDArray[np.float64]:
        return np.random.default_rng([self.model, *text.encode()]).normal(size=8)

    def reference_vectors(self) -> NDArray[np.float32]:
        vectors = [self._vector(text) for text in ("a cat", "the river")]
        return np.array(vectors, dtype=np.float32) * (1 + self.rounding)

    def matches(self, stored: NDArray[np.float32]) -> bool:
        own = self.reference_vectors()
        return stored.shape == own.shape and bool(np.allclose(stored, own, rtol=1e-3))


def session_with(root: Path, service: Service) -> Session:
    """Return a session with the encoder ``service``."""

    class Plugin:
        @hookimpl
        def register_encoders(self, register: Register) -> None:
            register("service", open_service)

    def open_service(spec: EncoderSpec, context: EncoderContext) -> Service:
        return service

    plugins = load_plugins(discover=False)
    plugins.add(Plugin(), "services")
    return Session(root / "results", plugins=plugins, cache=root / "cache", device="cpu")


def scores(root: Path, service: Service) -> tuple[float, str]:
    """Return the score of a service on a task, and the fingerprint under which it is stored."""
    board = session_with(root, service).run("service", "quick-sts")
    (result,) = board.results
    return board["quick-sts"], result.encoder["fingerprint"]


def test_vectors_within_rounding_are_reused(tmp_path: Path) -> None:
    first = scores(tmp_path, Service(1))
    again = Service(1, rounding=1e-4)
    assert scores(tmp_path, again) == first
    assert again.n_encoded == 0


def test_another_model_of_the_same_name_is_another_encoder(tmp_path: Path) -> None:
    first = scores(tmp_path, Service(1))
    other = scores(tmp_path, Service(2))
    assert first[1] != other[1]
    assert first[0] != other[0]
    back = Service(1)
    assert scores(tmp_path, back) == first
    assert back.n_encoded == 0


def test_runs_that_start_together_have_one_identity(tmp_path: Path) -> None:
    everyone_is_asked = Barrier(2)

    class SlowService(Service):
        def reference_vectors(self) -> NDArray[np.float32]:
            with suppress(BrokenBarrierError):
                # Without a lease, both are asked before either stores its vectors.
                everyone_is_asked.wait(timeout=0.5)
            return super().reference_vectors()

    def fingerprint(rounding: float) -> str:
        folders = session_with(tmp_path, Service(1)).folders
        return identified(SlowService(1, rounding), folders).fingerprint

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(fingerprint, (0.0, 1e-4))
    assert first == second


@pytest.mark.parametrize("lost", ["cache", "results"])
def test_results_or_cache_alone_identify_the_model(tmp_path: Path, lost: str) -> None:
    first = scores(tmp_path, Service(1))
    shutil.rmtree(tmp_path / lost)
    again = Service(1, rounding=1e-4)
    assert scores(tmp_path, again) == first
    assert again.n_encoded == 0


def test_loading_an_encoder_makes_no_folder_of_results(tmp_path: Path) -> None:
    session_with(tmp_path, Service(1)).load("service").encode(["a cat"])
    assert not (tmp_path / "results").exists()


def test_damaged_reference_vectors_are_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = scores(tmp_path, Service(1))
    shutil.rmtree(tmp_path / "results")
    (file,) = tmp_path.rglob("references/*/*.npy")
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    assert scores(tmp_path, Service(1)) == first
    assert "are damaged" in caplog.text
    caplog.clear()
    assert scores(tmp_path, Service(1)) == first
    assert not caplog.text
