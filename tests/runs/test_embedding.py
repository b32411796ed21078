"""Encoding of what the cache does not have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.toy_plugin import ToyEncoder

import mirrorbench
from mirrorbench.runs import embedding
from mirrorbench.runs.outcomes import Reporter


class Encoding(Reporter):
    """Keeps how many texts were encoded at a time."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.counts: list[int] = []

    def stage(self, name: str, of: str, total: int = 0, unit: str = "") -> None:
        self.stages.append(name)

    def advance(self, n: int) -> None:
        if self.stages[-1] == "encoding":
            self.counts.append(n)


class Lengths:
    """An encoder system of the lengths of texts."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)


def test_encoder_systems_report_progress_while_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "TEXTS_PER_CALL", 2)
    rows = [f"{'a' * n},{'b' * n * n},{n % 3}\n" for n in range(1, 5)]
    (tmp_path / "a.csv").write_text("sentence1,sentence2,score\n" + "".join(rows))
    reporter = Encoding()
    board = mirrorbench.evaluate(Lengths(), f"{tmp_path}/a.csv", reporter=reporter, device="cpu")
    assert not board.failures
    assert reporter.counts == [2, 2, 2, 2]


def test_encoder_systems_state_their_texts_per_call_for_every_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ToyEncoder):
        texts_per_call = 3

    monkeypatch.setattr(embedding, "device_type", lambda device: "cuda")
    rows = [f"{'a' * n},{'b' * n * n},{n % 3}\n" for n in range(1, 5)]
    (tmp_path / "a.csv").write_text("sentence1,sentence2,score\n" + "".join(rows))
    reporter = Encoding()
    board = mirrorbench.evaluate(Slow(), f"{tmp_path}/a.csv", reporter=reporter, device="cpu")
    assert not board.failures
    assert reporter.counts == [3, 3, 2]
