"""Settings under which no encoder can be tuned and written."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.random_models import Models
from helpers.recording_reporter import Log
from helpers.tuning_lines import LINES
from safetensors.numpy import load_file

import mirrorbench
from mirrorbench.core.errors import UsageError


def test_unsupported_adapter_settings_are_rejected(random_model: Models, tmp_path: Path) -> None:
    folder, path = tmp_path / "enc", random_model("llama")
    for spec, merge, told in (
        ("+mirror", True, "no adapter that merge=True"),
        ("+mirror:lora=4,attention=bidirectional", False, "Add merge=True"),
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


def test_lengths_of_texts_are_said(random_model: Models, tmp_path: Path) -> None:
    texts = [f"short {n}" for n in range(4)] + [f"{n} " + "a " * n for n in (60, 70, 90)]
    log = Log()
    session = mirrorbench.Session(device="cpu", offline=True, reporter=log)
    spec = f"{random_model('bert')}+mirror:epochs=1"
    session.tune(texts, spec, tmp_path / "tuned", held_out=0)
    trained = [line for line in log.lines if "trained on" in line]
    assert trained == [
        f"{spec}: 3 of 7 texts are longer than 50 tokens: trained on the first 50; "
        "train_max_length=80 uses more"
    ]
    reads = "the encoder reads 80 tokens of a text"
    assert log.lines[-1] == f"{reads}: 1 of 7 texts is longer than 80 tokens and was cut"
