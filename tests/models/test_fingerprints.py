"""The fingerprint of a model's directory: what changes it, and what does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers.damaged_files import flip
from helpers.lora_adapters import adapted, half
from helpers.random_models import Models
from helpers.tokenizer_directories import KINDS

import mirrorbench
from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.models.backbones import backbone_folder, configuration, files_checksum
from mirrorbench.models.fingerprints import fingerprint
from mirrorbench.models.opening import reads_tokenizer_file


def test_fingerprint_follows_weights_and_settings(random_model: Models, tmp_path: Path) -> None:
    copy = shutil.copytree(random_model("bert"), tmp_path / "copy")
    actual = [fingerprint(random_model("bert")), fingerprint(copy)]
    (copy / "README.md").write_text("notes")
    actual.append(fingerprint(copy))
    assert len(set(actual)) == 1
    flip(copy / "model.safetensors")
    actual.append(fingerprint(copy))
    (copy / "config.json").write_text((copy / "config.json").read_text().replace("1e-12", "1e-6"))
    actual.append(fingerprint(copy))
    assert len(set(actual)) == 3


def test_adapter_identity_covers_adapter_and_backbone_files(
    random_model: Models, tmp_path: Path
) -> None:
    path = random_model("bert")
    moved = tmp_path / "other"
    transformer = adapted(path)
    for folder in (tmp_path / "one", moved):
        transformer.save(folder)
    settings = json.loads((moved / "adapter_config.json").read_text())
    changed = half(path, tmp_path / "half")
    (moved / "adapter_config.json").write_text(
        json.dumps(settings | {"base_model_name_or_path": str(changed)})
    )
    assert backbone_folder(tmp_path / "one") == path
    assert configuration(tmp_path / "one") == configuration(path)
    assert len({fingerprint(folder) for folder in (path, tmp_path / "one", moved)}) == 3
    gone = {"base_model_name_or_path": str(tmp_path / "gone")}
    (moved / "adapter_config.json").write_text(json.dumps(settings | gone))
    with pytest.raises(ModelUnavailableError, match="which is not available"):
        backbone_folder(moved)


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("bert uncased", False),
        ("bert cased", False),
        ("bert with stored padding", False),
        ("bert's class, unigram", True),
        ("roberta's class, lower case", True),
        ("llama with both ends stated", True),
    ],
)
def test_only_affected_models_have_another_fingerprint(
    name: str, differs: bool, tmp_path: Path
) -> None:
    KINDS[name].write(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert reads_tokenizer_file(tmp_path) == differs
    assert (fingerprint(tmp_path) != files_checksum(tmp_path)) == differs


def test_builtin_models_keep_their_fingerprints(minilm: Path) -> None:
    embedded = Path(mirrorbench.__file__).parent / "embedded" / "tiny"
    for folder in (minilm, embedded):
        assert fingerprint(folder) == files_checksum(folder)
