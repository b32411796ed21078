"""Model directories that are damaged, incomplete or hostile: nothing is run, nothing is made up, one clear error."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.core.specs import parse_spec
from mirrorbench.models import backbones
from mirrorbench.models.fingerprints import fingerprint
from mirrorbench.models.transformer import load_transformer

CPU = torch.device("cpu")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\n"


@pytest.fixture
def model(random_model: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a good model, to be spoilt."""
    return Path(shutil.copytree(random_model("bert"), tmp_path / "model"))


def opened(path: Path) -> Any:
    """A backbone as a run opens it: located, hashed, configured, loaded."""
    found = backbones.locate(parse_spec(str(path)), "en", offline=True)
    fingerprint(found)
    backbones.configuration(found)
    return load_transformer(found, CPU)


def pickled(model: Path, value: Any, **how: Any) -> None:
    (model / "model.safetensors").unlink()
    torch.save(value, model / "pytorch_model.bin", **how)


def configured(model: Path, **changes: Any) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | changes))


class Evil:
    """Touches a file when it is unpickled without restraint."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return (Path.touch, (self.proof,))


@pytest.mark.parametrize("zipped", [True, False])
def test_pickle_of_plain_tensors_is_opened(model: Path, zipped: bool) -> None:
    wanted = load_file(model / "model.safetensors")
    pickled(model, wanted, _use_new_zipfile_serialization=zipped)
    state = opened(model).model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in wanted.items())


@pytest.mark.parametrize("form", ["zip", "legacy", "bare"])
def test_pickle_with_code_is_refused_and_not_run(model: Path, form: str) -> None:
    evil = {"weights": torch.zeros(2), "x": Evil(model / "proof")}
    pickled(model, evil, _use_new_zipfile_serialization=form == "zip")
    if form == "bare":
        (model / "pytorch_model.bin").write_bytes(pickle.dumps(evil["x"]))
    with pytest.raises(ModelUnavailableError, match="not opened") as caught:
        opened(model)
    assert "convert them to safetensors" in caught.value.hint
    assert not (model / "proof").exists()


@pytest.mark.parametrize(
    "value", [{}, {"a": 1}, {"other.weight": torch.zeros(2)}, [1, 2], 5, torch.nn.Linear(2, 2)]
)
def test_pickle_without_model_weights_is_refused(model: Path, value: Any) -> None:
    pickled(model, value)
    with pytest.raises(ModelUnavailableError, match=r"missing 5|cannot be opened|not opened"):
        opened(model)


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_truncated_weights_are_refused(model: Path, file: str) -> None:
    if file == "pytorch_model.bin":
        pickled(model, load_file(model / "model.safetensors"))
    whole = (model / file).read_bytes()
    for content in (b"", POINTER, b"\xff" * 8 + b"{}", whole[: len(whole) // 2]):
        (model / file).write_bytes(content)
        with pytest.raises(ModelUnavailableError, match=r"cannot be opened|not opened"):
            opened(model)


def test_missing_weights_are_not_randomly_initialised(model: Path) -> None:
    state = load_file(model / "model.safetensors")
    parts = [name for name in state if "pooler." not in name]  # it is unused
    save_file(
        {name: state[name] for name in parts},
        model / "model.safetensors",
        metadata={"format": "pt"},
    )
    assert opened(model).n_parameters > 0
    parts = [name for name in parts if "layer.1." not in name]
    save_file(
        {name: state[name] for name in parts},
        model / "model.safetensors",
        metadata={"format": "pt"},
    )
    message = r"missing 16 tensors of a bert model .encoder\.layer\.1.*random numbers"
    with pytest.raises(ModelUnavailableError, match=message):
        opened(model)


def test_model_without_tokenizer_is_refused(model: Path) -> None:
    (model / "tokenizer.json").unlink()
    (model / "tokenizer_config.json").unlink()
    with pytest.raises(ModelUnavailableError, match=r"tokenizer in .* has no vocabulary") as caught:
        opened(model)
    assert "vocab.txt" in caught.value.hint


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tokenizer.json", "[]", "cannot be opened"),
        ("tokenizer.json", "{}", "cannot be opened"),
        ("tokenizer_config.json", "[]", "cannot be opened"),
        ("tokenizer_config.json", "{", "cannot be opened"),
        ("config.json", "", r"config\.json cannot be read"),
        ("config.json", "[]", r"config\.json is not a JSON object of settings"),
        ("config.json", '"bert"', r"config\.json is not a JSON object of settings"),
        ("config.json", "[" * 100_000, r"config\.json cannot be read"),
        ("config.json", "\0\ud7ff", r"config\.json cannot be read"),
    ],
)
def test_malformed_tokenizer_or_config_file_is_refused(
    model: Path, file: str, content: str, message: str
) -> None:
    (model / file).write_text(content, encoding="utf-8")
    with pytest.raises(ModelUnavailableError, match=message):
        opened(model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "no-such-architecture"}, "cannot be opened: .*no-such-architecture"),
        ({"model_type": 5}, "cannot be opened"),
        ({"model_type": "vit"}, "missing 36 tensors of a vit model"),
        ({"hidden_size": "x"}, "cannot be opened: .*hidden_size"),
        ({"hidden_size": -1}, "cannot be opened"),
        ({"hidden_size": 0}, "cannot be opened"),
        ({"hidden_size": 10**9}, r"other shapes than its config\.json"),
        ({"num_hidden_layers": 9}, "missing 96 tensors of a bert model"),
        ({"hidden_dropout_prob": 7}, "cannot be opened: .*dropout"),
        ({"vocab_size": 3}, r"other shapes than its config\.json"),
    ],
)
def test_unsupported_or_inconsistent_config_is_refused(
    model: Path, changes: dict[str, Any], message: str
) -> None:
    configured(model, **changes)
    with pytest.raises(ModelUnavailableError, match=message):
        opened(model)


def test_path_without_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name, message in (
        ("none", "there is no such directory"),
        ("file", "it is a file"),
        ("", r"holds no config\.json"),
        ("x" * 300, "too long"),
    ):
        with pytest.raises(ModelUnavailableError, match=message) as caught:
            opened(tmp_path / name)
        assert caught.value.hint
