"""Models are tried when they are opened, and refused where they cannot be used as planned."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.random_further_models import build_further
from helpers.random_models import Models
from safetensors.torch import load_file, save_file

import mirrorbench
from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError, TuningError, UsageError

LINES = [
    f"line {n} of a small corpus, about {word}"
    for n in range(3)
    for word in ("cats", "dogs", "letters")
]


def scaled(model: Path, into: Path, name: str, factor: float) -> Path:
    """A copy of a model with one tensor multiplied."""
    shutil.copytree(model, into)
    weights = load_file(model / "model.safetensors")
    weights[name] *= factor
    save_file(weights, into / "model.safetensors", {"format": "pt"})
    return into


@pytest.fixture
def session(tmp_path: Path) -> mirrorbench.Session:
    return mirrorbench.Session(tmp_path / "results", cache=tmp_path / "cache", device="cpu")


def test_padding_dependence_changes_identity_and_adds_note(
    session: mirrorbench.Session, tmp_path: Path, random_model: Models
) -> None:
    build_further("fnet", tmp_path / "fnet")
    for path, pads in ((tmp_path / "fnet", True), (random_model("bert"), None)):
        planned = session.plan([f"{path}+base:pooling=mean"], ["quick-sts"], limit=20)
        assert planned.cells[0].model.identity().get("equal_lengths") is pads
        (result,) = session.execute(planned).results
        assert any("depend on padding" in note for note in result.notes) == bool(pads)


def test_model_with_constant_vectors_is_refused(tmp_path: Path, random_model: Models) -> None:
    path = scaled(random_model("bert"), tmp_path / "bert", "embeddings.word_embeddings.weight", 0)
    with pytest.raises(ModelUnavailableError, match="returns the same vector for every text"):
        mirrorbench.load(f"{path}+base", device="cpu")


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path, random_model: Models) -> None:
    shutil.copytree(random_model("gpt2"), tmp_path / "gpt2")
    file = tmp_path / "gpt2" / "tokenizer_config.json"
    names = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    file.write_text(json.dumps(json.loads(file.read_text()) | names))
    with pytest.raises(
        ModelUnavailableError,
        match="returns token types, which change the vectors of the gpt2 model",
    ):
        mirrorbench.load(tmp_path / "gpt2", device="cpu")


def test_collapsed_tuning_raises_a_tuning_error(tmp_path: Path, random_model: Models) -> None:
    spec = f"{random_model('bert')}+mirror:lr=1,epochs=4"
    for _ in range(2):  # also from the cache
        with pytest.raises(
            TuningError, match="returns the same vector for every text after its tuning"
        ) as caught:
            mirrorbench.tune(
                [f"text {n}" for n in range(8)], spec, tmp_path / "enc", held_out=0, device="cpu"
            )
        assert "lower lr than 1." in caught.value.hint


def test_tuned_model_overflowing_in_fp16_is_kept(tmp_path: Path, random_model: Models) -> None:
    """It is refused after its tuning, which showed nothing of that in fp32; asked for in fp32 it is not tuned again."""
    path = scaled(
        random_model("t5"),
        tmp_path / "model",
        "encoder.block.0.layer.1.DenseReluDense.wo.weight",
        1e7,
    )
    single, half = (
        mirrorbench.Session(
            cache=tmp_path / "cache", device="cpu", precision="fp32", eval_precision=precision
        )
        for precision in ("fp32", "fp16")
    )
    with pytest.raises(UsageError, match="not finite"):
        half.load(f"{path}+base")  # untuned
    assert np.isfinite(single.load(f"{path}+base").encode(["a text", "another"])).all()
    with pytest.raises(UsageError, match="not finite"):
        half.tune(LINES, f"{path}+mirror:epochs=1", tmp_path / "out", held_out=0)
    assert not (tmp_path / "out").exists()
    (stored,) = (tmp_path / "cache" / "models").glob("*/model.safetensors")
    before = stored.stat().st_mtime_ns
    single.tune(LINES, f"{path}+mirror:epochs=1", tmp_path / "out", held_out=0)
    assert (tmp_path / "out").is_dir()
    assert stored.stat().st_mtime_ns == before


def test_untunable_model_is_refused_before_tuning(
    session: mirrorbench.Session, tmp_path: Path
) -> None:
    build_further("reformer", tmp_path / "reformer")
    with pytest.raises(MirrorbenchError, match="texts of all lengths") as caught:
        session.tune(LINES, f"{tmp_path / 'reformer'}+mirror", tmp_path / "out", held_out=0)
    assert re.search(r"Write \S+\+base$", caught.value.hint)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "cache" / "models").exists()


@pytest.mark.parametrize("model_type", ["fsmt", "squeezebert"])
def test_dropout_applies_to_fsmt_and_squeezebert(
    session: mirrorbench.Session, tmp_path: Path, model_type: str
) -> None:
    build_further(model_type, tmp_path / model_type)
    tuned = session.tune(LINES, f"{tmp_path / model_type}+mirror", tmp_path / "out", held_out=0)
    assert tuned.recipe.rate("dropout") > 0
