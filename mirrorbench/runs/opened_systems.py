"""Encoder systems that were opened before planning, kept for the run that encodes with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.core.specs import EncoderSpec

SystemKey = tuple[EncoderSpec, Path | None, str]
"""Spec, directory of the backbone of a method that creates an encoder, and precision."""


class OpenedSystems:
    """Opened encoder systems, each of which is kept until it is taken."""

    def __init__(self) -> None:
        self._opened: dict[SystemKey, Encoder] = {}

    def get(self, key: SystemKey, open_system: Callable[[], Encoder]) -> Encoder:
        """Return the encoder of a key, opened now or before."""
        if key not in self._opened:
            self._opened[key] = open_system()
        return self._opened[key]

    def keep(self, key: SystemKey, encoder: Encoder) -> None:
        """Keep an encoder that is open already."""
        self._opened[key] = encoder

    def take(self, key: SystemKey, open_system: Callable[[], Encoder]) -> Encoder:
        """Return the encoder of a key, and forget it, so that it is freed after its cells."""
        encoder = self.get(key, open_system)
        del self._opened[key]
        return encoder
