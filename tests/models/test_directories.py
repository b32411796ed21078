from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from random_models import Models

import mirrorbench
from mirrorbench.core.errors import MirrorbenchError, UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.models import backbones

NOT_READ = "weights in GGUF, ONNX and the like are not read"


@pytest.mark.parametrize("name", [
    "./model.gguf", "model.Q4_K_M.gguf", "TheBloke/Llama-2-7B-GGUF", "nomic-embed.onnx", "~/m/model.tflite",
])  # fmt: skip
def test_formats_that_are_not_read(name: str) -> None:
    with pytest.raises(UsageError, match=NOT_READ) as refused:
        mirrorbench.load(name)
    assert name in refused.value.message
    assert "safetensors" in refused.value.hint


@pytest.mark.parametrize("file", ["onnx/model_qint8.onnx", "model.gguf", "tf_model.h5", "flax_model.msgpack"])
def test_a_directory_with_such_weights_alone(random_model: Models, tmp_path: Path, file: str) -> None:
    folder = tmp_path / "model-gguf"  # the name of a directory says nothing
    shutil.copytree(random_model("bert"), folder)
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).touch()
    assert backbones.locate(parse_spec(str(folder)), "en", True) == folder.resolve()
    (folder / "model.safetensors").unlink()
    with pytest.raises(MirrorbenchError, match=NOT_READ) as refused:
        mirrorbench.load(str(folder))
    assert file in refused.value.message
