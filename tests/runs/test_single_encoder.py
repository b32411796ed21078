"""A single encoder, loaded without a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import mirrorbench
from mirrorbench.core.encoder_protocol import TextInput


def test_load_for_wic_encodes_target_words(random_model: Callable[[str], Path]) -> None:
    path = random_model("bert")
    whole = mirrorbench.load(path, device="cpu")
    target = mirrorbench.load(path, "wic", device="cpu")
    item = TextInput("the bank of it", ((4, 8),))
    assert whole.name.endswith("+base")
    assert np.abs(whole.encode([item]) - whole.encode(["the bank of it"])).max() == 0
    assert np.abs(target.encode([item]) - target.encode(["the bank of it"])).max() > 1e-3
    assert (
        whole.fingerprint != mirrorbench.load(f"{path}+base:pooling=cls", device="cpu").fingerprint
    )
