"""Other libraries must read the vectors of an encoder from its directory before anybody gets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.tuning_lines import LINES
from safetensors.numpy import load_file, save_file

import mirrorbench
from mirrorbench.core.errors import ReadBackError
from mirrorbench.texts.export import write_encoder


def break_weights(folder: Path, factor: float = 1.1) -> None:
    """Let one of the tensors be another, or be missing."""
    tensors = load_file(folder / "model.safetensors")
    name = "encoder.layer.1.output.dense.weight"
    changed = tensors.pop(name) * factor
    save_file(
        {**tensors, **({name: changed} if factor else {})},
        folder / "model.safetensors",
        {"format": "pt"},
    )


def break_pooling(folder: Path) -> None:
    """In a file that sentence-transformers alone reads."""
    file = folder / "1_Pooling" / "config.json"
    maximum = {
        "pooling_mode_cls_token": False,
        "pooling_mode_max_tokens": True,
        "pooling_mode_mean_tokens": False,
    }
    file.write_text(json.dumps(json.loads(file.read_text()) | maximum))


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (break_weights, "transformers .* reads other vectors from it"),
    (lambda folder: break_weights(folder, 0), "transformers .* cannot read it .*missing 1 tensors"),
    (break_pooling, "sentence-transformers .* reads other vectors from it"),
]


def test_export_failing_its_read_back_is_discarded(
    tmp_path: Path, exported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, folder = f"{exported.backbone}+mirror:layers=-1:", tmp_path / "enc"
    before = exported.copy(folder)
    for damage, message in DAMAGE:

        def write(target: Path, *rest: Any, damage: Callable[[Path], None] = damage) -> None:
            write_encoder(target, *rest)
            damage(target)

        with monkeypatch.context() as patch:
            patch.setattr("mirrorbench.texts.tune.write_encoder", write)
            with pytest.raises(ReadBackError, match=message) as caught:
                mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", force=True)
        assert "in the cache" in caught.value.hint
        assert {path.name for path in tmp_path.iterdir()} == {"enc", "default-cache"}
        assert (folder / "model.safetensors").read_bytes() == before
        monkeypatch.setattr(
            "mirrorbench.runs.encoder_loading.tune_model",
            lambda *rest: pytest.fail("it is in the cache"),
        )
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", force=True)
    assert (folder / "model.safetensors").read_bytes() != before
