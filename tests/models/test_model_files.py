"""Weights in formats that are not read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.random_models import Models

import mirrorbench
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.models import backbones


def test_unsupported_weight_formats_are_refused(random_model: Models, tmp_path: Path) -> None:
    """The name or the files of a directory show the format."""
    for name in (
        "~/m/model.tflite",
        "model.Q4_K_M.gguf",
        "TheBloke/Llama-2-7B-GGUF",
        "nomic-embed.onnx",
    ):
        with pytest.raises(
            UsageError, match=f"{name}: weights in GGUF, ONNX and the like are not read"
        ) as refused:
            mirrorbench.load(name)
        assert "safetensors" in refused.value.hint
    folder = shutil.copytree(random_model("bert"), tmp_path / "model-gguf")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model_qint8.onnx").touch()
    assert backbones.locate(parse_spec(str(folder)), "en", offline=True) == folder.resolve()
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"model_qint8\.onnx: weights in GGUF"):
        mirrorbench.load(str(folder))
