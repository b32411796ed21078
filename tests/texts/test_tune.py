"""Settings under which no encoder can be tuned and written."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.random_models import Models
from helpers.tuning_lines import LINES
from safetensors.numpy import load_file

import mirrorbench
from mirrorbench.core.errors import UsageError


def test_unsupported_adapter_settings_are_rejected(random_model: Models, tmp_path: Path) -> None:
    folder, path = tmp_path / "enc", random_model("llama")
    for spec, merge, told in (
        ("+mirror", True, "no adapter that --merge"),
        ("+mirror:lora=4,attention=bidirectional", False, "Add --merge"),
        ("+mirror:lora=-1", False, "out of range"),
        ("+mirror:lora=0.5", False, "not of type int"),
        ("+mirror:pooling=mean-padded", False, "mean-padded"),
    ):
        with pytest.raises(UsageError, match=told):
            mirrorbench.tune(LINES, f"{path}{spec}", folder, held_out=0, device="cpu", merge=merge)
    assert not folder.exists()
    mirrorbench.tune(LINES, f"{path}+mirror:lora=4", folder, held_out=0, device="cpu")
    with pytest.raises(UsageError, match="an adapter itself"):
        mirrorbench.tune(
            LINES, f"{folder}+mirror:lora=4", tmp_path / "next", held_out=0, device="cpu"
        )
    mirrorbench.tune(
        LINES, f"{folder}+mirror", tmp_path / "next", held_out=0, device="cpu"
    )  # merged first
    assert (
        load_file(tmp_path / "next" / "model.safetensors").keys()
        == load_file(path / "model.safetensors").keys()
    )
